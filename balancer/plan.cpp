#include "balancer/plan.h"

#include "affinity/placement.h"
#include "balancer/busiest.h"
#include "balancer/classic.h"

namespace heddle::core {
namespace {

cpu_id designated(const balance_world& w, const sched_domain& level) noexcept {
  const cpu_set& mask = level.group(0).balance_mask;
  const bool by_core = w.set.lb_swb == lb_swb_t::core_aware && !level.has(df_share_capacity);
  cpu_id half_idle = cpu_id::none;
  for (cpu_id cpu : mask) {
    if (!w.state.idle(cpu)) continue;
    if (!by_core || core_idle(w.machine, w.state, w.set, cpu)) return cpu;
    if (!valid(half_idle)) half_idle = cpu;
  }
  return valid(half_idle) ? half_idle : mask.lowest();
}

bool above_llc(const sched_domain& level) noexcept { return !level.has(df_share_llc); }

}  // namespace

plan_answer plan_balance(const balance_world& w, const plan_query& q) noexcept {
  const sched_domain& level = w.domains.chain(q.me)[q.level];
  const level_constants constants = constants_of(level, w.set);
  plan_answer answer{
      .plan = {.to = q.me, .nr_failed = q.nr_failed, .how = q.how, .level = static_cast<uint8_t>(q.level)}};
  balance_plan& plan = answer.plan;

  if (!should_we_balance(w, level, q.me, q.how)) {
    plan.reason = balance_reason::not_designated;
    return answer;
  }
  const group_comparison groups = compare_groups(
      w, level,
      {.me = q.me, .how = q.how, .imbalance_pct = constants.imbalance_pct, .now = q.now, .excluded = q.excluded});
  answer.compared = true;
  answer.overloaded_cpu = groups.overloaded_cpu;
  answer.util = groups.total_util;

  const imbalance_query question{
      .how = q.how,
      .imbalance_pct = constants.imbalance_pct,
      .above_llc = above_llc(level),
      .numa = level.has(df_numa),
      .imb_numa_nr = level.shared->imb_numa_nr,
      .prefer_sibling = w.set.prefer_sibling && (groups.busiest.flags & df_prefer_sibling) != 0};
  const imbalance found = w.set.lb_form == lb_form_t::v55 ? imbalance_of(groups, question)
                                                          : classic_imbalance(w.set.lb_form, groups, question);
  plan.reason = found.reason;
  if (found.kind == pull_kind::none) return answer;

  const busiest_answer source =
      busiest_cpu(w, *groups.busiest_group,
                  {.me = q.me, .kind = found.kind, .amount = found.amount, .now = q.now, .excluded = q.excluded});
  if (!valid(source.cpu)) {
    plan.reason = source.pinned || !q.excluded.empty() ? balance_reason::only_pinned : balance_reason::no_busy_group;
    return answer;
  }
  plan.from = source.cpu;
  plan.kind = found.kind;
  plan.amount = found.amount;
  plan.at_most = static_cast<uint32_t>(w.set.nr_migrate);
  plan.hot_may_move = level.has(df_share_capacity) || q.nr_failed > constants.cache_nice_tries;
  return answer;
}

bool should_we_balance(const balance_world& w, const sched_domain& level, cpu_id me, puller how) noexcept {
  // What a wake-up brought meanwhile ends the search. Not idle(): a CPU that searches is not.
  const board_row& mine = w.state.row(me);
  if (how == puller::newly_idle) return mine.nr.load(relaxed) == 0 && mine.pending.load(relaxed) == 0;
  return designated(w, level) == me;
}

}  // namespace heddle::core
