// word_: 0 free, 1 locked, 2 locked and somebody may wait. A waiter that was woken takes the lock with 2, since others may still
// wait. It may lose to a fiber that runs now (barging keeps the lock busy); having lost once it waits at the front, flagged, and
// the next unlock hands it the lock without freeing it, so nobody starves.
#include "heddle/sync.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/inbox.h"
#include "runtime/sync/block.h"

namespace heddle {

using namespace heddle::core;

void mutex::lock_slow() {
  bool lost = false;
  for (;;) {
    carrier* c = carrier_now();
    if (!c) {
      core::lock(waiters_);
      if (word_.exchange(2, acquire) == 0) return core::unlock(waiters_);
      thread_waiter me;
      if (lost) me.flags |= ff_handoff;
      block_thread(me, waiters_, never.count(), lost);
      if (lost) return;
    } else {
      worker& w = enter(*c, op::suspend);
      // Not in the second round: whoever was woken carries the wake-up of those behind it, and must pass it on.
      if (!lost) check_cancelled(*c);
      core::lock(waiters_);
      if (word_.exchange(2, acquire) == 0) {
        core::unlock(waiters_);
        return leave(*c);
      }
      fiber_record& me = *c->running();
      if (lost) me.flags |= ff_handoff;
      const wait_phase ended = block(*c, w, waiters_, wait_kind::mutex, never.count(), lost);
      me.flags &= static_cast<uint16_t>(~ff_handoff);
      if (ended == wait_phase::cancelled) detail::throw_cancelled(me);
      if (lost) return;  // handed over
    }
    // Woken: word_ was set free for whoever comes first. Take it as "others may wait".
    uint32_t free = 0;
    if (word_.compare_exchange_strong(free, is_planted(mutant::woken_takes_alone) ? 1 : 2, acquire, relaxed)) return;
    lost = true;
  }
}

// The claimed waiter to wake, or null. Inside the caller's bracket where there is one.
waitable* mutex::unlock_inside(carrier* c) noexcept {
  for (;;) {
    uint32_t alone = 1;
    if (word_.compare_exchange_strong(alone, 0, release, relaxed)) return nullptr;
    core::lock(waiters_);
    waitable* f = pop_claimed(waiters_, c);
    if (!f) {
      // Freed by the exchange above, which is our last touch: the next owner may destroy the mutex at once.
      word_.store(1, relaxed);
      core::unlock(waiters_);
      continue;
    }
    if (f->flags & ff_handoff)
      word_.store(2, relaxed);  // stays locked: f owns it from here; its wake-up orders our writes for it
    else
      word_.store(0, release);
    core::unlock(waiters_);  // f still needs the mutex and does not run before we wake it
    return f;
  }
}

void mutex::unlock_slow() {
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, op::wake) : nullptr;
  leave_and_wake(c, w, unlock_inside(c));
}

}  // namespace heddle
