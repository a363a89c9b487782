#include "balancer/classify.h"

#include <doctest/doctest.h>

#include "tests/balancer/lab.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

group_class class_of(const group_stats& g) {
  if (overloaded(g, 117)) return group_class::overloaded;
  return has_capacity(g, 117) ? group_class::has_spare : group_class::fully_busy;
}
}  // namespace

TEST_CASE("TV-GC-1: classes by fibers, capacity and averages") {
  struct vector {
    uint64_t nr, weight, capacity, util, runnable;
    group_class expected;
  };
  using enum group_class;
  for (const vector& v : {vector{3, 4, 4096, 3500, 3500, has_spare}, vector{4, 4, 4096, 3500, 3500, has_spare},
                          vector{4, 4, 4096, 3501, 3501, fully_busy}, vector{4, 4, 4096, 3400, 4800, fully_busy},
                          vector{5, 4, 4096, 3501, 5000, overloaded}, vector{5, 4, 4096, 3000, 4000, has_spare},
                          vector{5, 4, 4096, 3000, 4792, has_spare}, vector{5, 4, 4096, 3000, 4793, overloaded},
                          vector{0, 4, 4096, 0, 0, has_spare}})
    CHECK(class_of({.util = v.util, .runnable = v.runnable, .capacity = v.capacity, .nr = v.nr, .weight = v.weight}) ==
          v.expected);
}

TEST_CASE("classify: the higher class is busier, and ties go by what the class is about") {
  using enum group_class;
  const group_stats spare{.nr = 2, .idle = 2, .kind = has_spare}, full{.nr = 4, .kind = fully_busy};
  CHECK(busier(full, spare));
  CHECK_FALSE(busier(spare, full));
  CHECK(busier({.avg_load = 2, .kind = overloaded}, {.avg_load = 1, .kind = overloaded}));
  CHECK_FALSE(busier({.avg_load = 1, .kind = overloaded}, {.avg_load = 1, .kind = overloaded}));
  CHECK_FALSE(busier({.nr = 9, .kind = imbalanced}, {.nr = 1, .kind = imbalanced}));
  CHECK(busier({.misfit = 9, .kind = misfit}, {.misfit = 1, .kind = misfit}));
  CHECK(busier({.nr = 2, .idle = 1, .kind = has_spare}, spare));
  CHECK(busier({.nr = 3, .idle = 2, .kind = has_spare}, spare));
  CHECK_FALSE(busier(spare, spare));
  // One fiber on a core of two threads has the core for itself.
  CHECK_FALSE(busier({.nr = 1, .idle = 1, .flags = df_share_capacity, .kind = has_spare}, spare));
  CHECK(busier({.nr = 2, .idle = 1, .flags = df_share_capacity, .kind = has_spare}, spare));
  CHECK(busier({.nr = 2, .flags = df_share_capacity, .kind = fully_busy}, full));
  CHECK_FALSE(busier(full, {.nr = 2, .flags = df_share_capacity, .kind = fully_busy}));
  // Fibers that share a core: like spare groups where a CPU idles, like full ones where none does.
  CHECK(busier({.nr = 2, .idle = 0, .kind = smt_balance}, {.nr = 2, .idle = 1, .kind = smt_balance}));
  CHECK_FALSE(busier({.nr = 3, .kind = smt_balance}, {.nr = 2, .kind = smt_balance}));
}

TEST_CASE("classify: groups are sums over their CPUs; a CPU that still searches is no idle one") {
  lab l("pack:2 core:4 pu:1");
  l.put_all({0, 1, 1, 0, 3, 2, 1, 0});
  const sched_domain& top = l.chain(0).back();
  const comparison_query q{.me = to_cpu(0), .how = puller::idle, .imbalance_pct = 117, .now = nanos{0}};
  group_comparison c = compare_groups(l.world(), top, q);
  CHECK(c.local.nr == 2);
  CHECK(c.local.idle == 2);
  CHECK(c.local.weight == 4);
  CHECK(c.busiest.nr == 6);
  CHECK(c.busiest.load == 6 * 1024);
  CHECK(c.busiest.util == 3 * 1024);
  CHECK(c.busiest.kind == group_class::overloaded);
  CHECK(c.busiest.avg_load == 6 * 1024 / 4);
  CHECK(c.total_load == 8 * 1024);
  CHECK(c.total_capacity == 8 * 1024);
  CHECK(c.overloaded_cpu);
  comparison_query searching = q;
  searching.how = puller::newly_idle;
  CHECK(compare_groups(l.world(), top, searching).local.idle == 1);
  const cpu_id gone[] = {to_cpu(4)};
  comparison_query without = q;
  without.excluded = gone;
  CHECK(compare_groups(l.world(), top, without).busiest.nr == 3);
  l.put_all({0, 1, 1, 0, 0, 0, 0, 0});
  CHECK(compare_groups(l.world(), top, q).busiest_group == nullptr);
  CHECK(to_string(group_class::overloaded) == "overloaded");
}

TEST_CASE("classify: load_metric chooses the signal, blocked_decay who ages it") {
  lab l("pack:1 core:2 pu:1");
  board_row& row = l.state.row(to_cpu(0));
  heddle_test::weighs(row, 1);
  row.runnable_load.store(500, relaxed);
  row.load_avg.store(1000, relaxed);
  row.util_avg.store(400, relaxed);
  row.runnable_avg.store(600, relaxed);
  const auto read = [&](nanos now) { return signals_of(l.machine, l.state, l.set, to_cpu(0), now); };
  l.set.load_metric = load_metric_t::instant;
  CHECK(read(nanos{0}).load == 1);
  l.set.load_metric = load_metric_t::runnable_load;
  CHECK(read(nanos{0}).load == 500);
  l.set.load_metric = load_metric_t::load_avg;
  CHECK(read(nanos{0}).load == 1000);

  const nanos half_life{1024 * 32 << l.set.pelt_shift};
  CHECK(read(half_life).load == 499);
  CHECK(read(half_life).util == 199);
  CHECK(read(half_life).runnable == 299);
  row.nr.store(1, relaxed);  // its owner is there to age it
  CHECK(read(half_life).load == 1000);
  row.nr.store(0, relaxed);
  l.set.blocked_decay = blocked_decay_t::ilb;
  CHECK(read(half_life).load == 1000);
}

TEST_CASE("classify: two fibers on a core count while an idle CPU looks for work elsewhere") {
  lab l("pack:1 core:2 pu:2");
  l.put_all({0, 0, 1, 1});
  const sched_domain& llc = l.chain(0).back();
  comparison_query q{.me = to_cpu(0), .how = puller::idle, .imbalance_pct = 117, .now = nanos{0}};
  CHECK(compare_groups(l.world(), llc, q).busiest.kind == group_class::smt_balance);
  q.how = puller::busy;
  CHECK(compare_groups(l.world(), llc, q).busiest.kind == group_class::fully_busy);
  q.how = puller::idle;
  l.put_all({0, 1, 1, 1});
  CHECK(compare_groups(l.world(), llc, q).local.kind == group_class::has_spare);
}

TEST_CASE("classify: misfits count only where the puller is faster and has room") {
  lab l("pack:1 core:2 pu:1");
  l.machine.cpus[1].capacity = 512;
  board slow_and_fast(l.machine);
  const balance_world w{l.machine, l.tree, slow_and_fast, l.set, l.shared};
  slow_and_fast.row(to_cpu(1)).nr.store(1, relaxed);
  slow_and_fast.row(to_cpu(1)).misfit_load.store(700, relaxed);
  const auto of = [&](int me) {
    return compare_groups(w, l.chain(me)[0],
                          {.me = to_cpu(size_t(me)), .how = puller::idle, .imbalance_pct = 117, .now = nanos{0}});
  };
  CHECK(of(0).busiest.kind == group_class::misfit);
  CHECK(of(0).busiest.misfit == 700);
  slow_and_fast.row(to_cpu(0)).nr.store(2, relaxed);
  slow_and_fast.row(to_cpu(0)).util_avg.store(1024, relaxed);
  slow_and_fast.row(to_cpu(0)).runnable_avg.store(2048, relaxed);
  CHECK(of(0).busiest_group == nullptr);
  CHECK(of(1).busiest.misfit == 0);
}

TEST_CASE("shared: a group's flag is the same seen from every CPU, and the token has one holder") {
  lab l("pack:2 core:2 pu:1");
  const sched_domain &from_0 = l.chain(0).back(), &from_3 = l.chain(3).back();
  l.shared.set_imbalanced(from_0, 0, true);
  CHECK(l.shared.imbalanced(from_0, 0));
  CHECK_FALSE(l.shared.imbalanced(from_0, 1));
  CHECK(l.shared.imbalanced(from_3, 1));
  CHECK_FALSE(l.shared.imbalanced(from_3, 0));
  CHECK(l.shared.take_token(to_cpu(1)));
  CHECK_FALSE(l.shared.take_token(to_cpu(2)));
  l.shared.return_token(to_cpu(1));
  CHECK(l.shared.take_token(to_cpu(2)));
}
