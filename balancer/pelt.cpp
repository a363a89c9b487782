#include "balancer/pelt.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace heddle::core::pelt {
namespace {

constexpr int lowest_nice = -20;
constexpr int highest_nice = 19;

constexpr auto weights = [] {
  std::array<uint32_t, highest_nice - lowest_nice + 1> table{};
  for (int nice = lowest_nice; nice <= highest_nice; nice++) {
    double weight = nice_0_weight;
    for (int i = 0; i < nice; i++) weight /= 1.25;
    for (int i = 0; i > nice; i--) weight *= 1.25;
    table[static_cast<size_t>(nice - lowest_nice)] = static_cast<uint32_t>(weight + 0.5);
  }
  return table;
}();

// Rounding leaves differences of one or two; a queue must not wrap around because of them.
constexpr uint64_t subtract_down_to_0(uint64_t a, uint64_t b) noexcept { return a > b ? a - b : 0; }

// A sum may not fall below what its average stands for, or the next refresh would undo part of the average.
void keep_sums_with_averages(averages<uint64_t>& a) noexcept {
  a.load_sum = std::max(a.load_sum, a.load_avg * min_divider);
  a.runnable_sum = std::max(a.runnable_sum, a.runnable_avg * min_divider);
  a.util_sum = std::max(a.util_sum, a.util_avg * min_divider);
}

// INV-P8 and INV-P9: the runnable part is a part, and exactly nothing when nothing is runnable (seed 003 found a
// residue that stayed for ever).
void settle_runnable_load(queue& q) noexcept {
  if (q.nr == 0) q.runnable_load_sum = q.runnable_load_avg = 0;
  q.runnable_load_sum = std::min(q.runnable_load_sum, q.avg.load_sum);
  q.runnable_load_avg = std::min(q.runnable_load_avg, q.avg.load_avg);
}

uint64_t weighted_load_sum(const entity& fiber) noexcept { return uint64_t{fiber.weight} * fiber.load_sum; }

}  // namespace

uint32_t weight_of(int nice) noexcept {
  HEDDLE_ASSERT(nice >= lowest_nice && nice <= highest_nice);
  return weights[static_cast<size_t>(nice - lowest_nice)];
}

template <class Sum>
step cross_border(averages<Sum>& a, uint64_t total, bool active) noexcept {
  const uint64_t periods = total / period;
  const uint32_t tail = static_cast<uint32_t>(total % period);
  a.load_sum = static_cast<Sum>(decay(a.load_sum, periods));
  a.runnable_sum = static_cast<Sum>(decay(a.runnable_sum, periods));
  a.util_sum = static_cast<Sum>(decay(a.util_sum, periods));
  const uint64_t units = active ? contribution(periods, period - a.position, tail) : 0;
  a.position = tail;
  return {.periods = periods, .units = units};
}

template <class Sum>
void refresh(averages<Sum>& a) noexcept {
  const uint64_t by = divider(a.position);
  a.load_avg = static_cast<Sum>(uint64_t{a.weight} * a.load_sum / by);
  a.runnable_avg = static_cast<Sum>(a.runnable_sum / by);
  a.util_avg = static_cast<Sum>(a.util_sum / by);
}

template step cross_border(averages<uint32_t>&, uint64_t, bool) noexcept;
template step cross_border(averages<uint64_t>&, uint64_t, bool) noexcept;
template void refresh(averages<uint32_t>&) noexcept;
template void refresh(averages<uint64_t>&) noexcept;

bool update_window(entity& fiber, nanos from, nanos to, nanos ran, int shift) noexcept {
  bool changed = fiber.last < from && update(fiber, from, waiting, shift);
  if (to <= from) return changed;
  const int64_t share = std::min(ran, to - from).count() * int64_t{full_scale} / (to - from).count();
  activity what = waiting;
  what.running = static_cast<uint32_t>(share);
  changed |= update(fiber, to, what, shift);
  return changed;
}

bool update(queue& q, nanos now, uint32_t running_share, int shift) noexcept {
  const step s = advance(q.avg, now, {.load = q.weight_sum, .runnable = q.nr, .running = running_share}, shift);
  if (s.periods > 0) q.runnable_load_sum = decay(q.runnable_load_sum, s.periods);
  q.runnable_load_sum += q.weight_sum * s.units;
  if (s.periods == 0) return false;
  refresh(q.avg);
  q.runnable_load_avg = q.runnable_load_sum / divider(q.avg.position);
  settle_runnable_load(q);
  return true;
}

bool update(queue& q, removed& gone, nanos now, uint32_t running_share, int shift) noexcept {
  // A look before the exchange: nearly always there is nothing, and the line is shared with every waker.
  const auto take = [](atomic<uint64_t>& part) { return part.load(relaxed) != 0 ? part.exchange(0, relaxed) : 0; };
  const uint64_t load = take(gone.load), runnable = take(gone.runnable), util = take(gone.util);
  const bool shrunk = (load | runnable | util) != 0;
  if (shrunk) {
    const uint64_t by = divider(q.avg.position);
    q.avg.load_avg = subtract_down_to_0(q.avg.load_avg, load);
    q.avg.load_sum = subtract_down_to_0(q.avg.load_sum, load * by);
    q.avg.runnable_avg = subtract_down_to_0(q.avg.runnable_avg, runnable);
    q.avg.runnable_sum = subtract_down_to_0(q.avg.runnable_sum, runnable * by);
    q.avg.util_avg = subtract_down_to_0(q.avg.util_avg, util);
    q.avg.util_sum = subtract_down_to_0(q.avg.util_sum, util * by);
    keep_sums_with_averages(q.avg);
    settle_runnable_load(q);
  }
  return update(q, now, running_share, shift) || shrunk;
}

void enqueue(queue& q, const entity& fiber) noexcept {
  q.nr++;
  q.weight_sum += fiber.weight;
  q.runnable_load_avg += fiber.load_avg;
  q.runnable_load_sum += weighted_load_sum(fiber);
  settle_runnable_load(q);
}

void dequeue(queue& q, const entity& fiber) noexcept {
  HEDDLE_ASSERT(q.nr > 0 && q.weight_sum >= fiber.weight);
  q.nr--;
  q.weight_sum -= fiber.weight;
  q.runnable_load_avg = subtract_down_to_0(q.runnable_load_avg, fiber.load_avg);
  q.runnable_load_sum = subtract_down_to_0(q.runnable_load_sum, weighted_load_sum(fiber));
  settle_runnable_load(q);
}

void attach(queue& q, entity& fiber, bool age, int shift) noexcept {
  if (age && fiber.last != detached && fiber.last < q.avg.last) update(fiber, q.avg.last, blocked, shift);
  fiber.last = q.avg.last;
  fiber.position = q.avg.position;
  const uint64_t by = divider(q.avg.position);
  fiber.util_sum = static_cast<uint32_t>(fiber.util_avg * by);
  fiber.runnable_sum = static_cast<uint32_t>(fiber.runnable_avg * by);
  const uint64_t load_sum = fiber.load_avg * by;
  fiber.load_sum = fiber.weight < load_sum ? static_cast<uint32_t>(load_sum / fiber.weight) : 1;

  q.avg.load_avg += fiber.load_avg;
  q.avg.load_sum += weighted_load_sum(fiber);
  q.avg.runnable_avg += fiber.runnable_avg;
  q.avg.runnable_sum += fiber.runnable_sum;
  q.avg.util_avg += fiber.util_avg;
  q.avg.util_sum += fiber.util_sum;
}

void detach(queue& q, entity& fiber) noexcept {
  q.avg.load_avg = subtract_down_to_0(q.avg.load_avg, fiber.load_avg);
  q.avg.load_sum = subtract_down_to_0(q.avg.load_sum, weighted_load_sum(fiber));
  q.avg.runnable_avg = subtract_down_to_0(q.avg.runnable_avg, fiber.runnable_avg);
  q.avg.runnable_sum = subtract_down_to_0(q.avg.runnable_sum, fiber.runnable_sum);
  q.avg.util_avg = subtract_down_to_0(q.avg.util_avg, fiber.util_avg);
  q.avg.util_sum = subtract_down_to_0(q.avg.util_sum, fiber.util_sum);
  keep_sums_with_averages(q.avg);
  settle_runnable_load(q);
  fiber.last = detached;
}

void leave_blocked(entity& fiber, removed& gone, nanos queue_last, nanos now, int shift) noexcept {
  // What the queue must give back is what the fiber was worth when the queue was last accounted, not what it is worth
  // now.
  if (fiber.last < queue_last) update(fiber, queue_last, blocked, shift);
  gone.load.fetch_add(fiber.load_avg, relaxed);
  gone.runnable.fetch_add(fiber.runnable_avg, relaxed);
  gone.util.fetch_add(fiber.util_avg, relaxed);
  if (fiber.last < now) update(fiber, now, blocked, shift);
  fiber.last = detached;
}

void start(entity& fiber, uint32_t weight, const queue& first) noexcept {
  fiber = {.last = detached, .load_avg = weight, .weight = weight};
  if (first.avg.util_avg >= full_scale) return;
  const uint64_t cap = (full_scale - first.avg.util_avg) / 2;
  if (cap == 0) return;
  const uint64_t share = first.avg.util_avg * weight / (first.avg.load_avg + 1);
  fiber.util_avg = static_cast<uint32_t>(first.avg.util_avg == 0 ? cap : std::min(cap, share));
  fiber.runnable_avg = fiber.util_avg;
}

}  // namespace heddle::core::pelt
