// The one waiter state machine, and the wait list on which every primitive is built.
//
// L1 Lists are touched under their lock, a spin lock held for a few instructions, by fibers inside their bracket (so no other
//    fiber of the carrier can want it) and by plain threads.
// L2 A waiter is published by the release of the list's lock; before that it is inside its bracket (B3) with sp == null (F1).
// L3 The claim. Who takes a waiter off the list under the lock and moves wait_state from waiting to notified owns the wake-up.
//    A fiber in an untimed wait has one other claimant, the canceller, which stops every carrier first (scheduler::cancel_waits):
//    so a carrier of the same scheduler, inside its bracket, claims with a plain store. A timed wait, a plain thread or another
//    scheduler's carrier claims by compare-exchange.
// L4 A fiber whose wait was ended by timer or canceller takes itself off the list under the lock before it returns: nobody holds a
//    pointer to a waiter that has left.
// L5 A plain thread that waits times out by itself, under the lock: still linked means timed out. It needs no epoch.
#pragma once

#include "heddle/detail/wait_list.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/bracket.h"

namespace heddle::core {

using detail::wait_list;

void relax_outside() noexcept;  // the wait loop's pause where no machine is known

inline void lock(wait_list& l) noexcept {
  interleave_point();
  while (l.lock.exchange(1, acquire) != 0)
    while (l.lock.load(relaxed) != 0) relax_outside();
}
inline void unlock(wait_list& l) noexcept {
  interleave_point();
  show_own_stores();
  l.lock.store(0, release);
}

// The list whose lock guards l.
inline wait_list& guard_of(wait_list& l) noexcept { return l.guard ? *l.guard : l; }

inline void append(wait_list& l, waitable& f) noexcept {
  f.list_next = nullptr;
  f.list_prev = static_cast<waitable*>(l.tail);
  if (l.tail)
    static_cast<waitable*>(l.tail)->list_next = &f;
  else
    l.head = &f;
  l.tail = &f;
  l.size++;
}

inline void prepend(wait_list& l, waitable& f) noexcept {
  f.list_prev = nullptr;
  f.list_next = static_cast<waitable*>(l.head);
  if (l.head)
    static_cast<waitable*>(l.head)->list_prev = &f;
  else
    l.tail = &f;
  l.head = &f;
  l.size++;
}

// A waiter that is off the list points at itself.
inline bool linked(const waitable& f) noexcept { return f.list_prev != &f; }

inline void unlink(wait_list& l, waitable& f) noexcept {
  if (f.list_prev)
    f.list_prev->list_next = f.list_next;
  else
    l.head = f.list_next;
  if (f.list_next)
    f.list_next->list_prev = f.list_prev;
  else
    l.tail = f.list_prev;
  f.list_prev = &f;
  l.size--;
}

// L3. `by`: the carrier we are inside of, null for a plain thread.
inline bool claim(waitable& f, wait_phase outcome, const carrier* by) noexcept {
  if (f.flags & ff_thread) return true;  // L5
  uint64_t word = f.wait_state.load(relaxed);
  if (phase_of(word) != wait_phase::waiting) return false;
  const uint64_t claimed = wait_word(epoch_of(word), outcome);
  if ((!(f.flags & ff_timed) || is_planted(mutant::both_claim)) && by && by->home == as_fiber(&f)->home) {
    f.wait_state.store(claimed, relaxed);
    return true;
  }
  return f.wait_state.compare_exchange_strong(word, claimed, acq_rel, relaxed);
}

// A timer's claim: only of the very wait it was armed for.
inline bool claim_epoch(fiber_record& f, uint64_t epoch, wait_phase outcome) noexcept {
  uint64_t waiting = wait_word(epoch, wait_phase::waiting);
  return f.wait_state.compare_exchange_strong(waiting, wait_word(epoch, outcome), acq_rel, relaxed);
}

// The first waiter whose claim succeeds; those that timed out meanwhile just leave the list.
inline waitable* pop_claimed(wait_list& l, const carrier* by) noexcept {
  while (auto* f = static_cast<waitable*>(l.head)) {
    unlink(l, *f);
    if (claim(*f, wait_phase::notified, by)) return f;
  }
  return nullptr;
}

// Opens an epoch, before publication (L2, F1). `timed`: there will be a second wake source; the flag is only ever changed here,
// since a list may still hold a waiter that its timer has woken.
inline void begin_wait(carrier& c, fiber_record& me, wait_kind kind, const void* object, bool timed = false) noexcept {
  if (timed != ((me.flags & ff_timed) != 0)) me.flags ^= ff_timed;
  me.sp.store(nullptr, relaxed);
  const uint64_t next = is_planted(mutant::same_epoch) ? 0 : 1;
  me.wait_state.store(wait_word(epoch_of(me.wait_state.load(relaxed)) + next, wait_phase::waiting), relaxed);
  me.waiting_on.store(kind, relaxed);
  me.wait_object.store(object, relaxed);
  me.wait_since.store(c.last_tick.load(relaxed), relaxed);  // up to a tick early: no clock on this path
}

// A wait that will not happen after all: nothing was published.
inline void abandon_wait(fiber_record& me) noexcept {
  me.sp.store(me.stack_top, relaxed);  // any non-null value: it is running
  me.wait_state.store(wait_word(epoch_of(me.wait_state.load(relaxed)), wait_phase::none), relaxed);
}

}  // namespace heddle::core
