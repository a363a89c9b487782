#include "balancer/levels.h"

#include <algorithm>

namespace heddle::core {
namespace {

// 4.19 tolerated more outside a cache than inside, later kernels the same; only siblings of a core always less.
uint64_t pct_of(const sched_domain& level, const settings& set) noexcept {
  if (level.has(df_share_capacity)) return static_cast<uint64_t>(set.imbalance_pct_smt);
  return static_cast<uint64_t>(level.has(df_share_llc) ? set.imbalance_pct_llc : set.imbalance_pct_numa);
}

uint64_t tries_of(const sched_domain& level, const settings& set) noexcept {
  if (level.has(df_share_capacity)) return static_cast<uint64_t>(set.cache_nice_tries_smt);
  return static_cast<uint64_t>(level.has(df_numa) ? set.cache_nice_tries_numa : set.cache_nice_tries_llc);
}

}  // namespace

level_constants constants_of(const sched_domain& level, const settings& set) noexcept {
  // 3.x looked at every level alike; since then a wide one is looked at as seldom as it is dear.
  const bool classic = set.lb_form == lb_form_t::v310;
  const uint64_t weight = level.shared->weight;
  return {.imbalance_pct = pct_of(level, set),
          .cache_nice_tries = tries_of(level, set),
          .min_interval = classic ? 1 : weight,
          .max_interval = !classic                       ? 2 * weight
                          : level.has(df_share_capacity) ? 2u
                                                         : 4u};
}

nanos interval_of(uint64_t base, bool busy, size_t cpu_count, const settings& set) noexcept {
  const int64_t longest = set.max_balance_interval_unit_ns * static_cast<int64_t>(cpu_count);
  int64_t ns = static_cast<int64_t>(base) * set.balance_unit_ns;
  if (busy) ns = ns * set.busy_factor - (set.interval_minus_one ? set.tick_ns : 0);
  return nanos{std::clamp(ns, std::min(set.tick_ns, longest), longest)};
}

uint64_t grown_interval(uint64_t base, bool all_pinned, const level_constants& level) noexcept {
  return base < level.max_interval || (all_pinned && base < max_pinned_interval) ? 2 * base : base;
}

}  // namespace heddle::core
