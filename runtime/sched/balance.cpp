// The mechanism's side of balancing (balancer/plan.h tells the protocol): ticks make plans, victims answer them at their next
// scheduling point, and what came of it is reported. A worker has at most one plan under way.
//
// A pull is asked for as a steal is (steal.cpp, S1), in a slot of its own: the puller writes `pull.plan`, posts itself in
// victim.puller (acq_rel) and sets attention; the victim writes `pull.outcome` and sets `pull.answered` (release).
#include "balancer/newidle.h"
#include "balancer/nohz.h"
#include "balancer/periodic.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/offer.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {
namespace {

// A victim that does not come by in so many ticks is stuck or idle: the plan came to nothing.
constexpr int64_t patience_ticks = 20;

// A pass has read the rows of the domain its answer is about.
void charge_pass(scheduler& s, const worker& w, const balance_plan& plan) noexcept {
  if (!s.simulated || plan.over()) return;
  const auto chain = s.domains.chain(w.cpu);
  if (plan.level < chain.size()) s.charge(chore::balance, w.cpu, chain[plan.level].span().count());
}

// Each answer is counted, by its reason and for its level.
void note(worker& w, const balance_plan& plan) noexcept {
  w.reasons.add(plan.reason);
  if (plan.level < w.levels->levels.size()) w.level_counts[plan.level].note(plan);
}

balance_plan reported(const balance_world& view, worker& w, const balance_plan& plan, nanos now) noexcept {
  w.level_counts[plan.level].note(plan, w.pull.outcome);
  balance_plan next = report(view, *w.levels, w.cpu, plan, w.pull.outcome, now);
  next.level = plan.level;  // it speaks of the same one
  return next;
}

// A search's time since `before` was spent on the plan's level.
nanos note_time(worker& w, const balance_plan& plan, nanos before, nanos now) noexcept {
  bump(w.level_counts[plan.level].by[static_cast<size_t>(puller::newly_idle)].ns, (now - before).count());
  return now;
}

}  // namespace

balance_world scheduler::world(const settings& rule) noexcept { return {cpus, domains, said, rule, *balancing}; }

void scheduler::ask(worker& w, const balance_plan& plan, int64_t now) noexcept {
  worker& victim = worker_of(plan.from);
  w.pull.plan = plan;
  w.pull.outcome = {};
  w.pull.asked_at = now;
  w.pull.answered.store(0, relaxed);
  worker* nobody = nullptr;
  if (!victim.puller.compare_exchange_strong(nobody, &w, acq_rel, relaxed)) {
    w.pull.answered.store(1, relaxed);  // somebody else pulls there: nothing for us
    return;
  }
  victim.on.load(acquire)->attention.fetch_or(att_request, seq_cst);
  if (preempts) on->interrupt(victim.cpu);
}

// False: the victim has taken the request and is about to answer it.
bool scheduler::withdraw(worker& w) noexcept {
  worker* me = &w;
  return worker_of(w.pull.plan.from).puller.compare_exchange_strong(me, nullptr, acq_rel, relaxed);
}

// The periodic balance of a busy worker, from its tick.
void scheduler::balance(worker& w, int64_t now) noexcept {
  const settings& rule = *rules.load(acquire);
  if (!rule.lb || w.victims.empty()) return;
  const balance_world view = world(rule);
  balance_plan plan;
  if (w.pull.open) {
    if (!w.pull.answered.load(acquire)) {
      if (now - w.pull.asked_at < patience_ticks * rule.tick_ns || !withdraw(w)) return;
    }
    w.pull.open = false;
    plan = reported(view, w, w.pull.plan, nanos{now});
  } else {
    if (nanos{now} < w.levels->next_balance) return;
    w.count.add(counter::balance_runs);
    plan = balance_tick(view, *w.levels, w.cpu, puller::busy, nanos{now});
    charge_pass(*this, w, plan);
  }
  for (;; plan = balance_tick(view, *w.levels, w.cpu, puller::busy, nanos{now}), charge_pass(*this, w, plan)) {
    note(w, plan);
    if (plan.pull()) {
      w.count.add(counter::balance_moved);
      w.pull.open = true;
      return ask(w, plan, now);
    }
    if (plan.push()) said.row(plan.from).push_to.store(1 + static_cast<uint32_t>(plan.to), relaxed);
    if (plan.over()) return;
  }
}

// The search of a worker about to idle: true when something arrived. Outside the bracket; waits for each victim's answer.
bool scheduler::newidle(worker& w) noexcept {
  const settings& rule = *rules.load(acquire);
  if (!rule.newidle || w.pull.open) return false;
  const balance_world view = world(rule);
  const nanos began = on->now();
  nanos now = began;
  balance_plan plan = newidle_next(view, *w.levels, w.cpu, began, w.random.next());
  if (plan.over()) {
    note(w, plan);
    w.count.add(counter::newidle_gated);
    return w.inbox.load(relaxed) != nullptr;
  }
  w.count.add(counter::newidle_tried);
  for (;;) {
    charge_pass(*this, w, plan);
    note(w, plan);
    if (plan.pull()) {
      ask(w, plan, on->now().count());
      while (!w.pull.answered.load(acquire)) {
        if (on->now().count() - w.pull.asked_at > rule.claim_after_ns && withdraw(w)) break;
        on->relax();
      }
      w.level_counts[plan.level].note(plan, w.pull.outcome);
      now = note_time(w, plan, now, on->now());
      const uint8_t level = plan.level;
      plan = newidle_report(view, *w.levels, w.cpu, plan, w.pull.outcome, now, w.random.next());
      if (!plan.over()) plan.level = level;
      continue;
    }
    if (plan.over() || plan.reason == balance_reason::work_arrived) break;
    now = note_time(w, plan, now, on->now());
    plan = newidle_next(view, *w.levels, w.cpu, now, w.random.next());
  }
  w.count.add(counter::newidle_ns, static_cast<uint64_t>((on->now() - began).count()));
  w.row->max_idle_balance_cost.store(w.levels->max_idle_cost.count(), relaxed);
  for (size_t i = 0; i < w.levels->levels.size(); i++)
    w.level_counts[i].newidle_cost.store(static_cast<uint64_t>(w.levels->levels[i].newidle.max_cost.count()), relaxed);
  const bool won = w.inbox.load(relaxed) != nullptr;
  if (won) {
    w.count.add(counter::newidle_won);
    w.marks->found_work();
  }
  return won;
}

// The periodic balance of an idle worker, by itself or by whoever holds its claim. Waits for each victim's answer.
void scheduler::balance_idle(worker& w) noexcept {
  const settings& rule = *rules.load(acquire);
  if (!rule.lb || w.pull.open || w.victims.empty() || on->now() < w.levels->next_balance) return;
  const balance_world view = world(rule);
  w.count.add(counter::balance_runs);
  balance_plan plan = balance_tick(view, *w.levels, w.cpu, puller::idle, on->now());
  for (;;) {
    note(w, plan);
    if (plan.pull()) {
      w.count.add(counter::balance_moved);
      ask(w, plan, on->now().count());
      while (!w.pull.answered.load(acquire)) {
        if (on->now().count() - w.pull.asked_at > rule.claim_after_ns && withdraw(w)) break;
        on->relax();
      }
      plan = reported(view, w, plan, on->now());
      continue;
    }
    if (plan.push()) said.row(plan.from).push_to.store(1 + static_cast<uint32_t>(plan.to), relaxed);
    if (plan.over() || w.inbox.load(relaxed)) return;
    plan = balance_tick(view, *w.levels, w.cpu, puller::idle, on->now());
  }
}

// Kicked: on behalf of all that are parked, itself last (7.9). Their state is theirs, so each is claimed; they sleep meanwhile.
void scheduler::balance_for_parked(worker& w) noexcept {
  const settings& rule = *rules.load(acquire);
  const balance_world view = world(rule);
  const bool ages = rule.blocked_decay == blocked_decay_t::ilb;
  bool blocked = false;
  nohz_walk walk(w.cpu);
  for (cpu_id cpu = walk.next(view); valid(cpu) && !w.inbox.load(relaxed); cpu = walk.next(view)) {
    worker& other = worker_of(cpu);
    if (&other == &w) {
      balance_idle(w);
      continue;
    }
    if (other.state.load(relaxed) != cpu_state::parked) continue;
    carrier* c = claim_worker(*on, other);
    if (!c) continue;
    if (other.state.load(relaxed) == cpu_state::parked) {
      if (ages) blocked |= age_parked(other, on->now());
      balance_idle(other);
    }
    unclaim(*c);
  }
  if (ages && !blocked) balancing->has_blocked.store(false, relaxed);
}

// The victim's side, with its queue in hand: what the plan wants and the policy lets go.
void scheduler::answer_pull(worker& v) noexcept {
  worker* thief = v.puller.exchange(nullptr, acq_rel);
  if (!thief) return;
  charge(chore::queue, v.cpu);
  const settings& rule = *rules.load(acquire);
  const nanos now = on->now();
  const balance_plan& plan = thief->pull.plan;
  const auto chain_of = domains.chain(plan.to);
  detach_pass pass(rule, plan, chain_of[plan.level].group(0).span, v.row->nr.load(relaxed), now);
  uint32_t taken = 0;
  const bool slot_too = rule.slot_stealable == slot_stealable_t::yes;
  waitable* list = core::detach(v, UINT32_MAX, slot_too, taken, [&](waitable& x) {
    settle(*as_fiber(&x), now);
    return offered(rule, v, pass, x);
  });
  v.count.add(counter::hot_skipped, pass.outcome().hot);
  for (waitable* f = list; f; f = f->next) leave_load(v, *as_fiber(f), now);
  v.count.add(counter::stolen_from, taken);
  v.count.add(plan.how == puller::newly_idle ? counter::moved_by_newidle : counter::moved_by_balance, taken);
  worker& to = worker_of(plan.to);
  thief->pull.outcome = pass.outcome();
  if (list) send(to, list);
  thief->pull.answered.store(1, release);
}

// An active push asked for by somebody's balance: one queued fiber goes there, and where none may, the running one at its next
// yield (pick_yield, pick_pushed): nobody can be stopped here.
void scheduler::honour_push(worker& w) noexcept {
  w.push_at_yield = 0;  // what nobody took up in a tick has lapsed
  const uint32_t to = w.row->push_to.load(relaxed);
  if (to == 0) return;
  w.row->push_to.store(0, relaxed);
  uint32_t taken = 0;
  if (waitable* list = core::detach(w, 1, false, taken, if_movable)) {
    w.count.add(counter::moved_by_push, taken);
    send(worker_of(to_cpu(to - 1)), list);
  } else {
    w.push_at_yield = to;
  }
}

// A busy worker's tick on behalf of those that sleep: one of them is woken to look for itself.
void scheduler::kick_idle(worker& w, int64_t now) noexcept {
  const settings& rule = *rules.load(acquire);
  if (w.row->nr.load(relaxed) > 1) balancing->overloaded.store(true, relaxed);
  const nohz_kick kick = nohz_choose(world(rule), w.cpu, nanos{now});
  if (!valid(kick.who)) return;
  balancing->nohz_next_ns.store(now + rule.balance_unit_ns * static_cast<int64_t>(workers.size()), relaxed);
  balancing->nohz_age_ns.store(now + rule.balance_unit_ns * 32, relaxed);
  worker& sleeper = worker_of(kick.who);
  cpu_state seen = cpu_state::parked;
  if (!sleeper.state.compare_exchange_strong(seen, cpu_state::polling, seq_cst, relaxed)) return;
  w.count.add(counter::kicks);
  sleeper.insists = true;
  unpark(sleeper);
}

}  // namespace heddle::core
