#include "balancer/newidle.h"

#include <algorithm>

#include "balancer/victims.h"
#include "runtime/base/check.h"

namespace heddle::core {
namespace {

// Of 1024: more than 99 % of its recent time this CPU had something to run.
constexpr uint32_t nearly_always = 1014;

balance_plan answer(cpu_id me, size_t level, balance_reason why) noexcept {
  return {.to = me, .reason = why, .how = puller::newly_idle, .level = static_cast<uint8_t>(level)};
}

bool work_arrived(const balance_world& w, cpu_id me) noexcept {
  return w.state.row(me).nr.load(relaxed) > 0 || w.state.row(me).pending.load(relaxed) > 0;
}

nanos avg_idle(const balance_world& w, cpu_id me) noexcept { return nanos{w.state.row(me).avg_idle.load(relaxed)}; }

// Why no search is begun, if none is.
balance_reason gate(const balance_world& w, const balance_state& s, cpu_id me) noexcept {
  const settings& set = w.set;
  if (!set.newidle) return balance_reason::switched_off;
  if (work_arrived(w, me)) return balance_reason::work_arrived;
  // Nobody has two fibers: searching is provably useless.
  if (set.ni_overload_gate && !w.shared.overloaded.load(relaxed)) return balance_reason::nobody_overloaded;
  if (set.ni_runnable && w.state.row(me).runnable_avg.load(relaxed) > nearly_always)
    return balance_reason::recently_busy;
  switch (set.ni_gate) {
    case ni_gate_t::none:
      break;
    case ni_gate_t::migration_cost:
      if (migration_cost_ns_of(set) < 0 || avg_idle(w, me) < cost_floor(set)) return balance_reason::idles_too_short;
      break;
    case ni_gate_t::domain_cost:
      if (!s.levels.empty() && avg_idle(w, me) < gate_cost(s.levels[0].newidle, set))
        return balance_reason::idles_too_short;
      break;
  }
  return balance_reason::searched;
}

bool too_wide(const balance_world& w, const sched_domain& level) noexcept {
  switch (w.set.ni_max_level) {
    case ni_max_level_t::llc:
      return !level.has(df_share_llc);
    case ni_max_level_t::node:
      return level.has(df_numa);
    case ni_max_level_t::all:
      break;
  }
  return false;
}

// Ten bits of their own for each level.
uint32_t dice(uint64_t random, size_t level) noexcept {
  return static_cast<uint32_t>(random >> (10 * (level % 6))) & 1023;
}

// The level that was looked at since the last call is over: what did it cost, did it pay?
void settle_level(const balance_world& w, balance_state& s, nanos now) noexcept {
  auto& search = s.search;
  if (search.reward == 0) return;
  const nanos cost = std::max(now - search.level_began, nanos{0});
  search.spent += cost;
  newidle_level& level = s.levels[search.level].newidle;
  note_cost(level, cost, search.got, now, w.set);
  if (cost > nanos{0}) note_result(level, search.got ? search.reward : 0, now, w.set);
  if (search.got) s.levels[search.level].nr_failed = 0;
  search.reward = 0;
  search.level++;
}

balance_plan close(balance_state& s, cpu_id me, balance_reason why) noexcept {
  s.search.open = false;
  s.max_idle_cost = std::max(s.max_idle_cost, s.search.spent);
  return answer(me, 0, why);
}

// How much a thief takes is its own setting; which fibers those are, the plan decides.
void set_share(const balance_world& w, balance_plan& plan) noexcept {
  const uint32_t share = std::max(steal_count(w.set, w.state.row(plan.from).movable.load(relaxed)), 1u);
  plan.at_most = share;
  if (share == 1) return;
  plan.kind = pull_kind::task;
  plan.amount = share;
}

balance_plan plan_level(const balance_world& w, balance_state& s, cpu_id me, nanos now) noexcept {
  const size_t level = s.search.level;
  balance_plan plan = plan_balance(w, {.me = me,
                                       .level = level,
                                       .how = puller::newly_idle,
                                       .now = now,
                                       .nr_failed = s.levels[level].nr_failed,
                                       .excluded = s.search.excluded.all()})
                          .plan;
  if (plan.pull()) set_share(w, plan);
  return plan;
}

// victims = random: no levels, no heat; whoever has something.
balance_plan plan_anywhere(const balance_world& w, balance_state& s, cpu_id me, uint64_t random) noexcept {
  const cpu_id victim = random_victim(w.state, me, random, s.search.excluded.all());
  if (!valid(victim)) return close(s, me, balance_reason::searched);
  balance_plan plan = answer(me, 0, balance_reason::pull_random);
  plan.from = victim;
  plan.kind = pull_kind::task;
  plan.amount = plan.at_most = std::max(steal_count(w.set, w.state.row(victim).movable.load(relaxed)), 1u);
  plan.hot_may_move = true;
  s.search.outstanding = true;
  return plan;
}

bool anywhere(const balance_world& w) noexcept { return w.set.victims == victims_t::random; }

}  // namespace

balance_plan newidle_next(const balance_world& w, balance_state& s, cpu_id me, nanos now, uint64_t random) noexcept {
  auto& search = s.search;
  if (search.outstanding) return answer(me, search.level, balance_reason::outstanding);
  if (search.open) {
    if (!anywhere(w)) settle_level(w, s, now);
    if (search.got || work_arrived(w, me)) return close(s, me, balance_reason::work_arrived);
  } else {
    if (const balance_reason why = gate(w, s, me); why != balance_reason::searched) return answer(me, 0, why);
    search = {.open = true};
  }
  if (anywhere(w)) return plan_anywhere(w, s, me, random);

  const std::span<const sched_domain> chain = w.domains.chain(me);
  for (; search.level < chain.size(); search.level++) {
    newidle_level& level = s.levels[search.level].newidle;
    if (!chain[search.level].has(df_balance_newidle)) continue;
    if (too_wide(w, chain[search.level])) break;
    // The widest level that shares a cache keeps a record of what its last comparison saw.
    const bool whole_llc = chain[search.level].has(df_share_llc) &&
                           (search.level + 1 == chain.size() || !chain[search.level + 1].has(df_share_llc));
    if (w.set.ni_spare && whole_llc && !w.shared.crowded(chain[search.level]))
      return answer(me, search.level++, balance_reason::no_spare);
    if (w.set.ni_domain_cost && avg_idle(w, me) < search.spent + gate_cost(level, w.set))
      return close(s, me, balance_reason::too_costly);
    search.reward = admission_reward(level, dice(random, search.level), w.set);
    if (search.reward == 0) {
      note_result(level, 0, now, w.set);
      return answer(me, search.level++, balance_reason::diced);
    }
    search.level_began = now;
    search.excluded.clear();
    const balance_plan plan = plan_level(w, s, me, now);
    search.outstanding = plan.pull();
    return plan;
  }
  return close(s, me, balance_reason::searched);
}

balance_plan newidle_report(const balance_world& w, balance_state& s, cpu_id me, const balance_plan& plan,
                            const pull_outcome& outcome, nanos now, uint64_t random) noexcept {
  auto& search = s.search;
  HEDDLE_ASSERT(search.outstanding);
  search.outstanding = false;
  search.got = outcome.moved > 0;
  if (search.got) return answer(me, plan.level, balance_reason::moved);
  if (anywhere(w)) {
    if (!search.excluded.add(plan.from) || work_arrived(w, me)) return close(s, me, balance_reason::searched);
    return plan_anywhere(w, s, me, random);
  }
  if (outcome.all_pinned() && !work_arrived(w, me) && search.excluded.add(plan.from)) {
    const balance_plan other = plan_level(w, s, me, now);
    search.outstanding = other.pull();
    return other;
  }
  return answer(me, plan.level, balance_reason::failed);
}

}  // namespace heddle::core
