// Load tracking (policy-reference 2): how much a fiber or a CPU has been worth lately, as a geometric average whose
// half-life is 32 periods.
//
// Who owns what: a fiber's `entity` lies in its record and is written by whoever owns the fiber at the moment; a CPU's
// `queue` is plain memory of its worker. The only thing others may write is `removed`. Readers of another CPU see the
// board, never a queue.
//
// Time: one unit is 2^shift ns (setting pelt_shift), one period 1024 units. The averages do not depend on the shift,
// only on how many periods passed, so kernel-scale vectors hold at every scale.
#pragma once

#include <cstdint>

#include "affinity/decay.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core::pelt {

// What a sum converges to under constant full activity, in integer arithmetic.
inline constexpr uint64_t max_sum = [] {
  uint64_t sum = period;
  for (uint64_t before = 0; before != sum;) {
    before = sum;
    sum = decay(sum, 1) + period;
  }
  return sum;
}();
static_assert(max_sum == 47742);
inline constexpr uint64_t min_divider = max_sum - period;

constexpr uint64_t divider(uint32_t position) noexcept { return min_divider + position; }

// The part a span adds that crosses `periods` >= 1 borders: `head` units of the old period, `tail` of the newest one.
constexpr uint64_t contribution(uint64_t periods, uint32_t head, uint32_t tail) noexcept {
  return decay(head, periods) + (max_sum - decay(max_sum, periods) - period) + tail;
}

// Weight of a priority, nice -20 .. 19: 1024 / 1.25^nice, rounded (the kernel's own table differs by up to 2 %).
uint32_t weight_of(int nice) noexcept;
inline constexpr uint32_t nice_0_weight = 1024;
inline constexpr uint32_t idle_class_weight = 3;

// `last` of an entity that belongs to no queue at the moment.
inline constexpr nanos detached{-1};

template <class Sum>
struct averages {
  nanos last{0};  // accounted up to here
  Sum load_sum = 0;
  Sum runnable_sum = 0;
  Sum util_sum = 0;
  Sum load_avg = 0;       // weight times the share of time on a queue
  Sum runnable_avg = 0;   // running or waiting
  Sum util_avg = 0;       // running, 0..1024
  uint32_t position = 0;  // units into the current period
  uint32_t weight = nice_0_weight;
};

// A fiber: 32 bits suffice, because its own activity is at most one. Part of every fiber record, hence the assertion.
using entity = averages<uint32_t>;
static_assert(sizeof(entity) == 40);

// What something did since `last`. A queue has load = sum of weights and runnable = number of members.
struct activity {
  uint64_t load = 0;  // 0: nothing runnable; a fiber on a queue or running has 1
  uint64_t runnable = 0;
  uint32_t running = 0;  // share of the span, full_scale = all of it: one update can account a window of many switches
};
inline constexpr activity blocked{};
inline constexpr activity waiting{.load = 1, .runnable = 1};
inline constexpr activity running{.load = 1, .runnable = 1, .running = full_scale};

struct step {
  uint64_t periods = 0;  // borders crossed
  uint64_t units = 0;    // what full activity over the span adds to a sum; 0: no time passed
};

template <class Sum>
step cross_border(averages<Sum>& a, uint64_t total, bool active) noexcept;

// Brings the sums up to `now`. The averages are stale when a border was crossed (refresh).
template <class Sum>
inline step advance(averages<Sum>& a, nanos now, activity what, int shift) noexcept {
  const int64_t elapsed = (now - a.last).count();
  if (elapsed < 0) {  // another CPU's clock was ahead: resynchronise, account nothing
    a.last = now;
    return {};
  }
  const uint64_t delta = static_cast<uint64_t>(elapsed) >> shift;
  if (delta == 0) return {};
  a.last += nanos{static_cast<int64_t>(delta << shift)};  // the remainder counts next time
  if (what.load == 0) what = blocked;

  const uint64_t total = delta + a.position;
  step s{.periods = 0, .units = delta};
  if (total >= period) [[unlikely]]
    s = cross_border(a, total, what.load != 0);
  else
    a.position = static_cast<uint32_t>(total);
  a.load_sum += static_cast<Sum>(what.load * s.units);
  a.runnable_sum += static_cast<Sum>(what.runnable * s.units * full_scale);
  a.util_sum += static_cast<Sum>(what.running * s.units);
  return s;
}

template <class Sum>
void refresh(averages<Sum>& a) noexcept;

// True when the averages changed: they do so only at period borders.
template <class Sum>
inline bool update(averages<Sum>& a, nanos now, activity what, int shift) noexcept {
  if (advance(a, now, what, shift).periods == 0) return false;
  refresh(a);
  return true;
}

// A fiber that ran `ran` of the window [from, to] and waited for the rest: one call per fiber and window.
bool update_window(entity& fiber, nanos from, nanos to, nanos ran, int shift) noexcept;

// ---- queues
// ----------------------------------------------------------------------------------------------------------

// What left a queue while its owner was not looking: blocked fibers woken elsewhere. Any waker adds, the owner takes;
// relaxed, because each component is conserved by itself and nobody infers more from it.
struct removed {
  atomic<uint64_t> load{0};
  atomic<uint64_t> runnable{0};
  atomic<uint64_t> util{0};
};

// The queue of a CPU (or of a group on a CPU). load_avg counts members that block here; runnable_load only those queued
// now.
struct queue {
  averages<uint64_t> avg{.weight = 1};
  uint64_t runnable_load_sum = 0;
  uint64_t runnable_load_avg = 0;
  uint64_t weight_sum = 0;  // of queued and running members
  uint64_t nr = 0;          // their number
};

// Brings the queue up to `now`, as if its present members had been there since the last call.
bool update(queue& q, nanos now, uint32_t running_share, int shift) noexcept;
// The same after taking what others removed. Owner only.
bool update(queue& q, removed& gone, nanos now, uint32_t running_share, int shift) noexcept;

// A member becomes runnable, or stops being so. Both sides updated to now.
void enqueue(queue& q, const entity& fiber) noexcept;
void dequeue(queue& q, const entity& fiber) noexcept;

// Takes an entity into the queue's averages and puts it in phase with it. With `age`, one that was left alone since
// `last` (not one on its way between queues) is aged first: setting attach_age_load.
void attach(queue& q, entity& fiber, bool age, int shift) noexcept;
// Both sides updated to the same time; the fiber must have been dequeued.
void detach(queue& q, entity& fiber) noexcept;

// A fiber blocked on another CPU's queue is about to be woken here: leaves it through `gone`, aged to now.
// `queue_last` is how far that queue was accounted; a parked CPU's may be long ago.
void leave_blocked(entity& fiber, removed& gone, nanos queue_last, nanos now, int shift) noexcept;

// A new fiber is assumed heavy, and to use half of what its first CPU has left.
void start(entity& fiber, uint32_t weight, const queue& first) noexcept;

}  // namespace heddle::core::pelt
