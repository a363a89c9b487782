// Load balance as it was until 5.4 (policy-reference 7.5, old form): groups are compared by average load, never by idle CPUs
// alone, and imbalances of less than a fiber have a rule of their own. lb_form v310 and v419; the averages are what failure class
// F01 abuses: one very heavy fiber hides the idle CPUs beside it.
#pragma once

#include "balancer/imbalance.h"

namespace heddle::core {

// Loads are read with a bias against moving: here the higher of the decayed one and the one of now, there the lower. Only a busy
// CPU's pass, and an idle one's above the cache, looks at decayed loads at all (1.3).
bool decayed_load_counts(const sched_domain& level, puller how) noexcept;

// What 3.x calls imbalanced: within the group one CPU has at least an average fiber more than another, and two fibers more.
struct group_spread {
  uint64_t most_load = 0, least_load = UINT64_MAX;
  uint64_t most_nr = 0, least_nr = UINT64_MAX;
};
bool spread_unevenly(const group_spread& s, uint64_t load_per_fiber) noexcept;

group_class classic_class(lb_form_t form, const group_stats& g, bool imbalanced, uint64_t imbalance_pct) noexcept;
bool classic_has_capacity(lb_form_t form, const group_stats& g, uint64_t imbalance_pct) noexcept;
bool classic_busier(lb_form_t form, const group_stats& candidate, const group_stats& best, bool first) noexcept;

imbalance classic_imbalance(lb_form_t form, const group_comparison& c, const imbalance_query& q) noexcept;

}  // namespace heddle::core
