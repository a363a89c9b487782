#include "runtime/fiber/context.h"

#include <pthread.h>

#include <cerrno>

#if HEDDLE_BOOST_SWITCH
#include <boost/context/detail/fcontext.hpp>
#endif
#if HEDDLE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace heddle::core {
namespace {

#if HEDDLE_BOOST_SWITCH
// What travels with the jump: the other side stores the left context's handle, then clears `inside` (same order as the
// inlined switch).
struct baton {
  waitable* from;
  detail::carrier_head* on;
  void (*entry)();
};

void land(boost::context::detail::transfer_t arrived) noexcept {
  auto* b = static_cast<baton*>(arrived.data);
  detail::carrier_head* on = b->on;  // b lies on the left stack: gone once sp is published
  b->from->sp.store(arrived.fctx, release);
  on->inside.store(0, release);
}

void (*first_entry)() = nullptr;  // the same function for every fiber

void boost_entry(boost::context::detail::transfer_t arrived) {
  land(arrived);
  first_entry();
  __builtin_trap();
}
#endif

#if HEDDLE_ASAN
// ASan wants the bounds of the stack that is entered; a carrier's own stack is asked from pthread once.
struct bounds {
  const void* low;
  size_t size;
};

bounds bounds_of(waitable& f) noexcept {
  auto& record = static_cast<fiber_record&>(f);
  return {record.stack_low, static_cast<size_t>(record.stack_top - record.stack_low)};
}
#endif

}  // namespace

void prepare_context(fiber_record& fiber, void (*entry)()) noexcept {
#if HEDDLE_TSAN
  // A new one each time: the last fiber of this record never returned from its frames, and TSan's shadow of them would pile up.
  // Not earlier: TSan knows at most some 8000 threads and fibers at once, and a slab makes 1024 records.
  if (fiber.sanitizer) __tsan_destroy_fiber(fiber.sanitizer);
  fiber.sanitizer = __tsan_create_fiber(0);
#endif
  const auto top = reinterpret_cast<uintptr_t>(fiber.frame != nullptr ? fiber.frame : fiber.stack_top) & ~uintptr_t{15};
#if HEDDLE_BOOST_SWITCH
  first_entry = entry;
  void* base = reinterpret_cast<void*>(top);
  fiber.sp.store(
      boost::context::detail::make_fcontext(base, top - reinterpret_cast<uintptr_t>(fiber.stack_low), boost_entry),
      release);
#elif defined(__x86_64__)
  auto** slot = reinterpret_cast<void**>(top);
  *--slot = nullptr;  // return address: nobody called
  *--slot = reinterpret_cast<void*>(entry);
  fiber.sp.store(slot, release);
#elif defined(__aarch64__)
  auto** slot = reinterpret_cast<void**>(top) - 4;  // x29, x19, pc, padding: what raw_switch pops
  slot[0] = nullptr;
  slot[1] = nullptr;
  slot[2] = reinterpret_cast<void*>(entry);
  fiber.sp.store(slot, release);
#endif
}

void clean_stack([[maybe_unused]] fiber_record& fiber) noexcept {
#if HEDDLE_ASAN
  // Frames that were left by the last switch are still poisoned; the next closure is written over them.
  ASAN_UNPOISON_MEMORY_REGION(fiber.stack_low, static_cast<size_t>(fiber.stack_top - fiber.stack_low));
#endif
}

void drop_context([[maybe_unused]] fiber_record& fiber) noexcept {
#if HEDDLE_TSAN
  if (fiber.sanitizer) __tsan_destroy_fiber(fiber.sanitizer);
  fiber.sanitizer = nullptr;
#endif
}

void adopt_thread([[maybe_unused]] fiber_record& idle, [[maybe_unused]] std::span<char> own) noexcept {
#if HEDDLE_TSAN
  idle.sanitizer = __tsan_get_current_fiber();
#endif
#if HEDDLE_ASAN
  if (!own.empty()) {
    idle.stack_low = own.data();
    idle.stack_top = own.data() + own.size();
    return;
  }
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  void* low = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  idle.stack_low = static_cast<char*>(low);
  idle.stack_top = idle.stack_low + size;
#endif
}

#if HEDDLE_SWITCH_INSIDE
#if HEDDLE_TSAN
__attribute__((no_sanitize("thread")))
#endif
void switch_inside(waitable& from, waitable& to, detail::carrier_head& on, [[maybe_unused]] bool last) noexcept {
#if defined(HEDDLE_INTERLEAVE)
  interleave_point();
  show_own_stores();
#endif
  void* target = to.sp.load(acquire);
  [[maybe_unused]] const int wanted = errno;  // already the target's; the sanitizers map memory and may lose it
#if HEDDLE_ASAN
  void* fake = nullptr;
  const bounds there = bounds_of(to);
  __sanitizer_start_switch_fiber(last ? nullptr : &fake, there.low, there.size);
#endif
#if HEDDLE_TSAN
  // The two stores of the switch, in a form that TSan sees. It orders the fibers of a carrier as their kernel thread does; the
  // orders between carriers are the code's own.
  __tsan_acquire(&to.sp);
  __tsan_release(&from.sp);
  __tsan_release(&on.inside);
  __tsan_switch_to_fiber(static_cast<fiber_record&>(to).sanitizer, 0);
#endif
  if (errno != wanted) errno = wanted;
#if HEDDLE_BOOST_SWITCH
  baton b{&from, &on, nullptr};
  land(boost::context::detail::jump_fcontext(target, &b));
#else
  detail::raw_switch(&from.sp, target, &on.inside);
#endif
#if HEDDLE_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void entered_context([[maybe_unused]] fiber_record& me) noexcept {
#if HEDDLE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
#if HEDDLE_TSAN
  __tsan_acquire(&me.sp);  // pairs with prepare_context
#endif
}
#endif

}  // namespace heddle::core
