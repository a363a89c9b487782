#include "affinity/idle_search.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "affinity/idle_scan.h"
#include "tests/affinity/world.h"
#include "tests/seed.h"

using namespace heddle_test;

namespace {

search_answer ask(world& in, const wakeup& w, cpu_id target) { return select_idle_sibling(in.view(), w, target); }
search_answer ask(world& in, cpu_id prev, cpu_id target) { return ask(in, {.prev = prev, .waker = prev}, target); }

std::vector<size_t> order_from(world& in, size_t start, const wakeup& w = {}) {
  std::vector<size_t> seen;
  walk_from(llc_candidates(in.view(), w, 0), start, [&](cpu_id c) {
    seen.push_back(index_of(c));
    return false;
  });
  return seen;
}

}  // namespace

TEST_CASE("TV-SIS-1: the walk wraps, and starts behind the target") {
  world in("pack:1 core:4 pu:1");
  in.set.idle_mask = false;
  CHECK(order_from(in, 2 + 1) == std::vector<size_t>{3, 0, 1, 2});
  CHECK(order_from(in, 3 + 1) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(order_from(in, 0) == std::vector<size_t>{0, 1, 2, 3});
}

TEST_CASE("idle search: the walk meets every candidate once, over any number of words") {
  world in("pack:1 core:200 pu:1");
  rng chance(heddle_test::seed());
  for (int i = 0; i < 300; i++) {
    in.set.idle_mask = chance.below(2) == 0;
    cpu_set allowed;
    for (cpu_id c : in.machine.all()) {
      in.state.mark_idle(c, chance.below(3) == 0);
      if (chance.below(2) == 0) allowed.add(c);
    }
    const wakeup w{.allowed = chance.below(2) == 0 ? &allowed : nullptr};
    const size_t start = chance.below(201);
    std::vector<size_t> expected;
    for (size_t k = 0; k < 200; k++) {
      const cpu_id c = cpu((start + k) % 200);
      if (allowed_on(w.allowed, c) && (!in.set.idle_mask || in.state.marked_idle(c))) expected.push_back(index_of(c));
    }
    REQUIRE(order_from(in, start, w) == expected);
  }
}

TEST_CASE("TV-SIS-2 INV-S4: a budget of k looks at k CPUs") {
  world in("pack:1 core:16 pu:1");
  in.set.sis_limit = sis_limit_t::util;
  in.set.idle_mask = false;
  in.all_busy();
  for (int k = 0; k <= 16; k++) {
    in.state.llc(0).nr_idle_scan.store(k, relaxed);
    CHECK(ask(in, cpu(0), cpu(0)).probes == static_cast<uint32_t>(k));
    // Idle CPUs beyond the budget are not found, the k-th is.
    if (k == 0 || k == 16) continue;
    in.idles(cpu(static_cast<size_t>(k)));
    CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_cpu);
    in.state.llc(0).nr_idle_scan.store(k - 1, relaxed);
    CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
    in.busy(cpu(static_cast<size_t>(k)));
  }
}

TEST_CASE("TV-SIS-3: SIS_PROP, old and new idle time") {
  CHECK(prop_budget(1'000'000 / 512, 200, 16) == 155);
  CHECK(prop_budget(1'000'000 / 512, 2000, 16) == 15);
  CHECK(prop_budget(100'000 / 512, 2000, 16) == 4);
  CHECK(prop_budget(100'000 / 512, 200, 48) == 46);
  CHECK(prop_budget(500'000, 20'000, 16) == 399);
  CHECK(prop_budget(50'000, 20'000, 16) == 39);
  CHECK(prop_budget(2'000, 20'000, 16) == 4);

  world in("pack:1 core:16 pu:1");
  in.all_busy();
  in.set.idle_mask = false;
  in.state.row(cpu(0)).avg_idle.store(100'000, relaxed);
  in.state.llc(0).avg_scan_cost.store(2'000, relaxed);
  in.set.sis_limit = sis_limit_t::prop;
  CHECK(ask(in, cpu(0), cpu(0)).probes == 3);
  in.set.sis_limit = sis_limit_t::prop_wake;
  CHECK(ask(in, {.prev = cpu(0), .waker = cpu(0), .wake_avg_idle_ns = 1'000}, cpu(0)).probes == 6);
}

TEST_CASE("TV-SIS-4: SIS_UTIL, utilisation to budget") {
  struct row {
    int size;
    std::vector<int> budgets;
  };
  const std::vector<int> percent{0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 86};
  for (const row& r : {row{4, {4, 3, 3, 3, 3, 2, 2, 1, 0, 0, 0, 0}},
                       {8, {8, 7, 7, 7, 6, 5, 4, 2, 1, 1, 0, 0}},
                       {16, {16, 15, 15, 14, 12, 10, 8, 5, 3, 2, 0, 0}},
                       {48, {48, 47, 45, 42, 37, 31, 24, 15, 11, 6, 0, 0}},
                       {112, {112, 110, 105, 98, 87, 73, 56, 37, 25, 14, 1, 0}}})
    for (size_t i = 0; i < percent.size(); i++) {
      CAPTURE(r.size);
      CAPTURE(percent[i]);
      CHECK(util_budget(r.size * (1024 * percent[i] / 100), r.size, 117) == r.budgets[i]);
    }
}

TEST_CASE("TV-SIS-5: SIS_AVG_CPU gives up when a search costs more than a 512th of the idle time") {
  CHECK(!avg_cpu_gives_up(1'000'000, 1951));
  CHECK(!avg_cpu_gives_up(1'000'000, 1952));
  CHECK(avg_cpu_gives_up(1'000'000, 1953));
  CHECK(!avg_cpu_gives_up(100'000, 194));
  CHECK(avg_cpu_gives_up(100'000, 195));

  world in("pack:1 core:4 pu:1");
  in.all_busy();
  in.idles(cpu(3));
  in.set.sis_limit = sis_limit_t::avg_cpu;
  in.state.row(cpu(0)).avg_idle.store(100'000, relaxed);
  in.state.llc(0).avg_scan_cost.store(194, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_cpu);
  in.state.llc(0).avg_scan_cost.store(195, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
}

TEST_CASE("idle search: auto means no budget up to 64 CPUs") {
  for (const auto& [spec, limited] : {std::pair{"pack:1 core:64 pu:1", false}, {"pack:1 core:65 pu:1", true}}) {
    world in(spec);
    in.all_busy();
    in.idles(cpu(5));
    in.state.llc(0).nr_idle_scan.store(0, relaxed);
    CHECK((ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss) == limited);
  }
}

TEST_CASE("idle search: target, then prev, then recent, then a core, then a sibling, then any CPU") {
  world in("pack:1 core:4 pu:2");  // cores (0,1) (2,3) (4,5) (6,7)
  REQUIRE(in.machine.share_core(cpu(0), cpu(1)));
  in.all_busy();
  wake_memory memory{.recent = cpu(6)};
  const wakeup w{.prev = cpu(2), .waker = cpu(0), .memory = &memory};
  const auto reason_at = [&](cpu_id expected) {
    wake_memory fresh = memory;
    wakeup again = w;
    again.memory = &fresh;
    in.settle_hints();
    const search_answer a = ask(in, again, cpu(0));
    CHECK(a.cpu == expected);
    return a.reason;
  };
  CHECK(reason_at(cpu(0)) == wake_reason::wake_miss);
  in.idles(cpu(5));
  CHECK(reason_at(cpu(5)) == wake_reason::wake_cpu);
  in.idles(cpu(3));  // the sibling of prev
  CHECK(reason_at(cpu(3)) == wake_reason::wake_smt);
  in.idles(cpu(4));  // core (4,5) idles wholly
  CHECK(reason_at(cpu(4)) == wake_reason::wake_core);
  in.idles(cpu(6));
  CHECK(reason_at(cpu(6)) == wake_reason::wake_recent);
  in.idles(cpu(2));
  CHECK(reason_at(cpu(2)) == wake_reason::wake_prev);
  in.idles(cpu(0));
  CHECK(reason_at(cpu(0)) == wake_reason::wake_target);

  in.set.sis = sis_t::target_only;
  CHECK(reason_at(cpu(0)) == wake_reason::wake_target);
  in.busy(cpu(0));
  CHECK(reason_at(cpu(0)) == wake_reason::wake_miss);
  in.set.sis = sis_t::off;
  CHECK(reason_at(cpu(0)) == wake_reason::wake_direct);
}

TEST_CASE("idle search: the memory of the previous CPU follows every search in 5.13, only a hit in 4.9") {
  for (sis_t form : {sis_t::v513, sis_t::v49}) {
    world in("pack:1 core:4 pu:1");
    in.set.sis = form;
    in.all_busy();
    wake_memory memory{.recent = cpu(3)};
    const wakeup w{.prev = cpu(1), .waker = cpu(0), .memory = &memory};
    ask(in, w, cpu(0));
    CHECK(memory.recent == (form == sis_t::v513 ? cpu(1) : cpu(3)));
    memory.recent = cpu(3);
    in.idles(cpu(3));
    CHECK(ask(in, w, cpu(0)).reason == wake_reason::wake_recent);
    CHECK(memory.recent == cpu(1));
    // Found earlier in the order: not looked at, not moved.
    memory.recent = cpu(2);
    in.idles(cpu(0));
    CHECK(ask(in, w, cpu(0)).reason == wake_reason::wake_target);
    CHECK(memory.recent == cpu(2));
    in.set.sis_recent = false;
    in.busy(cpu(0));
    memory.recent = cpu(3);
    CHECK(ask(in, w, cpu(0)).reason == wake_reason::wake_cpu);
  }
}

TEST_CASE("idle search: 4.9 starts at the target and looks at its siblings last") {
  world in("pack:1 core:2 pu:2");
  in.set.sis = sis_t::v49;
  in.set.idle_mask = false;
  in.all_busy();
  in.set.sis_limit = sis_limit_t::util;
  in.state.llc(0).nr_idle_scan.store(1, relaxed);
  in.idles(cpu(1));
  in.state.llc(0).has_idle_cores.store(0, relaxed);
  // The one CPU looked at is the target itself; its sibling is found nevertheless.
  const search_answer a = ask(in, cpu(0), cpu(0));
  CHECK(a.cpu == cpu(1));
  CHECK(a.reason == wake_reason::wake_smt);
  CHECK(a.probes == 2);
  in.set.sis_smt = false;
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
}

TEST_CASE("idle search: until 4.8 only whole groups are found, from the LLC down") {
  world in("pack:1 core:4 pu:2");
  in.set.sis = sis_t::v310;
  in.all_busy();
  in.idles(cpu(5));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);  // what seed 002's slow path finds
  in.idles(cpu(1));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_smt);
  in.idles(cpu(4));
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(4));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_core);
  // Its first allowed member.
  const cpu_set allowed{0, 5};
  CHECK(ask(in, {.prev = cpu(0), .waker = cpu(0), .allowed = &allowed}, cpu(0)).cpu == cpu(5));

  world flat("pack:1 core:4 pu:1");
  flat.set.sis = sis_t::v310;
  flat.all_busy();
  flat.idles(cpu(3));
  CHECK(ask(flat, cpu(0), cpu(0)).reason == wake_reason::wake_cpu);
}

TEST_CASE("idle search: a failed search for a core takes the hint back") {
  world in("pack:1 core:2 pu:2");
  in.all_busy();
  in.idles(cpu(3));
  llc_row& row = in.state.llc(0);
  row.has_idle_cores.store(1, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_cpu);  // remembered on the way
  CHECK(row.has_idle_cores.load(relaxed) == 0);

  in.set.idle_core_id = true;
  row.idle_core.store(idle_core_unknown, relaxed);
  const cpu_set allowed{0, 1, 3};
  ask(in, {.prev = cpu(0), .waker = cpu(0), .allowed = &allowed}, cpu(0));
  CHECK(row.idle_core.load(relaxed) == idle_core_unknown);  // it may not go everywhere
  ask(in, cpu(0), cpu(0));
  CHECK(row.idle_core.load(relaxed) == idle_core_none);

  in.idles(cpu(2));
  row.idle_core.store(2, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_core);
  CHECK(row.idle_core.load(relaxed) == idle_core_unknown);
  // A core found without the hint's help is not offered to the next waker either.
  row.idle_core.store(2, relaxed);
  in.state.row(cpu(2)).pending.store(1, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(3));
  CHECK(row.idle_core.load(relaxed) != 2);
}

TEST_CASE("idle search: F06, every CPU of an idle core stands for one") {
  world in("pack:1 core:4 pu:2");
  in.all_busy();
  in.idles(cpu(4));
  in.idles(cpu(5));
  in.settle_hints();
  // Two wakers whose walks enter the core at different CPUs.
  const policy_view v = in.view();
  const wakeup w{};
  const candidate_set all = llc_candidates(v, w, 0);
  CHECK(scan_cores(v, w, all, 4).cpu == cpu(4));
  CHECK(scan_cores(v, w, all, 5).cpu == cpu(4));
  in.set.sis_core_representative = false;
  CHECK(scan_cores(v, w, all, 5).cpu == cpu(5));
  in.set.sis_core_representative = true;
  // A representative is one the wakee may use.
  const cpu_set allowed{0, 5};
  CHECK(ask(in, {.prev = cpu(0), .waker = cpu(0), .allowed = &allowed}, cpu(0)).cpu == cpu(5));
}

TEST_CASE("idle search: the cluster first, then the rest of the LLC") {
  world in("pack:1 l3:1 l2:4 core:4 pu:1");
  REQUIRE(in.machine.clusters.size() == 4);
  REQUIRE(in.machine.llcs.size() == 1);
  in.all_busy();
  in.idles(cpu(6));  // next in the walk, but in another cluster
  in.idles(cpu(1));
  CHECK(ask(in, cpu(3), cpu(3)).cpu == cpu(6));
  in.set.sis_cluster = true;
  CHECK(ask(in, cpu(3), cpu(3)).cpu == cpu(1));
  in.busy(cpu(1));
  const search_answer rest = ask(in, cpu(3), cpu(3));
  CHECK(rest.cpu == cpu(6));
  // Nobody is looked at twice.
  in.busy(cpu(6));
  in.set.idle_mask = false;
  CHECK(ask(in, cpu(3), cpu(3)).probes == 16);
  in.set.sis_limit = sis_limit_t::util;
  in.state.llc(0).nr_idle_scan.store(6, relaxed);
  CHECK(ask(in, cpu(3), cpu(3)).probes == 6);
}

TEST_CASE("idle search: unequal CPUs, the first that fits, else the largest") {
  topology m = machine_of("pack:1 core:6 pu:1");
  for (size_t i = 0; i < 6; i++) m.cpus[i].capacity = i < 2 ? 256 : i < 4 ? 512 : 1024;
  world in(std::move(m));
  in.all_busy();
  const wakeup w{.prev = cpu(0), .waker = cpu(0), .load = {1024, 0, 300}};
  in.idles(cpu(0));
  // The chosen CPU is free but too small.
  CHECK(ask(in, w, cpu(0)).cpu == cpu(0));
  CHECK(ask(in, w, cpu(0)).reason == wake_reason::wake_cpu);
  in.idles(cpu(4));
  CHECK(ask(in, w, cpu(0)).cpu == cpu(4));
  in.idles(cpu(2));
  CHECK(ask(in, w, cpu(0)).cpu == cpu(2));
  in.busy(cpu(2));
  in.busy(cpu(4));
  wakeup heavy = w;
  heavy.load.util = 1000;
  in.idles(cpu(3));
  in.idles(cpu(1));
  CHECK(ask(in, heavy, cpu(0)).cpu == cpu(3));
}

TEST_CASE("idle search: beyond the LLC only if told, nearest first") {
  world in("pack:2 [numa] l3:2 core:2 pu:1");  // 2 nodes x 2 LLCs x 2
  REQUIRE(in.machine.llcs.size() == 4);
  REQUIRE(in.machine.nodes.size() == 2);
  in.all_busy();
  in.idles(cpu(2));
  in.idles(cpu(6));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
  in.set.sis_extend = sis_extend_t::node;
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(2));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_extend);
  in.busy(cpu(2));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
  in.set.sis_extend = sis_extend_t::all;
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(6));
  in.idles(cpu(2));
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(2));
  in.set.sis = sis_t::target_only;
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
}

TEST_CASE("idle search: idle-class fibers are in nobody's way but their own kind's") {
  world in("pack:1 core:3 pu:1");
  in.all_busy();
  in.idle_class(cpu(0));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_target);
  const wakeup same_kind{.prev = cpu(0), .waker = cpu(0), .idle_class = true};
  CHECK(ask(in, same_kind, cpu(0)).reason == wake_reason::wake_miss);
  in.idles(cpu(2));
  CHECK(ask(in, same_kind, cpu(0)).cpu == cpu(2));
  in.set.idle_class_free = false;
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(2));
}

TEST_CASE("idle search: a CPU that searches for work itself, or that a fiber is under way to, is not idle") {
  world in("pack:1 core:2 pu:1");
  in.all_busy();
  in.idles(cpu(1));
  in.state.row(cpu(1)).state.store(cpu_state::searching, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
  in.state.row(cpu(1)).state.store(cpu_state::polling, relaxed);
  CHECK(ask(in, cpu(0), cpu(0)).cpu == cpu(1));
  CHECK(in.state.claim(cpu(1)));
  CHECK(ask(in, cpu(0), cpu(0)).reason == wake_reason::wake_miss);
  CHECK(!in.state.claim(cpu(1)));  // INV-S6: the second claim fails
}

TEST_CASE("idle search: the idle mask bounds what is read") {
  world in("pack:1 core:256 pu:1");
  in.all_busy();
  in.set.sis_limit = sis_limit_t::none;
  for (size_t at : {1u, 100u, 255u}) {
    in.idles(cpu(at));
    const search_answer a = ask(in, cpu(0), cpu(0));
    CHECK(a.cpu == cpu(at));
    CHECK(a.probes == 1);
    in.busy(cpu(at));
  }
  CHECK(ask(in, cpu(0), cpu(0)).probes == 0);
  in.set.idle_mask = false;
  CHECK(ask(in, cpu(0), cpu(0)).probes == 256);
}

TEST_CASE(
    "INV-S1 INV-S2 INV-S3 INV-S5: allowed, the free target itself, free where one is free, in the LLC; whole small "
    "machines") {
  for (const char* spec :
       {"pack:2 core:3 pu:1", "pack:1 core:3 pu:2", "pack:2 core:1 pu:3", "pack:1 l3:1 l2:3 core:2 pu:1"}) {
    CAPTURE(spec);
    world in(spec);
    REQUIRE(in.size() == 6);
    for (sis_t form : {sis_t::v310, sis_t::v49, sis_t::v513})
      for (bool mask : {false, true})
        for (int cluster = 0; cluster < 2; cluster++) {
          in.set = settings{};
          in.set.sis = form;
          in.set.idle_mask = mask;
          in.set.sis_cluster = cluster != 0;
          in.set.sis_limit = sis_limit_t::none;
          for (int code = 0; code < 729; code++) {
            for (int i = 0, rest = code; i < 6; i++, rest /= 3) {
              const cpu_id c = cpu(static_cast<size_t>(i));
              rest % 3 == 0 ? in.idles(c) : rest % 3 == 1 ? in.busy(c) : in.idle_class(c);
            }
            for (size_t prev = 0; prev < 6; prev++)
              for (size_t target = 0; target < 6; target++)
                for (const cpu_set& allowed :
                     {in.machine.all(), cpu_set{static_cast<int>(prev), static_cast<int>(target), 1, 5}}) {
                  in.settle_hints();
                  const wakeup w{.prev = cpu(prev), .waker = cpu(target), .allowed = &allowed};
                  const search_answer a = ask(in, w, cpu(target));
                  REQUIRE(allowed.has(a.cpu));
                  REQUIRE(in.machine.share_llc(a.cpu, cpu(target)));
                  if (in.free(cpu(target))) REQUIRE(a.cpu == cpu(target));
                  REQUIRE((a.reason == wake_reason::wake_miss) == !in.free(a.cpu));
                  bool any_free = false;
                  for (cpu_id c : in.machine.llc_of(cpu(target))) any_free = any_free || (allowed.has(c) && in.free(c));
                  if (form != sis_t::v310) REQUIRE(in.free(a.cpu) == any_free);
                  // An idle core is preferred to an idle CPU whenever the search comes that far.
                  if (form == sis_t::v513 && a.reason == wake_reason::wake_cpu)
                    for (cpu_id c : in.machine.llc_of(cpu(target)))
                      if (in.machine.core_of(c).count() > 1 && allowed.has(c)) REQUIRE(!in.core_idles(c));
                }
          }
        }
  }
}
