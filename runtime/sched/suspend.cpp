// The out-of-line halves of yield, sleep and join, and the end of a fiber.
#include "runtime/sched/suspend.h"

#include <stdexcept>
#include <utility>

#include "heddle/detail/runtime.h"
#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/threads.h"

namespace heddle::core {

#if HEDDLE_SWITCH_INSIDE
namespace {
constinit thread_local carrier* current_carrier = nullptr;
}
#if HEDDLE_TSAN
__attribute__((no_sanitize("thread"), noinline))
#else
[[gnu::noinline]]
#endif
carrier*
this_carrier() noexcept {
  asm volatile("");
  return current_carrier;
}
#else
constinit thread_local carrier* current_carrier = nullptr;
#endif
// In the middle of a hand-over the virtual machine asks for this, and must not be made to hand over once more.
[[gnu::noinline]] void set_this_carrier(carrier* c) noexcept {
  const unbroken whole;
  current_carrier = c;
  show_tasks(c);
}

void refuse_wait(carrier& c) {
  if (c.current.load(relaxed)->flags & ff_shielded) return;
  leave(c);
  detail::throw_cancelled(*c.current.load(relaxed));
}

}  // namespace heddle::core

namespace heddle::detail {

using namespace heddle::core;

namespace {

// A balance elsewhere asked for the fiber that runs here alone: it takes the place of its yield (sched/balance.cpp, honour_push).
// Published before it is saved, as one that blocks is: F1.
[[gnu::noinline]] switch_target pick_pushed(carrier& c, worker& w, fiber_record& me) {
  scheduler& s = *c.home;
  const cpu_id to = to_cpu(std::exchange(w.push_at_yield, 0) - 1);
  if (!may_leave(me) || !s.said.idle(to)) {  // it has found work meanwhile
    leave(c);
    return nowhere;
  }
  const nanos now = s.on->now();
  s.settle(me, now);
  s.leave_load(w, me, now);
  if (w.ordered) charge_running(w);
  if (special(w, me)) take_out(w, me);
  bump(w.row->nr, -1);
  w.count.add(counter::moved_by_push);
  me.sp.store(nullptr, relaxed);
  push_inbox(s.worker_of(to), &me);
  return commit(c, w, me, c.idle);
}

}  // namespace

[[gnu::noinline]] switch_target pick_yield() {
  carrier* c = this_carrier();
  if (__builtin_expect(!c, 0)) return pick_yield_thread();
  worker& w = enter(*c, op::yield);
  leave_tasks_if_any(*c, w);
  waitable& me = *c->running();
  const bool buddy = __builtin_expect(w.ordered, 0) && resumes_soon(w, me);
  waitable* n = pop(w, me, true);
  if (!n && (me.flags & ff_idle_class) != 0) n = pop_idle_class(w);
  if (!n) {
    if (__builtin_expect(w.push_at_yield != 0, 0)) return pick_pushed(*c, w, *c->running());
    leave(*c);
    return nowhere;
  }
  // Before the yielder is queued: the chain must not give away a fiber that is not saved.
  maybe_chain(*c->home, w);
  if (__builtin_expect(buddy, 0) && w.slot.load(relaxed) == nullptr)
    refill_slot(w, me);
  else
    push_list(w, &me);
  return commit(*c, w, me, *n);
}

[[gnu::noinline]] switch_target pick_sleep(int64_t until_ns) {
  carrier* c = this_carrier();
  if (!c) return pick_sleep_thread(until_ns);
  worker& w = enter(*c, op::sleep);
  check_cancelled(*c);
  fiber_record& me = *c->running();
  begin_wait(*c, me, wait_kind::sleep, nullptr, true);  // the canceller competes with the timer
  w.timers.arm(nanos{until_ns}, me, epoch_of(me.wait_state.load(relaxed)));
  w.next_timer.store(w.timers.first(), relaxed);
  return next_of_wait(*c->home, *c, w, me);
}

[[gnu::noinline]] switch_target pick_join(fiber_head& joined) {
  auto& f = static_cast<fiber_record&>(static_cast<waitable&>(joined));
  if (f.joiner.load(acquire) == joiner_done) return nowhere;
  carrier* c = this_carrier();
  if (!c) {
    join_thread(f);
    return nowhere;
  }
  worker& w = enter(*c, op::join);
  check_cancelled(*c);
  fiber_record& me = *c->running();
  if (__builtin_expect(&me == &f, 0)) {
    leave(*c);
    throw std::logic_error("heddle::fiber: a fiber cannot join itself");
  }
  begin_wait(*c, me, wait_kind::join, &f);
  f.joiner_wait = epoch_of(me.wait_state.load(relaxed)) << 1;
  uintptr_t nobody = joiner_none;
  // acq_rel: publishes the epoch; the acquire pairs with the exchange in exit_fiber.
  if (!f.joiner.compare_exchange_strong(nobody, reinterpret_cast<uintptr_t>(static_cast<waitable*>(&me)), acq_rel,
                                        acquire)) {
    abandon_wait(me);
    leave(*c);
    return nowhere;
  }
  return next_of_wait(*c->home, *c, w, me);
}

namespace {

bool claim_joiner(waitable& j, uint64_t wait, const carrier& by) noexcept {
  const uint64_t epoch = wait >> 1;
  if ((wait & 1) != 0 || as_fiber(&j)->home != by.home) return claim_epoch(*as_fiber(&j), epoch, wait_phase::notified);
  if (j.wait_state.load(relaxed) != wait_word(epoch, wait_phase::waiting)) return false;
  j.wait_state.store(wait_word(epoch, wait_phase::notified), relaxed);
  return true;
}

}  // namespace

// The running fiber has ended: its frame's result is set. Never returns; the record is reused only after the switch (F1).
[[noreturn, gnu::noinline]] void exit_fiber() {
  carrier* c = this_carrier();
  scheduler& s = *c->home;
  if (fiber_record& me = *c->running(); me.error && me.joiner.load(relaxed) == joiner_detached) s.drop_error(me);
  worker& w = enter(*c, op::exit);
  fiber_record& me = *c->running();
  w.count.publish(counter::finished);
  me.sp.store(nullptr, relaxed);
  uintptr_t joiner = 0;
  if (is_planted(mutant::end_by_load_and_store)) {
    joiner = me.joiner.load(acquire);
    me.joiner.store(joiner_done, core::release);
  } else {
    joiner = me.joiner.exchange(joiner_done, acq_rel);
  }
  if (joiner == joiner_detached) {
    if (__builtin_expect(me.error != nullptr, 0)) s.drop_error(me);  // detached just now
    s.recycle(w, me);
  } else if (joiner != joiner_none) {
    auto& j = *reinterpret_cast<waitable*>(joiner);
    if (j.flags & ff_thread) {
      wake_thread(static_cast<thread_waiter&>(j));
    } else {
      // The joiner's epoch was published with the pointer; a joiner that was cancelled or timed out has moved on. An untimed
      // one of our own scheduler is claimed plainly (wait.h, L3).
      if (claim_joiner(j, me.joiner_wait, *c))
        if (worker* to = s.ready(*c, w, *as_fiber(&j), waker_intent::leaves)) push_inbox(*to, &j);
    }
  }
  if (const switch_target t = next(s, *c, w, me, true); t.from) switch_to(t);
  __builtin_unreachable();
}

}  // namespace heddle::detail
