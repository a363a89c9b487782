// wait(): the list is locked before the mutex is released, and the waiter is on it before the lock is: a notification that
// follows the mutex's unlock finds it. Lock order: condition variable's list, then mutex's list.
#include "heddle/detail/errors.h"
#include "heddle/sync.h"
#include "runtime/machine/host.h"
#include "runtime/sched/inbox.h"
#include "runtime/sync/block.h"

namespace heddle {

using namespace heddle::core;

namespace {

// Relocking must not throw: the caller's unique_lock owns the mutex in every outcome.
class shield {
 public:
  shield() noexcept {
    if (carrier* c = carrier_now()) {
      me_ = c->running();
      was_ = me_->flags & ff_shielded;
      me_->flags |= ff_shielded;
    }
  }
  ~shield() {
    if (me_ && !was_) me_->flags &= static_cast<uint16_t>(~ff_shielded);
  }

 private:
  fiber_record* me_ = nullptr;
  int was_ = 0;
};

// Inside the bracket, under a list's lock: wakes the mutex's next owner.
void hand_on(carrier& c, worker& w, waitable& f, waker_intent intent = waker_intent::goes_on) noexcept {
  if (f.flags & ff_thread) return wake_thread(static_cast<thread_waiter&>(f));
  if (worker* to = c.home->ready(c, w, *as_fiber(&f), intent)) push_inbox(*to, &f);
}

}  // namespace

// Under the list's lock only pointers are moved; the wake-ups follow.
void condition_variable::notify_one() noexcept { notify(1); }
void condition_variable::notify_all() noexcept { notify(UINT32_MAX); }

void condition_variable::notify(uint32_t most) noexcept {
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, op::wake) : nullptr;
  waitable* woken = nullptr;
  waitable** end = &woken;
  core::lock(waiters_);
  for (; most > 0; most--) {
    waitable* f = pop_claimed(waiters_, c);
    if (!f) break;
    f->list_next = nullptr;
    *end = f;
    end = &f->list_next;
  }
  core::unlock(waiters_);
  while (woken) {
    waitable* f = woken;
    woken = f->list_next;
    if (c)
      hand_on(*c, *w, *f);
    else
      wake(*f);
  }
  if (c) leave(*c);
}

void condition_variable::wait(std::unique_lock<mutex>& lock) { wait_deadline(lock, never.count()); }

bool condition_variable::wait_deadline(std::unique_lock<mutex>& lock, int64_t deadline) {
  mutex& m = *lock.mutex();
  carrier* c = this_carrier();
  bool notified = false, cancelled = false;
  if (!c) {
    thread_waiter me;
    core::lock(waiters_);
    append(waiters_, me);
    core::unlock(waiters_);
    m.unlock();
    notified = wait_thread(me, nanos{deadline});
    if (!notified) {
      core::lock(waiters_);
      const bool late = linked(me);
      if (late) unlink(waiters_, me);
      core::unlock(waiters_);
      if (!late) notified = wait_thread(me, never);
    }
  } else {
    worker& w = enter(*c, op::suspend);
    check_cancelled(*c);
    core::lock(waiters_);
    waitable* next_owner = m.unlock_inside(c);
    if (next_owner) hand_on(*c, w, *next_owner, waker_intent::leaves);
    const wait_phase ended = block(*c, w, waiters_, wait_kind::condition, deadline);
    notified = ended == wait_phase::notified;
    cancelled = ended == wait_phase::cancelled;
  }
  {
    shield relocking;
    m.lock();
  }
  if (cancelled) {
    carrier_now()->running()->cancelled.store(0, relaxed);
    throw shutdown_error("heddle: the runtime shuts down");
  }
  return notified;
}

}  // namespace heddle
