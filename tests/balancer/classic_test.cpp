#include "balancer/classic.h"

#include <doctest/doctest.h>

#include "balancer/plan.h"
#include "tests/balancer/lab.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

constexpr lb_form_t forms[] = {lb_form_t::v310, lb_form_t::v419};
const sched_group some_group{};

group_stats group(lb_form_t form, uint64_t load, uint64_t capacity, uint64_t nr) {
  group_stats g{.load = load,
                .util = std::min(nr * 1024, capacity),
                .capacity = capacity,
                .nr = nr,
                .idle = nr < capacity / 1024 ? capacity / 1024 - nr : 0,
                .weight = capacity / 1024,
                .cores = capacity / 1024,
                .avg_load = load * 1024 / capacity};
  g.kind = classic_class(form, g, false, 117);
  return g;
}

imbalance between(lb_form_t form, const group_stats& local, const group_stats& busiest, puller how = puller::idle) {
  const group_comparison c{.local = local,
                           .busiest = busiest,
                           .busiest_group = &some_group,
                           .total_load = local.load + busiest.load,
                           .total_capacity = local.capacity + busiest.capacity};
  return classic_imbalance(
      form, c, {.how = how, .imbalance_pct = 117, .above_llc = false, .numa = false, .prefer_sibling = false});
}

// 2 LLCs of 4: a fiber of nice -10 and three idle CPUs; eight plain fibers.
void heavy_beside_idle(lab& l) {
  l.put_all({1, 0, 0, 0, 2, 2, 2, 2});
  board_row& heavy = l.state.row(to_cpu(0));
  heddle_test::weighs(heavy, 9537);
  heavy.load_avg.store(9537, relaxed);
  heavy.runnable_load.store(9537, relaxed);
}

balance_plan at_top(lab& l, int me, puller how) {
  return plan_balance(
             l.world(),
             {.me = to_cpu(static_cast<size_t>(me)), .level = l.chain(me).size() - 1, .how = how, .now = nanos{0}})
      .plan;
}
}  // namespace

TEST_CASE("TV-IMB-3: loads between groups until 5.4, and the rule for less than a fiber") {
  struct vector {
    uint64_t local, local_cap, local_nr, busiest, busiest_cap, busiest_nr, amount;
    balance_reason why;
  };
  constexpr auto load = balance_reason::pull_load, small = balance_reason::pull_small;
  for (lb_form_t form : forms)
    for (const vector& v :
         {vector{0, 1024, 0, 2048, 1024, 2, 1024, load}, vector{1024, 1024, 1, 3072, 1024, 3, 1024, load},
          vector{1024, 1024, 1, 2048, 1024, 2, 1024, small}, vector{2048, 2048, 2, 6144, 2048, 6, 2048, load},
          vector{4096, 2048, 4, 8192, 2048, 8, 2048, load}, vector{1024, 1024, 1, 1536, 1024, 3, 512, small}}) {
      CAPTURE(v.local);
      CAPTURE(v.busiest);
      const imbalance i = between(form, group(form, v.local, v.local_cap, v.local_nr),
                                  group(form, v.busiest, v.busiest_cap, v.busiest_nr));
      CHECK(i.kind == pull_kind::load);
      CHECK(i.amount == v.amount);
      CHECK(i.reason == v.why);
    }
}

TEST_CASE("classic: every way of being balanced has its reason") {
  for (lb_form_t form : forms) {
    CHECK(classic_imbalance(form, {}, {.how = puller::idle, .imbalance_pct = 117}).reason ==
          balance_reason::no_busy_group);
    CHECK(between(form, group(form, 4096, 2048, 4), group(form, 3500, 2048, 4)).reason ==
          balance_reason::local_heavier);
    CHECK(between(form, group(form, 2048, 2048, 4), group(form, 2200, 2048, 4), puller::busy).reason ==
          balance_reason::within_pct);
    CHECK(between(form, group(form, 2048, 2048, 4), group(form, 2200, 2048, 4), puller::newly_idle).reason ==
          balance_reason::within_pct);
    CHECK(between(form, group(form, 0, 2048, 0), group(form, 1024, 2048, 1)).reason == balance_reason::idle_enough);
  }
}

TEST_CASE("F01, lb_form: averages hide idle CPUs beside a heavy fiber from 3.x, not from 4.19 and 5.5") {
  lab l("pack:2 core:4 pu:1");
  heavy_beside_idle(l);
  l.set.prefer_sibling = false;
  l.set.load_metric = load_metric_t::instant;
  l.set.lb_form = lb_form_t::v310;
  CHECK(at_top(l, 1, puller::idle).reason == balance_reason::local_heavier);
  // Had it searched when it became idle, even 3.x would have seen the room.
  CHECK(at_top(l, 1, puller::newly_idle).pull());
  l.set.lb_form = lb_form_t::v419;
  const balance_plan plan = at_top(l, 1, puller::idle);
  CHECK(plan.reason == balance_reason::pull_small);
  CHECK(plan.kind == pull_kind::load);
  CHECK(plan.amount == 1024);
  l.set.lb_form = lb_form_t::v55;
  CHECK(at_top(l, 1, puller::idle).reason == balance_reason::pull_util);
}

TEST_CASE("classic: 3.x takes only from groups with more fibers than CPUs, or uneven within") {
  for (lb_form_t form : forms) {
    const group_stats full = group(form, 8192, 2048, 2), over = group(form, 3072, 2048, 3);
    CHECK(classic_busier(form, full, {}, true) == (form == lb_form_t::v419));
    CHECK(classic_busier(form, over, {}, true));
    // By class before load since then.
    CHECK(classic_busier(form, over, full, false) == (form == lb_form_t::v419));
  }
  CHECK(spread_unevenly({.most_load = 3072, .least_load = 0, .most_nr = 3, .least_nr = 0}, 1024));
  CHECK(!spread_unevenly({.most_load = 3072, .least_load = 2048, .most_nr = 3, .least_nr = 2}, 1024));
  CHECK(!spread_unevenly({.most_load = 900, .least_load = 0, .most_nr = 3, .least_nr = 0}, 1024));
  CHECK(!spread_unevenly({}, 0));
}

TEST_CASE("classic: decayed loads are read with a bias against moving") {
  lab l("pack:2 core:2 pu:1");
  l.put_all({1, 1, 2, 2});
  l.set.load_metric = load_metric_t::runnable_load;
  l.set.lb_form = lb_form_t::v419;
  l.set.prefer_sibling = false;
  // The others' load has just come: their average says little yet.
  for (size_t i : {2, 3}) l.state.row(to_cpu(i)).runnable_load.store(1024, relaxed);
  CHECK(at_top(l, 0, puller::busy).reason == balance_reason::local_heavier);
  for (size_t i : {2, 3}) l.state.row(to_cpu(i)).runnable_load.store(2048, relaxed);
  CHECK(at_top(l, 0, puller::busy).pull());
  // A CPU about to idle looks at what is there now.
  for (size_t i : {2, 3}) l.state.row(to_cpu(i)).runnable_load.store(0, relaxed);
  l.put(0, 0);
  CHECK(at_top(l, 0, puller::newly_idle).pull());
}

TEST_CASE("classic: a level that spreads its fibers calls whoever has two more overloaded") {
  lab l("pack:2 core:4 pu:1");
  l.put_all({0, 1, 1, 0, 2, 2, 0, 0});
  l.set.lb_form = lb_form_t::v419;
  CHECK(at_top(l, 0, puller::idle).pull());
  l.set.prefer_sibling = false;
  CHECK(at_top(l, 0, puller::idle).reason == balance_reason::idle_enough);
}

TEST_CASE("lb_form: 3.x looks at all levels equally often, and every kind may end in a push until 5.4") {
  lab l("pack:2 core:4 pu:2");
  for (const sched_domain& level : l.chain(0)) {
    l.set.lb_form = lb_form_t::v310;
    CHECK(constants_of(level, l.set).min_interval == 1);
    CHECK(constants_of(level, l.set).max_interval == (level.has(df_share_capacity) ? 2 : 4));
    l.set.lb_form = lb_form_t::v55;
    CHECK(constants_of(level, l.set).min_interval == level.shared->weight);
  }
}
