// Slot and list of one worker, behind its bracket (worker.h, W1). The slot holds the fiber woken last: it runs next, warm. It
// may not starve the list: after lifo_max picks in a row, and at every tick, it goes behind it.
#pragma once

#include "runtime/sched/worker.h"

namespace heddle::core {

inline bool may_leave(const waitable& f) noexcept { return (f.flags & ff_restricted) == 0; }

// ---- order.cpp: fibers with a weight, a class or a group of their own, and all under a weighted order
inline bool special(const worker& w, const waitable& f) noexcept {
  return __builtin_expect(w.ordered | ((f.flags & ff_special) != 0), 0);
}
// Gives it its place; true: it belongs to the idle class and is queued there.
bool admit(worker& w, waitable& f) noexcept;
void count_special(worker& w, const waitable& f, int sign) noexcept;  // it became runnable here, or is so no longer
void take_out(worker& w, waitable& f) noexcept;                       // it leaves for another cpu's queue
waitable* pop_ordered(worker& w, waitable* from, bool stays) noexcept;
waitable* pop_idle_class(worker& w) noexcept;
void charge_running(worker& w) noexcept;
void tick_order(worker& w) noexcept;
bool resumes_soon(worker& w, const waitable& yielder) noexcept;

[[gnu::always_inline]] inline void append(worker& w, waitable* f) noexcept {
  f->next = nullptr;
  if (w.head)
    w.tail->next = f;
  else
    w.head = f;
  w.tail = f;
  if (may_leave(*f)) bump(w.row->movable, 1);
}

// One that is counted in nr already: the yielder, or what was in the slot.
[[gnu::always_inline]] inline void push_list(worker& w, waitable* f) noexcept {
  if (special(w, *f) && admit(w, *f)) return;
  append(w, f);
}

[[gnu::always_inline]] inline void push_tail(worker& w, waitable* f) noexcept {
  bump(w.row->nr, 1);
  if (special(w, *f)) {
    count_special(w, *f, 1);
    if (admit(w, *f)) return;
  }
  append(w, f);
}

[[gnu::always_inline]] inline void push_slot(worker& w, waitable* f) noexcept {
  if (special(w, *f)) {
    count_special(w, *f, 1);
    if (admit(w, *f)) {
      bump(w.row->nr, 1);
      return;
    }
  }
  if (waitable* old = w.slot.load(relaxed)) push_list(w, old);
  w.slot.store(f, relaxed);
  w.slot_movable.store(may_leave(*f), relaxed);
  bump(w.row->nr, 1);
}

// The slot is empty: what it holds is counted already.
inline void refill_slot(worker& w, waitable& f) noexcept {
  w.slot.store(&f, relaxed);
  w.slot_movable.store(may_leave(f), relaxed);
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
[[gnu::always_inline]] inline waitable* pop_plain(worker& w) noexcept {
  waitable* f = w.slot.load(relaxed);
  if (f && (w.head == nullptr || ++w.slot_streak <= w.lifo_max)) {
    w.slot.store(nullptr, relaxed);
    return f;
  }
  w.slot_streak = 0;
  return pop_list(w);
}

// `from` gives up the cpu, or is the idle fiber; `stays`: it remains ready.
[[gnu::always_inline]] inline waitable* pop(worker& w, waitable& from, bool stays) noexcept {
  return __builtin_expect(w.ordered, 0) ? pop_ordered(w, &from, stays) : pop_plain(w);
}
// The same for one that blocks or ends, which its queue may have to count out.
inline waitable* pop_special(worker& w, waitable& from) noexcept {
  count_special(w, from, -1);
  return pop(w, from, false);
}

// What a queue's owner does with a fiber that somebody asks for. `stop`: with this one and all behind it.
enum class offer { keep, take, stop };
inline offer if_movable(waitable& f) noexcept { return may_leave(f) ? offer::take : offer::keep; }

// Removes from one list what `ask(fiber)` gives away, oldest (coldest) first, and appends it at out_end. Asked about pinned fibers
// too, whose number may matter to a plan; they must be kept.
template <class Ask>
uint32_t detach_from(worker& w, waitable*& head, waitable*& tail, uint32_t want, waitable**& out_end,
                     Ask&& ask) noexcept {
  waitable* keep_tail = nullptr;
  waitable** link = &head;
  uint32_t taken = 0;
  while (waitable* f = *link) {
    const offer answer = taken < want ? ask(*f) : offer::stop;
    if (answer == offer::stop) break;  // the rest stays, its tail too
    if (answer == offer::take) {
      *link = f->next;
      *out_end = f;
      out_end = &f->next;
      if (special(w, *f)) take_out(w, *f);
      taken++;
    } else {
      keep_tail = f;
      link = &f->next;
    }
  }
  if (*link == nullptr) tail = keep_tail;
  bump(w.row->movable, -static_cast<int32_t>(taken));
  return taken;
}

// The same from all of the queue, until it has `want`. The slot only where with_slot; the idle class last.
template <class Ask>
waitable* detach(worker& w, uint32_t want, bool with_slot, uint32_t& taken, Ask&& ask) noexcept {
  waitable* out = nullptr;
  waitable** out_end = &out;
  taken = detach_from(w, w.head, w.tail, want, out_end, ask);
  if (waitable* f = w.slot.load(relaxed); f && with_slot && taken < want && ask(*f) == offer::take) {
    w.slot.store(nullptr, relaxed);
    *out_end = f;
    out_end = &f->next;
    if (special(w, *f)) take_out(w, *f);
    taken++;
  }
  if (__builtin_expect(w.order.idle_head != nullptr, 0))
    taken += detach_from(w, w.order.idle_head, w.order.idle_tail, want - taken, out_end, ask);
  *out_end = nullptr;
  bump(w.row->nr, -static_cast<int32_t>(taken));
  return out;
}

}  // namespace heddle::core
