// Waiting in a list, out of line: for primitives where the switch's return into a library function does not matter. The hot
// ones (semaphore, channel) return a switch_target to an inlined stub instead.
#pragma once

#include "runtime/sched/suspend.h"

namespace heddle::core {

// The carrier of this thread, read by a call that no compiler can remember over a switch.
carrier* carrier_now() noexcept;

// Inside c's bracket, `l` locked: publishes the running fiber, unlocks, arms the deadline, runs others. Returns how the wait
// ended; after timed_out or cancelled the fiber is off the list.
wait_phase block(carrier& c, worker& w, wait_list& l, wait_kind kind, int64_t deadline, bool front = false);

// The same for a plain thread: `l` locked by the caller; false: timed out (off the list then).
bool block_thread(thread_waiter& me, wait_list& l, int64_t deadline, bool front = false);

// After the end of a wait that was not a notification: off the list (L4).
void leave_list(fiber_record& me, wait_list& l) noexcept;

// The end of an operation that claimed at most one waiter: leaves c's bracket (null: a plain thread) and wakes f (null: nobody).
void leave_and_wake(carrier* c, worker* w, waitable* f, waker_intent intent = waker_intent::goes_on) noexcept;

}  // namespace heddle::core
