// Latch and barrier: the last arrival wakes everybody.
#include "heddle/sync.h"
#include "runtime/sched/inbox.h"
#include "runtime/sync/block.h"

namespace heddle {

using namespace heddle::core;

namespace {

// Waits in `l` while still_closed() under its lock.
template <class Closed>
void wait_while(wait_list& l, wait_kind kind, Closed&& still_closed) {
  carrier* c = this_carrier();
  if (!c) {
    lock(l);
    if (!still_closed()) return unlock(l);
    thread_waiter me;
    block_thread(me, l, never.count());
    return;
  }
  worker& w = enter(*c, op::suspend);
  check_cancelled(*c);
  lock(l);
  if (!still_closed()) {
    unlock(l);
    return leave(*c);
  }
  fiber_record& me = *c->running();
  if (block(*c, w, l, kind, never.count()) == wait_phase::cancelled) detail::throw_cancelled(me);
}

// Opens under the lock, then wakes all who waited.
template <class Open>
void release_all(wait_list& l, Open&& open) noexcept {
  carrier* c = this_carrier();
  if (c) enter(*c, op::wake);
  waitable* woken = nullptr;
  waitable** end = &woken;
  lock(l);
  open();
  while (waitable* f = pop_claimed(l, c)) {
    f->list_next = nullptr;
    *end = f;
    end = &f->list_next;
  }
  unlock(l);
  if (c) leave(*c);
  while (woken) {
    waitable* f = woken;
    woken = f->list_next;
    wake(*f);
  }
}

}  // namespace

// Zero is stored under the lock, and wait() returns by way of the lock: who returns from it may destroy the latch.
void latch::count_down(std::ptrdiff_t n) noexcept {
  std::ptrdiff_t left = left_.load(relaxed);
  while (left > n)
    if (left_.compare_exchange_weak(left, left - n, acq_rel, relaxed)) return;
  release_all(waiters_, [&] { left_.fetch_sub(n, acq_rel); });
}

void latch::wait() const {
  wait_while(waiters_, wait_kind::latch, [&] { return !try_wait(); });
}

namespace detail {

bool barrier_core::arrive(std::ptrdiff_t n, bool drop, uint64_t& phase_out) noexcept {
  carrier* c = this_carrier();
  if (c) enter(*c, op::wake);
  lock(waiters);
  phase_out = phase;
  left -= n;
  if (drop) expected -= n;
  const bool last = left == 0;
  unlock(waiters);
  if (c) leave(*c);
  return last;
}

void barrier_core::release() noexcept {
  release_all(waiters, [&] {
    phase++;
    left = expected;
  });
}

void barrier_core::wait(uint64_t phase_arrived) {
  wait_while(waiters, wait_kind::barrier, [&] { return phase == phase_arrived; });
}

}  // namespace detail
}  // namespace heddle
