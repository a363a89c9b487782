#include "balancer/detach.h"

#include <doctest/doctest.h>

#include "runtime/base/rng.h"
#include "tests/seed.h"

namespace {
using namespace heddle::core;

const cpu_set group_of_puller{0, 1};
constexpr nanos now{1'000'000};

settings with_cost(int64_t ns) {
  settings s;
  s.migration_cost_ns = ns;
  return s;
}

balance_plan plan_for(pull_kind kind, uint64_t amount, puller how = puller::idle, uint32_t nr_failed = 0) {
  return {.from = to_cpu(4),
          .to = to_cpu(0),
          .amount = amount,
          .at_most = 32,
          .nr_failed = nr_failed,
          .kind = kind,
          .how = how,
          .level = 0};
}
}  // namespace

TEST_CASE("TV-DET-1: how large a load may be by number of failures") {
  struct vector {
    uint64_t load;
    uint32_t failed;
    uint64_t amount;
    bool yes;
  };
  const settings set = with_cost(0);
  for (const vector& v : {vector{1024, 0, 512, false}, vector{1024, 1, 512, true}, vector{1024, 2, 300, true},
                          vector{800, 0, 700, false}, vector{800, 1, 700, true}})
    for (pull_kind kind : {pull_kind::load, pull_kind::util}) {
      detach_pass pass(set, plan_for(kind, v.amount, puller::idle, v.failed), group_of_puller, 4, now);
      CHECK(pass.consider({.load = v.load, .util = v.load}) ==
            (v.yes ? detach_reason::take : detach_reason::too_large));
    }
  // The old rule knows no failures.
  settings old = set;
  for (lb_form_t form : {lb_form_t::v310, lb_form_t::v419}) {
    old.lb_form = form;
    for (const vector& v : {vector{1024, 0, 512, true}, vector{1024, 1, 512, true}, vector{1024, 2, 300, false},
                            vector{800, 0, 700, true}, vector{800, 1, 700, true}}) {
      detach_pass pass(old, plan_for(pull_kind::load, v.amount, puller::idle, v.failed), group_of_puller, 4, now);
      CHECK(pass.consider({.load = v.load}) == (v.yes ? detach_reason::take : detach_reason::too_large));
    }
  }
}

TEST_CASE("INV-LB2: an idle puller leaves one behind; a busy one need not") {
  const settings set = with_cost(0);
  for (puller how : {puller::idle, puller::newly_idle, puller::busy}) {
    detach_pass pass(set, plan_for(pull_kind::task, 10, how), group_of_puller, 3, now);
    CHECK(pass.consider({}) == detach_reason::take);
    CHECK(pass.consider({}) == detach_reason::take);
    CHECK(pass.consider({}) == (how == puller::busy ? detach_reason::take : detach_reason::last_one));
  }
}

TEST_CASE("INV-LB3: neither running nor disallowed fibers move, whatever the plan") {
  rng random(heddle_test::seed());
  const cpu_set elsewhere{4, 5}, neighbour{1, 4}, here{0, 4};
  for (int i = 0; i < 5000; i++) {
    const settings set = with_cost(static_cast<int64_t>(random.below(3)) - 1);
    const auto kind = static_cast<pull_kind>(1 + random.below(4));
    const auto how = static_cast<puller>(random.below(3));
    balance_plan plan = plan_for(kind, 1 + random.below(5000), how, static_cast<uint32_t>(random.below(70)));
    plan.hot_may_move = random.below(2) != 0;
    const auto nr = static_cast<uint32_t>(1 + random.below(40));
    detach_pass pass(set, plan, group_of_puller, nr, now);
    uint32_t taken = 0;
    for (uint32_t k = 0; k < nr; k++) {
      const cpu_set* allowed = std::array<const cpu_set*, 4>{nullptr, &elsewhere, &neighbour, &here}[random.below(4)];
      const candidate f{.load = random.below(2000),
                        .util = random.below(1024),
                        .last_ran = nanos{static_cast<int64_t>(random.below(1'000'000))},
                        .allowed = allowed,
                        .running = random.below(4) == 0,
                        .idle_class = random.below(4) == 0,
                        .buddy = random.below(4) == 0};
      const detach_reason r = pass.consider(f);
      if (detach_pass::over(r)) break;
      if (r != detach_reason::take) continue;
      taken++;
      REQUIRE_FALSE(f.running);
      REQUIRE((f.allowed == nullptr || f.allowed->has(plan.to)));
    }
    REQUIRE(taken == pass.outcome().moved);
    REQUIRE(taken <= static_cast<uint32_t>(set.nr_migrate));  // INV-LB7
    REQUIRE((how == puller::busy || taken < nr));             // INV-LB2
  }
}

TEST_CASE("INV-LB7: at most nr_migrate candidates per pass, with a pause after every loop_break") {
  settings set = with_cost(0);
  set.nr_migrate = 5;
  set.loop_break = 2;
  detach_pass pass(set, plan_for(pull_kind::task, 100), group_of_puller, 50, now);
  int pauses = 0;
  for (int i = 0; i < 5; i++) {
    CHECK(pass.consider({}) == detach_reason::take);
    pauses += pass.pause_due();
  }
  CHECK(pauses == 2);
  CHECK(pass.consider({}) == detach_reason::looked_enough);
  CHECK(pass.outcome().moved == 5);
}

TEST_CASE("detach: the amount ends the pass, and so does the number of fibers") {
  const settings set = with_cost(0);
  detach_pass by_amount(set, plan_for(pull_kind::load, 1500), group_of_puller, 10, now);
  CHECK(by_amount.consider({.load = 1000}) == detach_reason::take);
  CHECK(by_amount.consider({.load = 1000}) == detach_reason::too_large);
  CHECK(by_amount.consider({.load = 500}) == detach_reason::take);
  CHECK(by_amount.consider({.load = 1}) == detach_reason::enough);
  CHECK(by_amount.outcome().left == 0);

  balance_plan one = plan_for(pull_kind::load, 1500);
  one.at_most = 1;
  detach_pass by_number(set, one, group_of_puller, 10, now);
  CHECK(by_number.consider({.load = 0}) == detach_reason::take);
  CHECK(by_number.consider({.load = 0}) == detach_reason::enough);
  CHECK(by_number.outcome().left == 1499);
}

TEST_CASE("detach: hot fibers stay until enough passes have failed") {
  const settings set = with_cost(5000);
  const candidate hot{.last_ran = now - nanos{4999}}, cold{.last_ran = now - nanos{5000}};
  balance_plan plan = plan_for(pull_kind::task, 10);
  detach_pass pass(set, plan, group_of_puller, 10, now);
  CHECK(pass.consider(hot) == detach_reason::hot);
  CHECK(pass.consider(cold) == detach_reason::take);
  CHECK(pass.consider({.last_ran = now, .idle_class = true}) == detach_reason::take);
  CHECK(pass.outcome().hot == 1);
  plan.hot_may_move = true;
  detach_pass later(set, plan, group_of_puller, 10, now);
  CHECK(later.consider(hot) == detach_reason::take);
}

TEST_CASE("T4: migration_cost -1 calls everything hot, 0 nothing, auto what it costs uncalibrated") {
  const balance_plan plan = plan_for(pull_kind::task, 10);
  const settings always = with_cost(-1), never_hot = with_cost(0), measured = with_cost(automatic);
  const auto verdict = [&](const settings& set, nanos last_ran) {
    detach_pass pass(set, plan, group_of_puller, 10, now);
    return pass.consider({.last_ran = last_ran});
  };
  CHECK(verdict(always, nanos{0}) == detach_reason::hot);
  CHECK(verdict(never_hot, now) == detach_reason::take);
  CHECK(verdict(measured, now) == detach_reason::hot);
  CHECK(verdict(measured, now - nanos{uncalibrated_migration_cost_ns}) == detach_reason::take);
}

TEST_CASE("detach: the fiber in the slot is hot for a busy puller, if cache_hot_buddy says so") {
  settings set = with_cost(0);
  const candidate buddy{.buddy = true};
  const auto verdict = [&](puller how) {
    detach_pass pass(set, plan_for(pull_kind::task, 10, how), group_of_puller, 10, now);
    return pass.consider(buddy);
  };
  CHECK(verdict(puller::busy) == detach_reason::hot);
  CHECK(verdict(puller::idle) == detach_reason::take);
  set.cache_hot_buddy = false;
  CHECK(verdict(puller::busy) == detach_reason::take);
}

TEST_CASE("detach: LB_MIN leaves tiny fibers alone until a pass has failed") {
  settings set = with_cost(0);
  set.lb_min = true;
  detach_pass first(set, plan_for(pull_kind::load, 1000), group_of_puller, 10, now);
  CHECK(first.consider({.load = 15}) == detach_reason::too_small);
  CHECK(first.consider({.load = 16}) == detach_reason::take);
  detach_pass second(set, plan_for(pull_kind::load, 1000, puller::idle, 1), group_of_puller, 10, now);
  CHECK(second.consider({.load = 15}) == detach_reason::take);
  set.lb_min = false;
  detach_pass off(set, plan_for(pull_kind::load, 1000), group_of_puller, 10, now);
  CHECK(off.consider({.load = 15}) == detach_reason::take);
}

TEST_CASE("detach: what may not run here may run on a neighbour") {
  const settings set = with_cost(0);
  const cpu_set neighbour{1, 4}, elsewhere{4};
  detach_pass pass(set, plan_for(pull_kind::task, 10), group_of_puller, 10, now);
  CHECK(pass.consider({.allowed = &elsewhere}) == detach_reason::pinned);
  CHECK_FALSE(valid(pass.outcome().alternative));
  CHECK(pass.outcome().all_pinned());
  CHECK(pass.consider({.allowed = &neighbour}) == detach_reason::pinned);
  CHECK(pass.outcome().alternative == to_cpu(1));
  CHECK(pass.consider({.running = true}) == detach_reason::running);
  CHECK_FALSE(pass.outcome().all_pinned());
  CHECK(pass.outcome().pinned == 2);
  // A CPU about to idle looks for itself only.
  detach_pass searching(set, plan_for(pull_kind::task, 10, puller::newly_idle), group_of_puller, 10, now);
  CHECK(searching.consider({.allowed = &neighbour}) == detach_reason::pinned);
  CHECK_FALSE(valid(searching.outcome().alternative));
}

TEST_CASE("detach: a misfit plan takes one fiber") {
  const settings set = with_cost(0);
  detach_pass pass(set, plan_for(pull_kind::misfit, 1), group_of_puller, 10, now);
  CHECK(pass.consider({.load = 100'000}) == detach_reason::take);
  CHECK(pass.consider({}) == detach_reason::enough);
  CHECK(to_string(detach_reason::too_large) == "too_large");
}
