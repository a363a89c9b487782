#include "balancer/imbalance.h"

#include <algorithm>

namespace heddle::core {
namespace {

constexpr uint64_t above_0(uint64_t a, uint64_t b) noexcept { return a > b ? a - b : 0; }

// The averages of whoever is not overloaded are not kept (7.3); here one may be needed.
uint64_t avg_load_of(const group_stats& g) noexcept { return g.load * 1024 / g.capacity; }

imbalance balanced(balance_reason why) noexcept { return {.reason = why}; }

// An idle puller in a group with room: count heads, loads would leave CPUs idle beside a heavy fiber (F01).
imbalance fill(const group_comparison& c, const imbalance_query& q) noexcept {
  if (c.busiest.kind > group_class::fully_busy && q.above_llc) {
    const uint64_t room = above_0(c.local.capacity, c.local.util);
    if (room > 0) return {pull_kind::util, room, balance_reason::pull_util};
    if (q.how == puller::busy) return balanced(balance_reason::no_imbalance);
    return {pull_kind::task, 1, balance_reason::pull_util};
  }
  const bool by_sibling = c.busiest.weight == 1 || q.prefer_sibling;
  uint64_t fibers = by_sibling ? sibling_imbalance(c.busiest, c.local, q.how) : above_0(c.local.idle, c.busiest.idle);
  if (q.numa) fibers = numa_adjusted(fibers, c.local.nr + 1, q.imb_numa_nr);
  fibers /= 2;  // what leaves there arrives here
  if (fibers == 0) return balanced(balance_reason::no_imbalance);
  return {pull_kind::task, fibers, by_sibling ? balance_reason::pull_sibling : balance_reason::pull_spare};
}

imbalance even_out_loads(const group_comparison& c, uint64_t local_avg, uint64_t system_avg) noexcept {
  const uint64_t amount =
      std::min((c.busiest.avg_load - system_avg) * c.busiest.capacity, (system_avg - local_avg) * c.local.capacity) /
      1024;
  if (amount == 0) return balanced(balance_reason::no_imbalance);
  return {pull_kind::load, amount, balance_reason::pull_load};
}

// Both groups have all they can do, at least the busiest one.
imbalance level_loads(const group_comparison& c) noexcept {
  const bool kept = c.local.kind == group_class::overloaded;
  const uint64_t local_avg = kept ? c.local.avg_load : avg_load_of(c.local);
  if (local_avg >= c.busiest.avg_load) return balanced(balance_reason::local_heavier);
  const uint64_t system_avg = c.total_load * 1024 / c.total_capacity;
  if (local_avg >= system_avg) return balanced(balance_reason::above_average);
  if (c.busiest.avg_load <= system_avg) return balanced(balance_reason::no_imbalance);
  return even_out_loads(c, local_avg, system_avg);
}

imbalance amount_of(const group_comparison& c, const imbalance_query& q) noexcept {
  switch (c.busiest.kind) {
    case group_class::misfit:
      return {pull_kind::misfit, 1, balance_reason::pull_misfit};
    case group_class::smt_balance:
      return {pull_kind::task, 1, balance_reason::pull_smt};
    case group_class::imbalanced:
      return {pull_kind::task, 1, balance_reason::pull_imbalanced};
    default:
      break;
  }
  return c.local.kind == group_class::has_spare ? fill(c, q) : level_loads(c);
}

bool smt(const group_stats& g) noexcept { return (g.flags & df_share_capacity) != 0; }

}  // namespace

std::string_view to_string(pull_kind kind) noexcept {
  constexpr std::string_view names[] = {"none", "task", "load", "util", "misfit", "push"};
  return names[static_cast<size_t>(kind)];
}

imbalance imbalance_of(const group_comparison& c, const imbalance_query& q) noexcept {
  if (c.busiest_group == nullptr) return balanced(balance_reason::no_busy_group);
  const group_stats &local = c.local, &busiest = c.busiest;

  if (busiest.kind == group_class::misfit || busiest.kind == group_class::imbalanced) return amount_of(c, q);
  if (local.kind > busiest.kind) return balanced(balance_reason::lower_class);
  if (local.kind == group_class::overloaded) {
    if (local.avg_load >= busiest.avg_load) return balanced(balance_reason::local_heavier);
    if (local.avg_load >= c.total_load * 1024 / c.total_capacity) return balanced(balance_reason::above_average);
    if (100 * busiest.avg_load <= q.imbalance_pct * local.avg_load) return balanced(balance_reason::within_pct);
  }
  if (q.prefer_sibling && local.kind == group_class::has_spare && sibling_imbalance(busiest, local, q.how) > 1)
    return amount_of(c, q);

  if (busiest.kind != group_class::overloaded) {
    if (q.how == puller::busy) return balanced(balance_reason::puller_busy);
    if (busiest.kind == group_class::smt_balance && smt(busiest) != smt(local)) return amount_of(c, q);
    if (busiest.weight > 1 && local.idle <= busiest.idle + 1) return balanced(balance_reason::idle_enough);
    if (busiest.nr == 1) return balanced(balance_reason::single_fiber);
  }
  return amount_of(c, q);
}

uint64_t sibling_imbalance(const group_stats& busiest, const group_stats& local, puller how) noexcept {
  if (how == puller::busy || busiest.nr == 0) return 0;
  const uint64_t cores_busiest = busiest.cores, cores_local = local.cores;
  if (cores_busiest == cores_local) return above_0(busiest.nr, local.nr);
  const uint64_t both = cores_busiest + cores_local;
  const uint64_t scaled = above_0(cores_local * busiest.nr, cores_busiest * local.nr);
  const uint64_t fibers = (2 * scaled + both) / both;  // rounded to the nearest
  return fibers <= 1 && local.nr == 0 && busiest.nr > 1 ? 2 : fibers;
}

uint64_t numa_adjusted(uint64_t amount, uint64_t running_on_destination, int imb_numa_nr) noexcept {
  if (running_on_destination > static_cast<uint64_t>(std::max(imb_numa_nr, 0))) return amount;
  return amount <= 2 ? 0 : amount;
}

}  // namespace heddle::core
