#include "balancer/imbalance.h"

#include <doctest/doctest.h>

namespace {
using namespace heddle::core;

const sched_group some_group{};

group_stats group(uint64_t load, uint64_t capacity, group_class kind = group_class::overloaded) {
  group_stats g{
      .load = load, .capacity = capacity, .nr = 8, .weight = capacity / 1024, .cores = capacity / 1024, .kind = kind};
  if (kind == group_class::overloaded) g.avg_load = load * 1024 / capacity;
  return g;
}

group_comparison compare(const group_stats& local, const group_stats& busiest, uint64_t total_load,
                         uint64_t total_capacity) {
  return {.local = local,
          .busiest = busiest,
          .busiest_group = &some_group,
          .total_load = total_load,
          .total_capacity = total_capacity};
}

constexpr imbalance_query llc_level{
    .how = puller::idle, .imbalance_pct = 117, .above_llc = false, .numa = false, .prefer_sibling = false};

group_stats spare(uint64_t nr, uint64_t idle, uint64_t weight) {
  return {.capacity = weight * 1024,
          .nr = nr,
          .idle = idle,
          .weight = weight,
          .cores = weight,
          .kind = group_class::has_spare};
}
}  // namespace

TEST_CASE("TV-IMB-1: siblings by number of fibers and cores") {
  struct vector {
    uint64_t nr_busiest, nr_local, cores_busiest, cores_local, imbalance, moved;
  };
  for (const vector& v : {vector{4, 0, 2, 2, 4, 2}, vector{3, 1, 2, 2, 2, 1}, vector{2, 1, 2, 2, 1, 0},
                          vector{2, 0, 2, 1, 2, 1}, vector{3, 1, 2, 1, 1, 0}, vector{3, 0, 2, 1, 3, 1},
                          vector{1, 0, 1, 1, 1, 0}, vector{6, 2, 4, 2, 2, 1}, vector{5, 1, 4, 8, 7, 3}}) {
    group_stats busiest = spare(v.nr_busiest, 0, 4), local = spare(v.nr_local, 4, 4);
    busiest.cores = v.cores_busiest;
    local.cores = v.cores_local;
    CHECK(sibling_imbalance(busiest, local, puller::idle) == v.imbalance);
    CHECK(sibling_imbalance(busiest, local, puller::busy) == 0);
    imbalance_query q = llc_level;
    q.prefer_sibling = true;
    local.idle = 4;
    CHECK(imbalance_of(compare(local, busiest, 0, 8192), q).amount == v.moved);
  }
  CHECK(sibling_imbalance(spare(0, 4, 4), spare(0, 4, 4), puller::idle) == 0);
}

TEST_CASE("TV-IMB-2: loads between overloaded groups") {
  struct vector {
    uint64_t local, local_cap, busiest, busiest_cap, total, total_cap, local_avg, busiest_avg, system_avg, amount;
  };
  for (const vector& v : {vector{4096, 4096, 8192, 4096, 12288, 8192, 1024, 2048, 1536, 2048},
                          vector{6000, 4096, 7000, 4096, 13000, 8192, 1500, 1750, 1625, 0},
                          vector{6000, 4096, 7100, 4096, 13100, 8192, 1500, 1775, 1637, 548},
                          vector{2048, 4096, 16384, 4096, 24576, 12288, 512, 4096, 2048, 6144},
                          vector{3000, 2048, 8192, 4096, 11192, 6144, 1500, 2048, 1865, 730}}) {
    const group_stats local = group(v.local, v.local_cap), busiest = group(v.busiest, v.busiest_cap);
    CHECK(local.avg_load == v.local_avg);
    CHECK(busiest.avg_load == v.busiest_avg);
    CHECK(v.total * 1024 / v.total_cap == v.system_avg);
    const imbalance i = imbalance_of(compare(local, busiest, v.total, v.total_cap), llc_level);
    CHECK(i.amount == v.amount);
    CHECK(i.kind == (v.amount > 0 ? pull_kind::load : pull_kind::none));
    CHECK(i.reason == (v.amount > 0 ? balance_reason::pull_load : balance_reason::within_pct));
  }
}

TEST_CASE("TV-DOM-8: what a nearly empty node tolerates") {
  CHECK(numa_adjusted(2, 1, 2) == 0);
  CHECK(numa_adjusted(2, 3, 2) == 2);
  CHECK(numa_adjusted(4, 1, 2) == 4);
  CHECK(numa_adjusted(1, 9, 8) == 1);
  CHECK(numa_adjusted(2, 8, 8) == 0);
}

TEST_CASE("imbalance: every way of being balanced has its reason") {
  imbalance_query busy = llc_level;
  busy.how = puller::busy;
  const auto reason = [](const group_comparison& c, const imbalance_query& q) {
    const imbalance i = imbalance_of(c, q);
    CHECK(i.kind == pull_kind::none);
    CHECK(i.amount == 0);
    return i.reason;
  };
  CHECK(reason({}, llc_level) == balance_reason::no_busy_group);
  CHECK(reason(compare(group(4096, 4096), spare(1, 3, 4), 4096, 8192), llc_level) == balance_reason::lower_class);
  CHECK(reason(compare(group(8192, 4096), group(4096, 4096), 12288, 8192), llc_level) == balance_reason::local_heavier);
  CHECK(reason(compare(group(8192, 4096), group(9000, 4096), 17192, 12288), llc_level) ==
        balance_reason::above_average);
  CHECK(reason(compare(group(6000, 4096), group(7000, 4096), 13000, 8192), llc_level) == balance_reason::within_pct);
  CHECK(reason(compare(spare(3, 1, 4), spare(4, 0, 4), 0, 8192), busy) == balance_reason::puller_busy);
  CHECK(reason(compare(spare(3, 1, 4), spare(4, 0, 4), 0, 8192), llc_level) == balance_reason::idle_enough);
  CHECK(reason(compare(spare(0, 1, 1), spare(1, 0, 1), 0, 2048), llc_level) == balance_reason::single_fiber);
  CHECK(reason(compare(spare(2, 2, 4), spare(1, 0, 4), 0, 8192), llc_level) == balance_reason::single_fiber);
  CHECK(reason(compare(spare(1, 0, 1), spare(2, 0, 1), 0, 2048), llc_level) == balance_reason::no_imbalance);
}

TEST_CASE("imbalance: every way of pulling has its reason") {
  // One fiber for two idle CPUs that the other side has not.
  imbalance i = imbalance_of(compare(spare(0, 4, 4), spare(6, 0, 4), 0, 8192), llc_level);
  CHECK(i.reason == balance_reason::pull_spare);
  CHECK(i.kind == pull_kind::task);
  CHECK(i.amount == 2);

  // Between nodes the same is halved, and a nearly empty node keeps pairs where they are.
  imbalance_query numa = llc_level;
  numa.numa = numa.above_llc = true;
  numa.imb_numa_nr = 2;
  CHECK(imbalance_of(compare(spare(0, 4, 4), spare(2, 2, 4), 0, 8192), numa).reason == balance_reason::no_imbalance);
  CHECK(imbalance_of(compare(spare(0, 4, 4), spare(6, 0, 4), 0, 8192), numa).amount == 2);

  // An overloaded neighbour cache: as much utilisation as fits here, or one fiber where none fits but a CPU idles.
  imbalance_query above = llc_level;
  above.above_llc = true;
  group_stats local = spare(1, 3, 4);
  local.util = 1000;
  i = imbalance_of(compare(local, group(9000, 4096), 9000, 8192), above);
  CHECK(i.reason == balance_reason::pull_util);
  CHECK(i.kind == pull_kind::util);
  CHECK(i.amount == 3096);
  local.util = 5000;
  i = imbalance_of(compare(local, group(9000, 4096), 9000, 8192), above);
  CHECK(i.kind == pull_kind::task);
  CHECK(i.amount == 1);
  above.how = puller::busy;
  CHECK(imbalance_of(compare(local, group(9000, 4096), 9000, 8192), above).kind == pull_kind::none);

  imbalance_query sibling = llc_level;
  sibling.prefer_sibling = true;
  i = imbalance_of(compare(spare(0, 2, 2), spare(2, 0, 2), 0, 4096), sibling);
  CHECK(i.reason == balance_reason::pull_sibling);
  CHECK(i.amount == 1);

  for (group_class kind : {group_class::misfit, group_class::smt_balance, group_class::imbalanced}) {
    group_stats busiest = spare(2, 0, 2);
    busiest.kind = kind;
    busiest.flags = df_share_capacity;
    i = imbalance_of(compare(spare(0, 1, 1), busiest, 0, 3072), llc_level);
    CHECK(i.amount == 1);
    CHECK(i.kind == (kind == group_class::misfit ? pull_kind::misfit : pull_kind::task));
    CHECK(i.reason == (kind == group_class::misfit        ? balance_reason::pull_misfit
                       : kind == group_class::smt_balance ? balance_reason::pull_smt
                                                          : balance_reason::pull_imbalanced));
  }
  // Affinity's leftovers move although the own group has more to do.
  group_stats leftover = spare(2, 0, 2);
  leftover.kind = group_class::imbalanced;
  CHECK(imbalance_of(compare(group(8192, 4096), leftover, 8192, 6144), llc_level).reason ==
        balance_reason::pull_imbalanced);
}

TEST_CASE("imbalance: a fully busy group takes load only up to the average") {
  group_stats local{.load = 4096, .capacity = 4096, .nr = 4, .weight = 4, .cores = 4, .kind = group_class::fully_busy};
  const imbalance i = imbalance_of(compare(local, group(8192, 4096), 12288, 8192), llc_level);
  CHECK(i.kind == pull_kind::load);
  CHECK(i.amount == 2048);
  local.load = 9000;
  CHECK(imbalance_of(compare(local, group(8192, 4096), 17192, 8192), llc_level).reason ==
        balance_reason::local_heavier);
  local.load = 8000;
  CHECK(imbalance_of(compare(local, group(8192, 4096), 16192, 12288), llc_level).reason ==
        balance_reason::above_average);
  // The system may have heavier groups than the busiest one by class.
  local.load = 4096;
  CHECK(imbalance_of(compare(local, group(8192, 4096), 40000, 12288), llc_level).reason ==
        balance_reason::no_imbalance);
}

TEST_CASE("F01: a heavy fiber does not hide the idle CPUs beside it") {
  // One cache: a fiber of weight 9537 and three idle CPUs; the other: eight fibers of weight 1024.
  group_stats local{
      .load = 9537, .util = 1024, .runnable = 1024, .capacity = 4096, .nr = 1, .idle = 3, .weight = 4, .cores = 4};
  group_stats busiest{.load = 8192, .util = 4096, .runnable = 8192, .capacity = 4096, .nr = 8, .weight = 4, .cores = 4};
  REQUIRE(has_capacity(local, 117));
  REQUIRE(overloaded(busiest, 117));
  busiest.kind = group_class::overloaded;
  busiest.avg_load = 2048;
  imbalance_query q = llc_level;
  q.above_llc = true;
  const imbalance i = imbalance_of(compare(local, busiest, 17729, 8192), q);
  CHECK(i.reason == balance_reason::pull_util);
  CHECK(i.amount == 3072);
}
