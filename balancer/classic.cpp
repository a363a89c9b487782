#include "balancer/classic.h"

#include <algorithm>

#include "balancer/pelt.h"

namespace heddle::core {
namespace {

constexpr uint64_t unlimited = UINT64_MAX;

uint64_t per_fiber(const group_stats& g) noexcept { return g.nr > 0 ? g.load / g.nr : 0; }

imbalance balanced(balance_reason why) noexcept { return {.reason = why}; }

// What of a group's capacity its fibers can use: all of it, unless there are too few of them.
uint64_t used(const group_stats& g, uint64_t avg) noexcept {
  return g.capacity * std::min(per_fiber(g), avg) / pelt::full_scale;
}

// Less than a fiber is missing. One moves nevertheless where the other side would still not be the lighter one, or where more
// capacity would be used than now.
imbalance small_imbalance(const group_stats& local, const group_stats& busiest) noexcept {
  const uint64_t fiber = per_fiber(busiest);
  if (fiber == 0) return balanced(balance_reason::no_imbalance);
  const imbalance one{pull_kind::load, fiber, balance_reason::pull_small};
  const uint64_t step = fiber * pelt::full_scale / busiest.capacity;
  const uint64_t steps = local.nr > 0 && fiber > per_fiber(local) ? 1 : 2;
  if (busiest.avg_load + step >= local.avg_load + step * steps) return one;

  const uint64_t now = used(busiest, busiest.avg_load) + used(local, local.avg_load);
  const uint64_t left = busiest.avg_load > step ? used(busiest, busiest.avg_load - step) : 0;
  const uint64_t arrives = std::min(busiest.load, fiber) * pelt::full_scale / local.capacity;
  const uint64_t most = std::max(per_fiber(local), fiber);
  const uint64_t then = left + local.capacity * std::min(most, local.avg_load + arrives) / pelt::full_scale;
  return then > now ? one : balanced(balance_reason::no_imbalance);
}

// Load beyond what its CPUs can carry, where both groups have too much.
uint64_t excess(const group_stats& local, const group_stats& busiest) noexcept {
  const uint64_t demand = busiest.nr * pelt::full_scale;
  const bool both = local.kind == group_class::overloaded && busiest.kind == group_class::overloaded;
  return both && demand > busiest.capacity ? (demand - busiest.capacity) * pelt::full_scale / busiest.capacity
                                           : unlimited;
}

imbalance amount_of(const group_comparison& c, uint64_t system_avg) noexcept {
  const group_stats &local = c.local, &busiest = c.busiest;
  if (busiest.avg_load <= system_avg || local.avg_load >= system_avg) return small_imbalance(local, busiest);
  const uint64_t most = std::min(busiest.avg_load - system_avg, excess(local, busiest));
  const uint64_t amount =
      std::min(most * busiest.capacity, (system_avg - local.avg_load) * local.capacity) / pelt::full_scale;
  if (amount < per_fiber(busiest)) return small_imbalance(local, busiest);
  return {pull_kind::load, amount, balance_reason::pull_load};
}

}  // namespace

bool decayed_load_counts(const sched_domain& level, puller how) noexcept {
  if (level.has(df_share_capacity) || how == puller::newly_idle) return false;
  if (how == puller::busy) return true;
  return !level.has(df_share_llc);
}

bool spread_unevenly(const group_spread& s, uint64_t load_per_fiber) noexcept {
  if (s.least_nr == UINT64_MAX) return false;
  return s.most_load - s.least_load >= load_per_fiber && s.most_nr > s.least_nr + 1;
}

group_class classic_class(lb_form_t form, const group_stats& g, bool imbalanced, uint64_t imbalance_pct) noexcept {
  const bool full = form == lb_form_t::v310 || g.capacity * 100 < g.util * imbalance_pct;
  if (g.nr > g.weight && full) return group_class::overloaded;
  return imbalanced ? group_class::imbalanced : group_class::has_spare;
}

bool classic_has_capacity(lb_form_t form, const group_stats& g, uint64_t imbalance_pct) noexcept {
  return g.nr < g.weight || (form == lb_form_t::v419 && g.capacity * 100 > g.util * imbalance_pct);
}

bool classic_busier(lb_form_t form, const group_stats& candidate, const group_stats& best, bool first) noexcept {
  // 3.x takes from nobody who can do all it has.
  if (form == lb_form_t::v310 && candidate.kind == group_class::has_spare) return false;
  if (first) return true;
  if (form == lb_form_t::v419 && candidate.kind != best.kind) return candidate.kind > best.kind;
  return candidate.avg_load > best.avg_load;
}

imbalance classic_imbalance(lb_form_t form, const group_comparison& c, const imbalance_query& q) noexcept {
  if (c.busiest_group == nullptr) return balanced(balance_reason::no_busy_group);
  const group_stats &local = c.local, &busiest = c.busiest;
  const uint64_t system_avg = c.total_load * pelt::full_scale / c.total_capacity;
  const auto forced = [&] { return amount_of(c, system_avg); };

  if (busiest.kind == group_class::imbalanced) return forced();
  const bool idle = form == lb_form_t::v310 ? q.how == puller::newly_idle : q.how != puller::busy;
  if (idle && classic_has_capacity(form, local, q.imbalance_pct) &&
      !classic_has_capacity(form, busiest, q.imbalance_pct))
    return forced();
  if (local.avg_load >= busiest.avg_load) return balanced(balance_reason::local_heavier);
  if (local.avg_load >= system_avg) return balanced(balance_reason::above_average);
  if (q.how == puller::idle) {
    if (busiest.kind != group_class::overloaded && local.idle <= busiest.idle + 1)
      return balanced(balance_reason::idle_enough);
  } else if (100 * busiest.avg_load <= q.imbalance_pct * local.avg_load) {
    return balanced(balance_reason::within_pct);
  }
  return forced();
}

}  // namespace heddle::core
