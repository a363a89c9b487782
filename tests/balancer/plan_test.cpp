#include "balancer/plan.h"

#include <doctest/doctest.h>

#include "balancer/busiest.h"
#include "tests/balancer/lab.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

plan_answer plan(lab& l, int me, size_t level, puller how = puller::idle, uint32_t nr_failed = 0) {
  return plan_balance(l.world(),
                      {.me = to_cpu(size_t(me)), .level = level, .how = how, .now = nanos{0}, .nr_failed = nr_failed});
}

int designated_of(lab& l, int member, size_t level) {
  for (cpu_id cpu : l.chain(member)[level].group(0).span)
    if (should_we_balance(l.world(), l.tree.chain(cpu)[level], cpu, puller::idle)) return static_cast<int>(cpu);
  return -1;
}
}  // namespace

TEST_CASE("TV-SWB-1: who balances for a group") {
  struct vector {
    std::initializer_list<uint32_t> busy;  // fibers of CPUs 0..3
    int core_aware, v419;
  };
  lab l("pack:2 core:2 pu:2");
  REQUIRE(l.chain(0).size() == 3);
  REQUIRE(l.chain(0)[2].group(0).span == cpu_set{0, 1, 2, 3});
  for (const vector& v : {vector{{1, 0, 1, 1}, 1, 1}, vector{{1, 0, 0, 0}, 2, 1}, vector{{1, 1, 1, 1}, 0, 0},
                          vector{{1, 1, 1, 0}, 3, 3}, vector{{0, 0, 1, 1}, 0, 0}}) {
    l.put_all(v.busy);
    l.set.lb_swb = lb_swb_t::core_aware;
    CHECK(designated_of(l, 0, 2) == v.core_aware);
    l.set.lb_swb = lb_swb_t::v419;
    CHECK(designated_of(l, 0, 2) == v.v419);
  }
  l.set.lb_swb = lb_swb_t::core_aware;
  l.put_all({0, 0, 0, 0});
  CHECK(should_we_balance(l.world(), l.chain(1)[0], to_cpu(1), puller::idle));  // SMT: its group is itself
}

TEST_CASE("INV-LB1: of each group exactly one CPU balances, on every board of a small machine") {
  lab l("pack:2 core:2 pu:2");
  for (lb_swb_t form : {lb_swb_t::v419, lb_swb_t::core_aware}) {
    l.set.lb_swb = form;
    for (uint32_t bits = 0; bits < 256; bits++) {
      for (int cpu = 0; cpu < 8; cpu++) l.put(cpu, bits >> cpu & 1);
      for (int cpu = 0; cpu < 8; cpu++)
        for (size_t level = 0; level < l.chain(cpu).size(); level++) {
          int chosen = 0;
          for (cpu_id member : l.chain(cpu)[level].group(0).span)
            chosen += should_we_balance(l.world(), l.tree.chain(member)[level], member, puller::busy);
          REQUIRE(chosen == 1);
        }
    }
  }
}

TEST_CASE("plan: a CPU about to idle balances for itself, until work arrives") {
  lab l("pack:1 core:2 pu:1");
  CHECK(should_we_balance(l.world(), l.chain(1)[0], to_cpu(1), puller::newly_idle));
  l.state.row(to_cpu(1)).state.store(cpu_state::searching, relaxed);
  CHECK(should_we_balance(l.world(), l.chain(1)[0], to_cpu(1), puller::newly_idle));
  l.state.row(to_cpu(1)).pending.store(1, relaxed);
  CHECK_FALSE(should_we_balance(l.world(), l.chain(1)[0], to_cpu(1), puller::newly_idle));
  l.state.row(to_cpu(1)).pending.store(0, relaxed);
  l.put(1, 1);
  CHECK_FALSE(should_we_balance(l.world(), l.chain(1)[0], to_cpu(1), puller::newly_idle));
}

TEST_CASE("plan: an idle CPU pulls one fiber from the fuller neighbour") {
  lab l("pack:1 core:4 pu:1");
  l.put_all({0, 2, 3, 1});
  const plan_answer a = plan(l, 0, 0);
  CHECK(a.plan.pull());
  CHECK(a.plan.from == to_cpu(2));
  CHECK(a.plan.to == to_cpu(0));
  CHECK(a.plan.kind == pull_kind::task);
  CHECK(a.plan.amount == 1);
  CHECK(a.plan.at_most == 32);
  CHECK(a.plan.reason == balance_reason::pull_sibling);
  CHECK_FALSE(a.plan.hot_may_move);
  CHECK(a.compared);
  CHECK(a.overloaded_cpu);
  CHECK(plan(l, 0, 0, puller::idle, 2).plan.hot_may_move);
}

TEST_CASE("plan: the reasons for no plan") {
  lab l("pack:1 core:4 pu:1");
  CHECK(plan(l, 0, 0).plan.reason == balance_reason::no_busy_group);
  lab two("pack:2 core:2 pu:1");
  two.put_all({1, 1, 3, 3});
  CHECK(plan(two, 1, 1, puller::busy).plan.reason == balance_reason::not_designated);
  CHECK_FALSE(plan(two, 1, 1, puller::busy).compared);
  // Fibers to give, but none of them may leave.
  l.put_all({0, 3, 0, 0});
  l.state.row(to_cpu(1)).movable.store(0, relaxed);
  CHECK(plan(l, 0, 0).plan.reason == balance_reason::only_pinned);
  // Two fibers by the group's sums, but none where they would be asked for: both CPUs run one each.
  lab smt("pack:1 core:2 pu:2");
  smt.set.prefer_sibling = true;
  smt.put_all({0, 0, 1, 1});
  CHECK(plan(smt, 0, 1).plan.pull());
  CHECK(plan(smt, 0, 1).plan.reason == balance_reason::pull_smt);
  smt.put_all({0, 0, 2, 0});
  CHECK(plan(smt, 0, 1).plan.from == to_cpu(2));
}

TEST_CASE("plan: prefer_sibling spreads over caches before any is overloaded") {
  lab l("pack:2 core:4 pu:1");
  l.put_all({0, 0, 0, 1, 1, 1, 1, 0});
  CHECK(plan(l, 0, 1).plan.reason == balance_reason::pull_sibling);
  l.set.prefer_sibling = false;
  CHECK(plan(l, 0, 1).plan.reason == balance_reason::pull_spare);
  l.put_all({0, 0, 1, 1, 1, 1, 1, 0});
  CHECK(plan(l, 0, 1).plan.reason == balance_reason::idle_enough);
}

TEST_CASE("plan: what affinity left behind is taken by the next level") {
  lab l("pack:2 core:2 pu:1");
  l.put_all({1, 0, 2, 0});
  l.shared.set_imbalanced(l.chain(1)[1], 1, true);
  const plan_answer a = plan(l, 1, 1);
  CHECK(a.plan.reason == balance_reason::pull_imbalanced);
  CHECK(a.plan.from == to_cpu(2));
}

TEST_CASE("plan: an overloaded neighbour cache gives utilisation, an overloaded own one evens out load") {
  lab l("pack:2 core:2 pu:1");
  l.put_all({1, 0, 4, 4});
  CHECK(plan(l, 1, 1).plan.reason == balance_reason::pull_util);
  CHECK(plan(l, 1, 1).plan.amount == 1024);
  l.put_all({2, 2, 6, 6});
  const plan_answer a = plan(l, 0, 1, puller::busy);
  CHECK(a.plan.reason == balance_reason::pull_load);
  CHECK(a.plan.amount == 4 * 1024);
}

TEST_CASE("busiest: the CPU by kind of imbalance") {
  lab l("pack:1 core:4 pu:1");
  sched_group all;
  all.span = cpu_set::first(4);
  const auto from = [&](pull_kind kind, uint64_t amount = 1) {
    return busiest_cpu(l.world(), all, {.me = to_cpu(0), .kind = kind, .amount = amount, .now = nanos{0}});
  };
  CHECK_FALSE(valid(from(pull_kind::task).cpu));
  CHECK_FALSE(from(pull_kind::task).pinned);
  l.put_all({9, 1, 2, 3});
  CHECK(from(pull_kind::task).cpu == to_cpu(3));  // not the puller itself
  l.state.row(to_cpu(2)).load_avg.store(9000, relaxed);
  CHECK(from(pull_kind::load).cpu == to_cpu(2));
  l.state.row(to_cpu(2)).util_avg.store(10, relaxed);
  CHECK(from(pull_kind::util).cpu == to_cpu(3));
  CHECK_FALSE(valid(from(pull_kind::misfit).cpu));
  l.state.row(to_cpu(1)).misfit_load.store(5, relaxed);
  CHECK(from(pull_kind::misfit).cpu == to_cpu(1));
  // A lone fiber is worth its load only if that is missing here.
  l.put_all({0, 1, 0, 0});
  CHECK_FALSE(valid(from(pull_kind::load, 1000).cpu));
  CHECK(from(pull_kind::load, 1024).cpu == to_cpu(1));
  CHECK_FALSE(valid(from(pull_kind::util).cpu));
  // Pinned ones are passed over, and said to be.
  l.put_all({0, 1, 2, 4});
  l.state.row(to_cpu(3)).movable.store(0, relaxed);
  CHECK(from(pull_kind::task).cpu == to_cpu(2));
  CHECK(from(pull_kind::task).pinned);
  const cpu_id gone[] = {to_cpu(2)};
  CHECK(busiest_cpu(l.world(), all,
                    {.me = to_cpu(0), .kind = pull_kind::task, .amount = 1, .now = nanos{0}, .excluded = gone})
            .cpu == to_cpu(1));
}
