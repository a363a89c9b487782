#include "balancer/periodic.h"

#include <algorithm>

#include "affinity/idle_scan.h"
#include "runtime/base/check.h"

namespace heddle::core {
namespace {

// A CPU without levels looks again after this many units; also the horizon of the search for the next due level.
constexpr int64_t horizon_units = 60'000;

balance_plan no_plan(cpu_id me, puller how, balance_reason why) noexcept {
  return {.to = me, .reason = why, .how = how};
}

struct pass_view {
  const balance_world& w;
  balance_state& s;
  cpu_id me;
  bool busy;
  nanos now;

  std::span<const sched_domain> chain() const noexcept { return w.domains.chain(me); }
  const sched_domain& level() const noexcept { return chain()[s.pass.level]; }
  level_state& state() const noexcept { return s.levels[s.pass.level]; }
  nanos interval() const noexcept { return interval_of(state().interval, busy, w.machine.cpu_count(), w.set); }
};

bool serialized(const pass_view& p) noexcept { return p.w.set.lb_serialize_numa && p.level().has(df_serialize); }

// Affinity forced an imbalance upon this level: its parent should help, or need no longer.
void tell_parent(const pass_view& p, bool imbalanced) noexcept {
  if (p.s.pass.level + 1 < p.chain().size()) p.w.shared.set_imbalanced(p.chain()[p.s.pass.level + 1], 0, imbalanced);
}

// SIS_UTIL (5.3): the fuller an LLC, the less a wake-up may search in it. Never by a newidle search, which sees it at its emptiest.
void set_search_budget(const pass_view& p, const plan_answer& a) noexcept {
  const board& state = p.w.state;
  const int llc = p.w.machine.at(p.me).llc;
  if (!p.level().has(df_share_llc) || p.level().shared->weight != static_cast<size_t>(state.llc_size(llc))) return;
  const int32_t budget = util_budget(static_cast<int64_t>(a.util), state.llc_size(llc),
                                     static_cast<int64_t>(constants_of(p.level(), p.w.set).imbalance_pct));
  atomic<int32_t>& row = p.w.state.llc(llc).nr_idle_scan;
  if (row.load(relaxed) != budget) row.store(budget, relaxed);
}

plan_answer plan_level(const pass_view& p, puller how) noexcept {
  const plan_answer a = plan_balance(p.w, {.me = p.me,
                                           .level = p.s.pass.level,
                                           .how = how,
                                           .now = p.now,
                                           .nr_failed = p.state().nr_failed,
                                           .excluded = p.s.pass.excluded.all()});
  if (a.compared) set_search_budget(p, a);
  if (a.compared) p.w.shared.set_crowded(p.level(), a.overloaded_cpu);
  if (a.compared && p.s.pass.level + 1 == p.chain().size())
    if (p.w.shared.overloaded.load(relaxed) != a.overloaded_cpu) p.w.shared.overloaded.store(a.overloaded_cpu, relaxed);
  return a;
}

void next_level(const pass_view& p) noexcept {
  p.s.pass.next = std::min(p.s.pass.next, saturating_add(p.state().last_balance, p.interval()));
  p.s.pass.level++;
}

void finish_level(const pass_view& p) noexcept {
  if (p.s.pass.token) p.w.shared.return_token(p.me);
  p.s.pass.token = false;
  p.s.pass.outstanding = false;
  p.state().last_balance = p.now;
  next_level(p);
}

void found_balanced(const pass_view& p, balance_reason why) noexcept {
  const bool all_pinned = why == balance_reason::only_pinned;
  p.state().nr_failed = 0;
  p.state().interval = grown_interval(p.state().interval, all_pinned, constants_of(p.level(), p.w.set));
  if (!all_pinned && why != balance_reason::not_designated) tell_parent(p, false);
  finish_level(p);
}

bool push_due(const pass_view& p, const balance_plan& plan) noexcept {
  if (!p.w.set.active_push) return false;
  if (plan.kind == pull_kind::misfit) return true;
  const bool any_kind = p.w.set.lb_form != lb_form_t::v55;  // the old forms know loads only
  return (any_kind || plan.kind == pull_kind::task) &&
         p.state().nr_failed > constants_of(p.level(), p.w.set).cache_nice_tries + 2;
}

// The costs of newidle searches are forgotten here too, or a CPU that never tries would never try again.
void decay_costs(balance_state& s, const settings& set, nanos now) noexcept {
  bool any = false;
  nanos sum{0};
  for (level_state& level : s.levels) {
    any |= decay_cost(level.newidle, now, set);
    sum += level.newidle.max_cost;
  }
  if (any) s.max_idle_cost = std::max(cost_floor(set), sum);
}

void open_pass(balance_state& s, const settings& set, nanos now) noexcept {
  decay_costs(s, set, now);
  s.pass = {.open = true, .next = saturating_add(now, nanos{horizon_units * set.balance_unit_ns})};
}

void close_pass(balance_state& s) noexcept {
  s.pass.open = false;
  s.next_balance = s.pass.next;
}

}  // namespace

balance_state::balance_state(const domain_tree& domains, const settings& set, cpu_id me, nanos now)
    : max_idle_cost(cost_floor(set)) {
  for (const sched_domain& level : domains.chain(me))
    levels.push_back(
        {.last_balance = now, .interval = level.shared->weight, .newidle = {.cost_stamp = now, .ratio_stamp = now}});
}

balance_plan balance_tick(const balance_world& w, balance_state& s, cpu_id me, puller how, nanos now) noexcept {
  if (!w.set.lb) return no_plan(me, how, balance_reason::switched_off);
  if (s.pass.outstanding) return no_plan(me, how, balance_reason::outstanding);
  if (!s.pass.open) {
    if (now < s.next_balance) return no_plan(me, how, balance_reason::not_due);
    open_pass(s, w.set, now);
  }
  const pass_view p{w, s, me, how == puller::busy && !w.state.only_idle_class(me), now};
  for (; s.pass.level < p.chain().size(); next_level(p)) {
    if (now < saturating_add(p.state().last_balance, p.interval())) continue;
    if (serialized(p) && !(s.pass.token = w.shared.take_token(me))) continue;
    s.pass.moved = 0;
    s.pass.excluded.clear();
    s.pass.retried = false;
    const balance_plan plan = plan_level(p, how).plan;
    if (plan.pull()) {
      s.pass.outstanding = true;
      return plan;
    }
    found_balanced(p, plan.reason);
    if (plan.reason == balance_reason::not_designated) s.pass.level = p.chain().size();  // wider levels are not ours
    return plan;
  }
  close_pass(s);
  return no_plan(me, how, balance_reason::not_due);
}

balance_plan report(const balance_world& w, balance_state& s, cpu_id me, const balance_plan& plan,
                    const pull_outcome& outcome, nanos now) noexcept {
  HEDDLE_ASSERT(s.pass.outstanding && plan.level == s.pass.level);
  const pass_view p{w, s, me, plan.how == puller::busy, now};
  s.pass.moved += outcome.moved;

  if (valid(outcome.alternative) && outcome.left > 0 && !s.pass.retried) {
    balance_plan again = plan;
    again.to = outcome.alternative;
    again.amount = outcome.left;
    again.reason = balance_reason::pull_retry;
    s.pass.retried = true;
    return again;
  }
  if (outcome.pinned > 0 && outcome.left > 0) tell_parent(p, true);
  if (outcome.all_pinned() && s.pass.excluded.add(plan.from)) {
    s.pass.retried = false;
    const balance_plan other = plan_level(p, plan.how).plan;
    if (other.pull()) return other;
    if (s.pass.moved == 0) {
      found_balanced(p, balance_reason::only_pinned);
      return no_plan(me, plan.how, balance_reason::only_pinned);
    }
  }

  level_state& level = p.state();
  balance_plan next = no_plan(me, plan.how, s.pass.moved > 0 ? balance_reason::moved : balance_reason::failed);
  next.level = plan.level;
  if (s.pass.moved > 0) {
    level.nr_failed = 0;
  } else {
    if (plan.kind != pull_kind::misfit) level.nr_failed++;
    if (push_due(p, plan)) {
      next = plan;
      next.to = me;
      next.amount = next.at_most = 1;
      next.kind = pull_kind::push;
      next.reason = balance_reason::push_running;
    }
  }
  if (next.kind != pull_kind::push) level.interval = constants_of(p.level(), w.set).min_interval;
  finish_level(p);
  return next;
}

void push_reported(balance_state& s, const balance_plan& plan, bool moved, const level_constants& level,
                   const settings& set) noexcept {
  if (!moved) return;
  // Until 5.x one more failure than cache_nice_tries was left: the next pass may take hot fibers at once.
  s.levels[plan.level].nr_failed =
      set.lb_form == lb_form_t::v55 ? 0 : static_cast<uint32_t>(level.cache_nice_tries + 1);
}

}  // namespace heddle::core
