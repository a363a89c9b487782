// What a fiber's stack looks like before its first run, and the switch of the builds that cannot inline it: sanitizers must be
// told on both sides, Boost.Context brings a switch of its own. Everybody else switches in heddle/detail/switch.h.
#pragma once

#include <span>

#include "heddle/detail/switch.h"
#include "runtime/fiber/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#define HEDDLE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HEDDLE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEDDLE_TSAN 1
#endif
#endif
#ifndef HEDDLE_ASAN
#define HEDDLE_ASAN 0
#endif
#ifndef HEDDLE_TSAN
#define HEDDLE_TSAN 0
#endif
#ifndef HEDDLE_BOOST_SWITCH
#define HEDDLE_BOOST_SWITCH (!HEDDLE_INLINE_SWITCH)
#endif
#if HEDDLE_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(HEDDLE_INTERLEAVE)  // the switch's stores must not pass those that wait
#define HEDDLE_SWITCH_INSIDE 1
#else
#define HEDDLE_SWITCH_INSIDE (HEDDLE_ASAN || HEDDLE_TSAN || HEDDLE_BOOST_SWITCH)
#endif

namespace heddle::core {

// Sets sp so that the first switch to the fiber calls entry() on its stack, 16-byte aligned, with no caller above it.
void prepare_context(fiber_record& fiber, void (*entry)()) noexcept;

// The stack is about to serve another fiber (its closure is written first). What the sanitizers remember of the last one goes.
void clean_stack(fiber_record& fiber) noexcept;
// The record goes.
void drop_context(fiber_record& fiber) noexcept;
// The stack a carrier begins on becomes a fiber record (its idle fiber): `own`, or the kernel thread's where that is empty.
void adopt_thread(fiber_record& idle, std::span<char> own) noexcept;

#if HEDDLE_SWITCH_INSIDE
// Saves `from`, clears on->inside after its sp is stored, continues `to`. `last`: from never runs again (its fake stack goes).
void switch_inside(waitable& from, waitable& to, detail::carrier_head& on, bool last) noexcept;
// First thing a fresh fiber does.
void entered_context(fiber_record& me) noexcept;
#else
inline void entered_context(fiber_record&) noexcept {}
#endif

}  // namespace heddle::core
