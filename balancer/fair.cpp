#include "balancer/fair.h"

#include <bit>

#include "runtime/base/check.h"

namespace heddle::core {
namespace {

// So many fibers share one latency period; more of them get a minimum each.
constexpr uint32_t nr_latency = 8;
constexpr uint64_t cpus_scaled_max = 8;

// More CPUs mean more queues to be spread over, so a fiber may keep its own for longer.
int64_t scale_of(tunable_scaling_t how, size_t cpu_count) noexcept {
  const uint64_t cpus = std::clamp<uint64_t>(cpu_count, 1, cpus_scaled_max);
  switch (how) {
    case tunable_scaling_t::none:
      break;
    case tunable_scaling_t::log:
      return 1 + (std::bit_width(cpus) - 1);
    case tunable_scaling_t::linear:
      return static_cast<int64_t>(cpus);
  }
  return 1;
}

int64_t virtual_slice(const fair_rules& rules, uint32_t weight) noexcept {
  return virtual_time(rules.base_slice, weight);
}

// Lag is bounded, or one long absence of the competition would owe a fiber for ever.
int64_t bounded_lag(const fair_rules& rules, const fair_entity& f, int64_t lag) noexcept {
  const int64_t most = virtual_time(2 * rules.base_slice, f.weight);
  return std::clamp(lag, -most, most);
}

// EEVDF: at V minus what it was owed, inflated, since its arrival moves V by a part of it.
void place_with_lag(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept {
  int64_t lag = rules.place_lag ? f.lag : 0;
  if (queue.weight > 0) lag = lag * (queue.weight + f.weight) / queue.weight;
  f.v = queue.mean_v - lag;
}

void place_by_latency(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept {
  if (f.fresh) {
    f.v = queue.min_v;
    if (rules.start_debit)
      f.v += virtual_time(slice_of(rules, f.weight, queue.weight + f.weight, queue.nr + 1), f.weight);
    return;
  }
  const int64_t credit = rules.gentle ? rules.latency / 2 : rules.latency;
  f.v = std::max(f.v, queue.min_v - credit);
}

}  // namespace

fair_rules fair_rules_of(const settings& set, size_t cpu_count) noexcept {
  const int64_t scale = scale_of(set.tunable_scaling, cpu_count);
  return {.order = set.pick_order,
          .base_slice = set.base_slice_ns * scale,
          .latency = set.sched_latency_ns * scale,
          .min_granularity = set.min_granularity_ns * scale,
          .wakeup_gran = set.wakeup_gran_ns * scale,
          .gentle = set.gentle_fair_sleepers,
          .start_debit = set.start_debit,
          .wakeup_preemption = set.wakeup_preemption,
          .run_to_parity = set.run_to_parity,
          .place_lag = set.place_lag};
}

int64_t slice_of(const fair_rules& rules, uint32_t weight, int64_t total_weight, uint32_t nr) noexcept {
  if (rules.order != pick_order_t::vruntime) return rules.base_slice;
  const int64_t round = nr <= nr_latency ? rules.latency : rules.min_granularity * int64_t{nr};
  return total_weight > 0 ? round * weight / total_weight : round;
}

void charge(const fair_rules& rules, fair_entity& f, int64_t exec) noexcept {
  f.ran += exec;
  f.v += virtual_time(exec, f.weight);
  if (rules.order == pick_order_t::eevdf && f.v >= f.deadline) f.deadline = f.v + virtual_slice(rules, f.weight);
}

void sleep_on(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept {
  if (rules.order == pick_order_t::eevdf) f.lag = bounded_lag(rules, f, queue.mean_v - f.v);
  f.ran = 0;
  f.asleep = true;
}

void place(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept {
  switch (rules.order) {
    case pick_order_t::fifo:
      break;
    case pick_order_t::vruntime:
      place_by_latency(rules, queue, f);
      break;
    case pick_order_t::eevdf:
      place_with_lag(rules, queue, f);
      // A new fiber's first request is half as long: it shows soon whether it will run for long.
      f.deadline = f.v + virtual_slice(rules, f.weight) / (f.fresh ? 2 : 1);
      break;
  }
  f.fresh = f.asleep = false;
}

void leave_queue(const fair_rules& rules, const fair_view& from, fair_entity& f) noexcept {
  if (rules.order == pick_order_t::eevdf) f.lag = bounded_lag(rules, f, from.mean_v - f.v);
  f.deadline -= f.v;
  f.v -= from.min_v;
  f.away = true;
}

void join_queue(const fair_rules& rules, const fair_view& to, fair_entity& f) noexcept {
  f.v += to.min_v;
  f.away = false;
  if (rules.order == pick_order_t::eevdf) place_with_lag(rules, to, f);
  f.deadline += f.v;
}

fair_view fair_sums::view(int64_t min_v_before) const noexcept {
  if (nr_ == 0) return {.min_v = min_v_before, .mean_v = min_v_before};
  HEDDLE_ASSERT(weight_ > 0);
  return {
      .min_v = std::max(min_v_before, lowest_), .mean_v = zero_ + weighted_ / weight_, .weight = weight_, .nr = nr_};
}

bool buddy_may_run(const fair_rules& rules, const fair_sums& sums, const fair_entity& buddy,
                   const fair_entity* first) noexcept {
  if (!first) return true;
  switch (rules.order) {
    case pick_order_t::fifo:
      break;
    case pick_order_t::vruntime:
      return buddy.v - first->v <= virtual_time(rules.wakeup_gran, first->weight);
    case pick_order_t::eevdf:
      return sums.eligible(buddy);
  }
  return true;
}

bool keeps(const fair_rules& rules, const fair_sums& sums, const fair_entity& yielder,
           const fair_entity& first) noexcept {
  if (rules.order == pick_order_t::eevdf) return goes_first(rules, sums, yielder, first);
  return rules.weighted() && first.v - yielder.v > virtual_time(rules.wakeup_gran, first.weight);
}

std::string_view to_string(preempt_reason reason) noexcept {
  constexpr std::array names = {
#define X(name, meaning) std::string_view{#name},
      HEDDLE_PREEMPT_REASONS(X)
#undef X
  };
  return names[static_cast<size_t>(reason)];
}

preempt_reason tick_preempts(const fair_rules& rules, const fair_view& queue, const fair_entity& running,
                             const fair_entity* first) noexcept {
  if (!first) return preempt_reason::none;
  if (running.idle_class && !first->idle_class) return preempt_reason::idle_class;
  const int64_t slice = slice_of(rules, running.weight, queue.weight, queue.nr);
  if (running.ran > slice) return preempt_reason::slice_used;
  if (rules.order == pick_order_t::vruntime && running.ran >= rules.min_granularity && running.v - first->v > slice)
    return preempt_reason::behind;
  return preempt_reason::none;
}

preempt_reason wakeup_preempts(const fair_rules& rules, const fair_view& queue, const fair_entity& running,
                               const fair_entity& wakee) noexcept {
  if (running.idle_class && !wakee.idle_class) return preempt_reason::idle_class;
  if (!rules.wakeup_preemption || wakee.idle_class) return preempt_reason::none;
  switch (rules.order) {
    case pick_order_t::fifo:
      break;
    case pick_order_t::vruntime:
      if (running.v - wakee.v > virtual_time(rules.wakeup_gran, wakee.weight)) return preempt_reason::wakeup;
      break;
    case pick_order_t::eevdf: {
      const bool running_may = running.v <= queue.mean_v;
      if (rules.run_to_parity && running_may && running.ran < rules.base_slice) break;
      if (wakee.v > queue.mean_v) break;
      if (!running_may || wakee.deadline < running.deadline) return preempt_reason::wakeup;
      break;
    }
  }
  return preempt_reason::none;
}

}  // namespace heddle::core
