// Broken invariants stop the program with file, line and, inside a fiber, who was running.
// HEDDLE_ASSERT stays on in every build; HEDDLE_DEBUG_ASSERT is for the ones a benchmark can feel.
#pragma once

namespace heddle::core {

// Writes one line and aborts. Allocates nothing, takes no lock.
[[noreturn]] void check_failed(const char* what, const char* file, int line) noexcept;

// The runtime names the running fiber here, so that this layer needs to know no fiber. May be null.
using who_fn = void (*)(char* out, unsigned long size);
void set_check_context(who_fn who) noexcept;

}  // namespace heddle::core

#define HEDDLE_ASSERT(condition) \
  (__builtin_expect(!(condition), 0) ? ::heddle::core::check_failed(#condition, __FILE__, __LINE__) : (void)0)

#if defined(HEDDLE_DEBUG_CHECKS)
#define HEDDLE_DEBUG_ASSERT(condition) HEDDLE_ASSERT(condition)
#else
#define HEDDLE_DEBUG_ASSERT(condition) ((void)0)
#endif
