// The library's context switch without the library: stacks, and the inlined switch of heddle/detail/switch.h between them.
#pragma once

#include <heddle/detail/switch.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/fiber/context.h"

namespace heddle::bench::micro {

// Builds that must tell a sanitizer of every switch, or that switch by Boost.Context, have no bare one.
inline constexpr bool bare_switch_exists = !HEDDLE_SWITCH_INSIDE;

class bare_context {
 public:
  static constexpr size_t stack_bytes = 16 * 1024;

  bare_context() = default;  // the stack of whoever switches away from it
  // Starts in entry(), which must not return. `colour` moves the top: equal page offsets would fight for the same sets of L1.
  bare_context(void (*entry)(), size_t colour) : stack_(new std::byte[stack_bytes]) {
    auto top = reinterpret_cast<uintptr_t>(stack_.get()) + stack_bytes;
    top = (top - colour % 32 * 64) & ~uintptr_t{15};
#if defined(__aarch64__)
    auto* frame = reinterpret_cast<void**>(top - 32);
    frame[2] = reinterpret_cast<void*>(entry);
#else
    auto* frame = reinterpret_cast<void**>(top - 16);  // popped, it leaves the stack as a call would
    frame[0] = reinterpret_cast<void*>(entry);
#endif
    sp = frame;
  }

  void* sp = nullptr;

 private:
  std::unique_ptr<std::byte[]> stack_;
};

[[gnu::always_inline]] inline void bare_switch(bare_context& from, const bare_context& to) {
  static uint32_t inside;  // the word that the library clears on the way
  detail::raw_switch(&from.sp, to.sp, &inside);
}

}  // namespace heddle::bench::micro
