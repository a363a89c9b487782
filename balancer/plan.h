// The answer to a balance pass at one level: whom to pull from, what and how much (policy-reference 7.2 to 7.6).
//
// The protocol between policy and mechanism (7.1, 7.7, 7.8 and section 8; runtime/sched/balance.cpp is its only user):
//
//   at a tick        do { plan = balance_tick(world, state, me, how, now);
//                         while (plan.pull()) { ask plan.from; plan = report(world, state, me, plan, outcome, now); }
//                         if (plan.push()) board.row(plan.from).push_to = 1 + plan.to;
//                    } while (!plan.over());
//   going idle       the same with newidle_next and newidle_report, see newidle.h
//   at the victim    detach_pass, offered its fibers one by one from the cold end, see detach.h
//
// - Values in, decisions out: nothing here waits, locks, allocates or reads a clock. A pull may take as long as the
//   mechanism likes; until it is reported, balance_tick answers `outstanding`.
// - `state` belongs to the CPU pulled *for*. Whoever balances on a parked CPU's behalf (nohz.h) needs that CPU's claim.
// - Every pull is reported exactly once, even if nothing came of it; a serialized level stays taken until then.
// - A push moves nothing now: `from` honours push_to at its next yield, whereupon push_reported() may be called.
// - Each answer is about one level and carries a reason: count it.
// - What was planned is a hint: the victim's detach_pass checks each fiber again.
#pragma once

#include <cstdint>
#include <span>

#include "balancer/classify.h"
#include "balancer/imbalance.h"
#include "balancer/levels.h"
#include "balancer/reasons.h"

namespace heddle::core {

struct balance_plan {
  cpu_id from = cpu_id::none;
  cpu_id to = cpu_id::none;  // whom the fibers go to
  uint64_t amount = 0;       // in units of `kind`
  uint32_t at_most = 0;      // fibers
  uint32_t nr_failed = 0;    // earlier failures at this level: each doubles the load a fiber may have
  pull_kind kind = pull_kind::none;
  balance_reason reason = balance_reason::not_due;
  puller how = puller::busy;
  uint8_t level = 0;          // index into the chain of the CPU pulled for
  bool hot_may_move = false;  // siblings share the cache; elsewhere after enough failures

  bool pull() const noexcept { return kind != pull_kind::none && kind != pull_kind::push; }
  bool push() const noexcept { return kind == pull_kind::push; }
  // No level is left to look at now.
  bool over() const noexcept { return reason <= balance_reason::searched; }
};
static_assert(sizeof(balance_plan) <= 32);

struct plan_query {
  cpu_id me;
  size_t level;
  puller how;
  nanos now;
  uint32_t nr_failed = 0;
  std::span<const cpu_id> excluded = {};
};

// The story of one level, top down. Hands `overloaded_cpu` of what it saw to the caller, who may be at the top.
struct plan_answer {
  balance_plan plan;
  bool compared = false;  // it got as far as reading the groups
  bool overloaded_cpu = false;
  uint64_t util = 0;  // of the whole level
};
plan_answer plan_balance(const balance_world& world, const plan_query& q) noexcept;

// Per interval one CPU of each group balances on behalf of the others.
bool should_we_balance(const balance_world& world, const sched_domain& level, cpu_id me, puller how) noexcept;

}  // namespace heddle::core
