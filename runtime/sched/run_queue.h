// Slot and list of one worker, behind its bracket (worker.h, W1). The slot holds the fiber woken last: it runs next, warm. It
// may not starve the list: after lifo_max picks in a row, and at every tick, it goes behind it.
#pragma once

#include "runtime/sched/worker.h"

namespace heddle::core {

inline bool may_leave(const waitable& f) noexcept { return (f.flags & ff_restricted) == 0; }

[[gnu::always_inline]] inline void push_list(worker& w, waitable* f) noexcept {
  f->next = nullptr;
  if (w.head)
    w.tail->next = f;
  else
    w.head = f;
  w.tail = f;
  if (may_leave(*f)) bump(w.row->movable, 1);
}

[[gnu::always_inline]] inline void push_tail(worker& w, waitable* f) noexcept {
  push_list(w, f);
  bump(w.row->nr, 1);
}

[[gnu::always_inline]] inline void push_slot(worker& w, waitable* f) noexcept {
  if (waitable* old = w.slot.load(relaxed)) push_list(w, old);
  w.slot.store(f, relaxed);
  w.slot_movable.store(may_leave(*f), relaxed);
  bump(w.row->nr, 1);
}

// Behind the list; where there is none, the slot is as good a place, unless thieves are to see it.
inline void slot_to_list(worker& w, bool even_alone = false) noexcept {
  waitable* f = w.slot.load(relaxed);
  if (f == nullptr || (w.head == nullptr && !even_alone)) return;
  w.slot.store(nullptr, relaxed);
  push_list(w, f);
}

inline waitable* pop_list(worker& w) noexcept {
  waitable* f = w.head;
  if (f == nullptr) return nullptr;
  w.head = f->next;
  if (may_leave(*f)) bump(w.row->movable, -1);
  return f;
}

// The next fiber; it stays counted in nr, as the one that runs. The slot first, but not more than lifo_max times in a row past a
// list that waits (balancer/pick.h, unrolled for the path that every switch takes).
[[gnu::always_inline]] inline waitable* pop(worker& w) noexcept {
  waitable* f = w.slot.load(relaxed);
  if (f && (w.head == nullptr || ++w.slot_streak <= w.lifo_max)) {
    w.slot.store(nullptr, relaxed);
    return f;
  }
  w.slot_streak = 0;
  return pop_list(w);
}

// Removes what `take(fiber)` accepts, oldest (coldest) first, until it has `want`. The slot only where with_slot.
template <class Take>
waitable* detach(worker& w, uint32_t want, bool with_slot, uint32_t& taken, Take&& take) noexcept {
  waitable* out = nullptr;
  waitable** out_end = &out;
  waitable* keep_tail = nullptr;
  waitable** link = &w.head;
  taken = 0;
  while (waitable* f = *link) {
    if (taken < want && may_leave(*f) && take(*f)) {
      *link = f->next;
      *out_end = f;
      out_end = &f->next;
      taken++;
    } else {
      keep_tail = f;
      link = &f->next;
    }
  }
  w.tail = keep_tail;
  bump(w.row->movable, -static_cast<int32_t>(taken));
  if (waitable* f = w.slot.load(relaxed); f && with_slot && taken < want && may_leave(*f) && take(*f)) {
    w.slot.store(nullptr, relaxed);
    *out_end = f;
    out_end = &f->next;
    taken++;
  }
  *out_end = nullptr;
  bump(w.row->nr, -static_cast<int32_t>(taken));
  return out;
}

}  // namespace heddle::core
