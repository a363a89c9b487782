#include "balancer/nohz.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/balancer/lab.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

nohz_kick choose(lab& l, int me, int64_t now = 0) { return nohz_choose(l.world(), to_cpu(size_t(me)), nanos{now}); }
}  // namespace

TEST_CASE("nohz: when a parked CPU is woken to balance, and when not") {
  lab l("pack:2 core:4 pu:1");
  for (int cpu = 0; cpu < 8; cpu++) l.put(cpu, 2);
  CHECK(choose(l, 0).reason == nohz_reason::nobody_idle);
  l.put(7, 0);
  CHECK(choose(l, 0).reason == nohz_reason::overloaded);
  CHECK(choose(l, 0).who == to_cpu(7));
  l.put(0, 1);
  l.state.llc_of(to_cpu(0)).nr_busy.store(1, relaxed);
  CHECK(choose(l, 0).reason == nohz_reason::no_need);
  l.state.llc_of(to_cpu(0)).nr_busy.store(2, relaxed);
  CHECK(choose(l, 0).reason == nohz_reason::llc_busy);
  l.state.row(to_cpu(0)).misfit_load.store(1, relaxed);
  CHECK(choose(l, 0).reason == nohz_reason::misfit);
  l.shared.nohz_next_ns.store(100, relaxed);
  CHECK(choose(l, 0, 99).reason == nohz_reason::not_due);
  CHECK(choose(l, 0, 100).reason == nohz_reason::misfit);
  l.set.ilb = false;
  CHECK(choose(l, 0, 100).reason == nohz_reason::switched_off);
  CHECK(to_string(nohz_reason::llc_busy) == "llc_busy");
}

TEST_CASE("nohz: with blocked_decay = ilb, aging comes before balancing") {
  lab l("pack:1 core:2 pu:1");
  l.put(0, 1);
  l.shared.has_blocked.store(true, relaxed);
  l.shared.nohz_next_ns.store(1'000, relaxed);
  l.shared.nohz_age_ns.store(500, relaxed);
  CHECK(choose(l, 0, 600).reason == nohz_reason::not_due);
  l.set.blocked_decay = blocked_decay_t::ilb;
  CHECK(choose(l, 0, 600).reason == nohz_reason::age_blocked);
  CHECK(choose(l, 0, 600).who == to_cpu(1));
  CHECK(choose(l, 0, 499).reason == nohz_reason::not_due);
  l.shared.has_blocked.store(false, relaxed);
  CHECK(choose(l, 0, 600).reason == nohz_reason::not_due);
}

TEST_CASE("nohz: the nearest parked CPU, or the first one") {
  lab l("pack:2 core:4 pu:1");
  for (int cpu = 0; cpu < 8; cpu++) l.put(cpu, 2);
  l.put(1, 0);
  l.put(6, 0);
  CHECK(choose(l, 4).who == to_cpu(6));
  CHECK(choose(l, 0).who == to_cpu(1));
  l.set.ilb_pick = ilb_pick_t::lowest;
  CHECK(choose(l, 4).who == to_cpu(1));
}

TEST_CASE("nohz: the walk visits idle CPUs after itself, itself last") {
  lab l("pack:2 core:4 pu:1");
  l.put_all({0, 1, 0, 0, 1, 0, 1, 0});
  nohz_walk walk(to_cpu(3));
  std::vector<int> visited;
  for (cpu_id cpu = walk.next(l.world()); valid(cpu); cpu = walk.next(l.world()))
    visited.push_back(static_cast<int>(cpu));
  CHECK(visited == std::vector<int>{5, 7, 0, 2, 3});
}
