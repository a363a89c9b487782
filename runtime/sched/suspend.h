// How an operation that gives up its cpu ends: choose the next fiber, hand over what belongs to the thread, and return the two
// ends of the switch to the inlined stub. Inside the bracket; the switch itself leaves it (B2).
#pragma once

#include "heddle/detail/switch.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/wait.h"

namespace heddle::core {

using detail::switch_target;

inline constexpr switch_target nowhere{nullptr, nullptr};

void count_migration(worker& w, cpu_id from) noexcept;  // wake.cpp

// Ready work remains here, a cpu of this cache idles, and nobody searches: half of what may move goes there (design 2b rule 6).
[[gnu::always_inline]] inline void maybe_chain(scheduler& s, worker& w) noexcept {
  if (w.row->movable.load(relaxed) == 0) return;
  idle_set& near = s.idle_set_of(w);
  if (near.idle.load(relaxed) != 0 && near.searching.load(relaxed) == 0) s.chain(w);
}

[[gnu::always_inline]] inline switch_target commit(carrier& c, worker& w, waitable& from, waitable& to,
                                                   [[maybe_unused]] bool last = false) noexcept {
  while (__builtin_expect(to.sp.load(acquire) == nullptr, 0)) {  // F1: still on the cpu it leaves
    if (is_planted(mutant::resume_unsaved)) break;
    w.count.add(counter::waited_switch);
    c.home->on->relax();
  }
  const auto here = static_cast<int16_t>(w.cpu);
  // One test on the common path: it runs where it ran, and accounting has nothing to say of it.
  if (__builtin_expect((to.cpu != here) | (to.account.load(relaxed) != 0), 0)) {
    if (to.cpu != here) count_migration(w, to_cpu(static_cast<size_t>(to.cpu)));
    to.cpu = here;
    if (to.account.load(relaxed) & af_suspect) c.countdown.store(0, relaxed);  // timed alone: the next operation ticks
  }
  c.window[c.segments++ % window_segments] = as_fiber(&from);
  c.current.store(&to, relaxed);
  exception_globals& exceptions = *c.exceptions;
  int& error_number = *c.err;
  from.eh_caught = exceptions.caught;
  from.eh_uncaught = exceptions.uncaught;
  from.err = error_number;
  exceptions.caught = to.eh_caught;
  exceptions.uncaught = to.eh_uncaught;
  error_number = to.err;
#if HEDDLE_SWITCH_INSIDE
  switch_inside(from, to, c, last);
  return nowhere;
#else
  return {&from, &c};
#endif
}

// Forked tasks do not wait for a fiber that does (parallel/tasks.h).
[[gnu::always_inline]] inline void leave_tasks_if_any(carrier& c, worker& w) noexcept {
  const task_deque* d = c.tasks.load(relaxed);
  if (__builtin_expect(d != nullptr && d->head.load(relaxed) != 0, 0)) leave_tasks(c, w);
}

// Somebody else runs: `from` is published, or has ended.
[[gnu::always_inline]] inline switch_target next(scheduler& s, carrier& c, worker& w, waitable& from,
                                                 bool last = false) noexcept {
  bump(w.row->nr, -1);
  leave_tasks_if_any(c, w);
  waitable* n = special(w, from) ? pop_special(w, from) : pop_plain(w);
  if (__builtin_expect(!n, 0)) {
    n = pop_idle_class(w);
    if (!n) return commit(c, w, from, c.idle, last);
  }
  maybe_chain(s, w);
  return commit(c, w, from, *n, last);
}

// The end of an untimed wait's pick. Builds that switch inside are back here when the wait is over, and the stub, which gets
// nowhere, does not look whether it was cancelled (heddle/detail/switch.h, suspend).
[[gnu::always_inline]] inline switch_target next_of_wait(scheduler& s, carrier& c, worker& w, fiber_record& me) {
  const switch_target t = next(s, c, w, me);
#if HEDDLE_SWITCH_INSIDE
  if (me.cancelled.load(relaxed)) detail::throw_cancelled(me);
#endif
  return t;
}

// Shutdown: an operation that would wait throws instead. Leaves the bracket when it does.
void refuse_wait(carrier& c);
[[gnu::always_inline]] inline void check_cancelled(carrier& c) {
  if (__builtin_expect((c.attention.load(relaxed) & att_cancel) != 0, 0)) refuse_wait(c);
}

// The second half of a claimed waiter's wake-up for callers that hold nothing.
void wake(waitable& f) noexcept;
void wake_thread(thread_waiter& t) noexcept;

// A plain thread's wait; false: the deadline passed. The caller settles under the list's lock which it was (L5).
bool wait_thread(thread_waiter& t, nanos deadline) noexcept;

}  // namespace heddle::core
