// The least loaded CPU of a wide domain: group by group, level by level (policy-reference 5.5). For new fibers, and for wake-ups
// that balance_wake or wake_wide_idle send here.
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

struct slow_query {
  cpu_id from = cpu_id::none;  // whose view of the machine is taken: ties stay near it
  cpu_id prev = cpu_id::none;  // carries the sleeping fiber's load; none for a new fiber
  fiber_load load;
  const cpu_set* allowed = nullptr;
  uint32_t flag = 0;  // levels without it are only walked through; 0: any
  bool fork = false;
  nanos now{0};
};

struct slow_answer {
  cpu_id cpu = cpu_id::none;  // none: nothing below `top` is allowed
  uint32_t probes = 0;
};

// `top` is a level of from's chain.
slow_answer find_idlest(const policy_view& v, const sched_domain& top, const slow_query& q) noexcept;

// The widest level of cpu's chain that a search may cover, or null: wake_idle_levels ...
const sched_domain* widest_for_wake(const policy_view& v, cpu_id cpu) noexcept;
// ... and the widest that has the flag.
const sched_domain* widest_with(const policy_view& v, cpu_id cpu, uint32_t flag) noexcept;

// Where to go when `cpu` itself is not allowed: the nearest that is, an idle one first within a level.
cpu_id nearest_allowed(const policy_view& v, cpu_id cpu, const cpu_set& allowed) noexcept;

// NUMA (1.6): an imbalance of two tolerates nothing while few run there.
int64_t adjust_numa_imbalance(int64_t imbalance, int64_t running_on_target, int64_t allowance) noexcept;

// ---- the comparison of two groups, as values
enum class spare_class : uint8_t { has_spare, fully_busy, overloaded };
struct group_sums {
  int64_t load = 0;  // by load_metric
  int64_t util = 0;
  int64_t runnable = 0;
  int64_t capacity = 0;
  int64_t nr = 0;
  int64_t idle = 0;    // CPUs
  int64_t weight = 0;  // CPUs
  int64_t spare = 0;   // the most any of its CPUs has left

  int64_t avg() const noexcept { return capacity > 0 ? load * 1024 / capacity : 0; }
};
spare_class class_of(const group_sums& g, int64_t pct) noexcept;  // 7.3

struct group_contest {
  group_sums local;
  group_sums best;
  int64_t pct = 117;
  bool numa = false;
  int64_t numa_allowance = 0;
  int64_t fiber_util = 0;
  bool fork = false;
};
bool goes_to_best_v55(const group_contest& c) noexcept;
bool goes_to_best_v419(const group_contest& c) noexcept;
bool goes_to_best_v310(const group_contest& c) noexcept;

}  // namespace heddle::core
