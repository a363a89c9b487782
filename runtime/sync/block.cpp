#include "runtime/sync/block.h"

#include "heddle/detail/errors.h"
#include "runtime/base/mutants.h"
#include "runtime/machine/host.h"
#include "runtime/machine/work.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/threads.h"

namespace heddle::core {

[[gnu::noinline]] carrier* carrier_now() noexcept {
  asm volatile("");
  return this_carrier();
}

void relax_outside() noexcept {
  if (machine* m = machine_of_this_thread())
    m->relax();
  else
    relax_cpu();
}

wait_phase block(carrier& c, worker& w, wait_list& l, wait_kind kind, int64_t deadline, bool front) {
  fiber_record& me = *c.running();
  begin_wait(c, me, kind, &l, deadline != never.count());
  const uint64_t epoch = epoch_of(me.wait_state.load(relaxed));
  front ? prepend(l, me) : append(l, me);
  unlock(guard_of(l));
  if (deadline != never.count()) {
    w.timers.arm(nanos{deadline}, me, epoch);
    w.next_timer.store(w.timers.first(), relaxed);
  }
  if (const switch_target t = next(*c.home, c, w, me); t.from) detail::switch_to(t);

  const wait_phase ended = phase_of(me.wait_state.load(acquire));
  if (ended != wait_phase::notified && !is_planted(mutant::stay_on_list)) leave_list(me, l);
  return ended;
}

void leave_list(fiber_record& me, wait_list& l) noexcept {
  carrier& c = *carrier_now();
  reenter(*c.home->on, c);  // L1
  lock(guard_of(l));
  if (linked(me)) unlink(l, me);
  unlock(guard_of(l));
  leave(c);
}

bool block_thread(thread_waiter& me, wait_list& l, int64_t deadline, bool front) {
  front ? prepend(l, me) : append(l, me);
  unlock(guard_of(l));
  if (wait_thread(me, nanos{deadline})) return true;
  lock(guard_of(l));
  const bool late = linked(me);  // L5
  if (late) unlink(l, me);
  unlock(guard_of(l));
  if (late && deadline == never.count()) throw shutdown_error(deadlock_text);
  if (late) return false;
  wait_thread(me, never);  // claimed: the word is about to be set, and our frame must outlive that
  return true;
}

void leave_and_wake(carrier* c, worker* w, waitable* f, waker_intent intent) noexcept {
  if (!c) {
    if (f) wake(*f);
    return;
  }
  if (!f || f->flags & ff_thread) {
    leave(*c);
    if (f) wake_thread(static_cast<thread_waiter&>(*f));
    return;
  }
  worker* to = c->home->ready(*c, *w, *as_fiber(f), intent);
  leave(*c);
  if (to) push_inbox(*to, f);
}

}  // namespace heddle::core

namespace heddle::detail {

using namespace heddle::core;

// The running fiber's wait was cancelled, or it wanted to begin one during shutdown.
void throw_cancelled(fiber_head& self) {
  auto& me = static_cast<fiber_record&>(static_cast<waitable&>(self));
  if (me.cancelled.exchange(0, relaxed)) {
    const wait_kind kind = me.waiting_on.load(relaxed);
    if (kind == wait_kind::join) {
      auto* joined = const_cast<fiber_record*>(static_cast<const fiber_record*>(me.wait_object.load(relaxed)));
      take_back_join(*joined, me);
    } else if (kind != wait_kind::sleep && kind != wait_kind::io) {
      leave_list(me, *const_cast<wait_list*>(static_cast<const wait_list*>(me.wait_object.load(relaxed))));
    }
  }
  throw shutdown_error("heddle: the runtime shuts down");
}

}  // namespace heddle::detail
