// One lock, one count, one list. A waiter's permit is handed over: release never raises the count while somebody waits, so
// nobody who comes later can take what a woken waiter was promised.
#include "heddle/sync.h"
#include "runtime/sched/inbox.h"
#include "runtime/sync/block.h"

namespace heddle::detail {

using namespace heddle::core;

namespace {

[[gnu::noinline]] bool acquire_thread(semaphore_core& s, int64_t deadline) {
  lock(s.waiters);
  if (s.count > 0) {
    s.count--;
    unlock(s.waiters);
    return true;
  }
  thread_waiter me;
  return block_thread(me, s.waiters, deadline);
}

}  // namespace

[[gnu::noinline]] switch_target pick_acquire(semaphore_core& s) {
  carrier* c = this_carrier();
  if (__builtin_expect(!c, 0)) {
    acquire_thread(s, never.count());
    return nowhere;
  }
  worker& w = enter(*c, op::suspend);  // before publication: B3
  check_cancelled(*c);
  lock(s.waiters);
  if (s.count > 0) {
    s.count--;
    unlock(s.waiters);
    leave(*c);
    return nowhere;
  }
  fiber_record& me = *c->running();
  begin_wait(*c, me, wait_kind::semaphore, &s.waiters);
  append(s.waiters, me);
  unlock(s.waiters);
  return next_of_wait(*c->home, *c, w, me);
}

bool semaphore_core::try_acquire() noexcept {
  carrier* c = this_carrier();
  if (c) enter(*c, op::wake);
  lock(waiters);
  const bool got = count > 0;
  if (got) count--;
  unlock(waiters);
  if (c) leave(*c);
  return got;
}

bool semaphore_core::acquire_until(int64_t deadline) {
  carrier* c = this_carrier();
  if (!c) return acquire_thread(*this, deadline);
  worker& w = enter(*c, op::suspend);
  check_cancelled(*c);
  lock(waiters);
  if (count > 0) {
    count--;
    unlock(waiters);
    leave(*c);
    return true;
  }
  fiber_record& me = *c->running();
  const wait_phase ended = block(*c, w, waiters, wait_kind::semaphore, deadline);
  if (ended == wait_phase::cancelled) throw_cancelled(me);
  return ended == wait_phase::notified;
}

void semaphore_core::release_one() noexcept {
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, op::wake) : nullptr;
  lock(waiters);
  waitable* f = pop_claimed(waiters, c);
  if (!f) count++;
  unlock(waiters);
  if (!c) {
    if (f) wake(*f);
    return;
  }
  if (!f) return leave(*c);
  if (__builtin_expect(f->flags & ff_thread, 0)) {
    leave(*c);
    return wake_thread(static_cast<thread_waiter&>(*f));
  }
  worker* to = c->home->ready(*c, *w, *as_fiber(f));
  leave(*c);
  if (__builtin_expect(to != nullptr, 0)) push_inbox(*to, f);
}

void semaphore_core::release(std::ptrdiff_t n) noexcept {
  for (; n > 0; n--) release_one();
}

}  // namespace heddle::detail
