#include "affinity/domains.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "affinity/discover.h"
#include "affinity/machines.h"
#include "runtime/base/rng.h"
#include "tests/affinity/domain_checks.h"
#include "tests/seed.h"

using namespace heddle::core;
using heddle_test::check_domain_invariants;

namespace {

topology load(const char* spec) {
  loaded_machine loaded = load_machine(spec);
  REQUIRE_MESSAGE(loaded.machine, loaded.error);
  return std::move(*loaded.machine);
}

// One CPU per node, so that distances alone shape the tree.
topology nodes_at(std::vector<std::vector<int>> distances) {
  machine_facts facts;
  for (int i = 0; i < static_cast<int>(distances.size()); i++)
    facts.cpus.push_back({.os_id = i, .core = i, .cluster = i, .llc = i, .node = i, .package = i});
  facts.distances = std::move(distances);
  return assemble(std::move(facts), "nodes");
}

topology ring(int count) {
  std::vector<std::vector<int>> distances;
  for (int i = 0; i < count; i++) {
    std::vector<int>& row = distances.emplace_back();
    for (int j = 0; j < count; j++) {
      const int hops = std::min((i - j + count) % count, (j - i + count) % count);
      row.push_back(10 + 10 * hops);
    }
  }
  return nodes_at(std::move(distances));
}

// "smt 0,20 | llc 0-9,20-29 | machine 0-39"
std::string chain_text(const topology& machine, const domain_tree& tree, int os_id) {
  std::string text;
  for (const sched_domain& d : tree.chain(machine.find_os(os_id))) {
    if (!text.empty()) text += " | ";
    text += std::string(to_string(d.level())) + " " + machine.list(d.span());
  }
  return text;
}

std::string chain_text(const char* spec, int os_id) {
  const topology machine = load(spec);
  const domain_tree tree(machine);
  check_domain_invariants(machine, tree);
  return chain_text(machine, tree, os_id);
}

bool same_tree(const topology& m, const domain_tree& a, const domain_tree& b) {
  for (cpu_id c : m.all()) {
    const auto x = a.chain(c);
    const auto y = b.chain(c);
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); i++) {
      if (x[i].level() != y[i].level() || x[i].flags() != y[i].flags() || x[i].span() != y[i].span()) return false;
      if (x[i].shared->imb_numa_nr != y[i].shared->imb_numa_nr || x[i].group_count() != y[i].group_count())
        return false;
      for (size_t g = 0; g < x[i].group_count(); g++)
        if (x[i].group(g).span != y[i].group(g).span || x[i].group(g).balance_mask != y[i].group(g).balance_mask)
          return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("TV-DOM-2: one socket, four cores, SMT2: SMT and LLC, no package") {
  CHECK(chain_text("1x4x2", 0) == "smt 0,4 | llc 0-7");
}

TEST_CASE("TV-DOM-3: the same with one worker per core: LLC only") {
  const topology all = load("1x4x2");
  const topology one_each = restricted(all, {0, 1, 2, 3});
  const domain_tree tree(one_each);
  check_domain_invariants(one_each, tree);
  CHECK(chain_text(one_each, tree, 2) == "llc 0-3");
  // The SMT level was degenerate: the next level's groups record no flags.
  for (const sched_group& g : tree.chain(to_cpu(0))[0].shared->groups) CHECK(g.flags == 0);
}

TEST_CASE("TV-DOM-4: the 40-CPU machine of the 2012 and 2015 mails") {
  CHECK(chain_text("2n40", 0) == "smt 0,20 | llc 0-9,20-29 | machine 0-39");
  CHECK(chain_text("2n40", 39) == "smt 19,39 | llc 10-19,30-39 | machine 0-39");
  CHECK(chain_text("pack:2 core:10 pu:2", 0) == "smt 0-1 | llc 0-19 | machine 0-39");
}

TEST_CASE("TV-DOM-5: four nodes of 48 CPUs, one LLC each") {
  CHECK(chain_text("4n192", 0) == "smt 0,96 | llc 0-23,96-119 | machine 0-191");
  const topology machine = load("4n192");
  CHECK(machine.llc_of(to_cpu(0)).count() == 48);
}

TEST_CASE("TV-DOM-6: a core may be wider than its last cache") {
  const topology machine = [] {
    machine_facts facts;
    for (int i = 0; i < 8; i++) facts.cpus.push_back({.os_id = i, .llc = i / 4});
    facts.llc_caches = {{2, 1 << 20}, {2, 1 << 20}};
    return assemble(std::move(facts), "smt8");
  }();
  const domain_tree tree(machine);
  check_domain_invariants(machine, tree);
  CHECK(chain_text(machine, tree, 5) == "llc 4-7 | machine 0-7");
  CHECK(tree.chain(to_cpu(0))[0].has(df_share_capacity));
  CHECK(tree.chain(to_cpu(0))[0].has(df_share_llc));
  CHECK(tree.chain(to_cpu(0))[1].has(df_share_capacity));
  CHECK_FALSE(tree.chain(to_cpu(0))[1].has(df_share_llc));
}

TEST_CASE("TV-DOM-7: the NUMA allowance") {
  const auto allowance_at_top = [](const char* spec) {
    const topology machine = load(spec);
    const domain_tree tree(machine);
    return tree.chain(to_cpu(0)).back().shared->imb_numa_nr;
  };
  CHECK(allowance_at_top("pack:2 [numa] l3:1 core:16 pu:1") == 2);
  CHECK(allowance_at_top("pack:2 [numa] l3:1 core:40 pu:1") == 5);
  CHECK(allowance_at_top("pack:2 [numa] l3:8 core:8 pu:1") == 8);

  // Node 48 in 192 over a first NUMA level of 96.
  machine_facts facts;
  for (int i = 0; i < 192; i++)
    facts.cpus.push_back({.os_id = i, .core = i, .cluster = i, .llc = i / 48, .node = i / 48, .package = i / 96});
  facts.distances = {{10, 12, 20, 20}, {12, 10, 20, 20}, {20, 20, 10, 12}, {20, 20, 12, 10}};
  const topology machine = assemble(std::move(facts), "two levels");
  const domain_tree tree(machine);
  const auto chain = tree.chain(to_cpu(0));
  CHECK(chain_text(machine, tree, 0) == "llc 0-47 | package 0-95 | machine 0-191");
  CHECK(chain[1].shared->imb_numa_nr == 6);
  CHECK(chain[2].shared->imb_numa_nr == 12);
}

TEST_CASE("INV-D1 INV-D2 INV-D3 INV-D5: every built-in machine") {
  for (const named_machine& m : named_machines()) {
    const topology machine = load(std::string(m.name).c_str());
    check_domain_invariants(machine, domain_tree(machine));
  }
}

TEST_CASE("INV-D3: two CPUs meet in exactly one lowest common domain") {
  for (const char* spec : {"2n40", "ccx", "hybrid", "2x4"}) {
    const topology machine = load(spec);
    const domain_tree tree(machine);
    bool agree = true;
    for (cpu_id a : machine.all())
      for (cpu_id b : machine.all()) {
        const auto lowest = [&](cpu_id from, cpu_id other) -> const sched_span* {
          for (const sched_domain& d : tree.chain(from))
            if (d.span().has(other)) return d.shared;
          return nullptr;
        };
        if (a != b && (lowest(a, b) == nullptr || lowest(a, b)->span != lowest(b, a)->span)) agree = false;
      }
    CHECK_MESSAGE(agree, spec);
  }
}

TEST_CASE("INV-D4: a machine that lost CPUs and got them back has the tree of a fresh build") {
  rng random(heddle_test::seed());
  for (const char* spec : {"2n40", "ccx", "hybrid", "pack:2 [numa] group:2 [numa] l3:2 core:4 pu:2"}) {
    const topology machine = load(spec);
    const domain_tree fresh(machine);
    for (int round = 0; round < 20; round++) {
      cpu_set keep;
      for (cpu_id c : machine.all())
        if (random.below(4) != 0) keep.add(c);
      if (keep.empty()) continue;
      const topology less = restricted(machine, keep);
      check_domain_invariants(less, domain_tree(less));
      // Removing in two steps is removing at once.
      cpu_set half;
      for (cpu_id c : less.all())
        if (random.below(2) != 0) half.add(c);
      if (half.empty()) continue;
      cpu_set half_of_all;
      for (cpu_id c : half) half_of_all.add(machine.find_os(less.os_id(c)));
      const topology twice = restricted(less, half);
      const topology once = restricted(machine, half_of_all);
      CHECK(twice.hash() == once.hash());
      CHECK(same_tree(once, domain_tree(twice), domain_tree(once)));
    }
    const topology again = restricted(machine, machine.all());
    CHECK(again.hash() == machine.hash());
    CHECK(same_tree(machine, domain_tree(again), fresh));
  }
}

TEST_CASE("domains: flags by level") {
  const topology machine = load("2n40");
  const domain_tree tree(machine);
  const auto chain = tree.chain(to_cpu(7));
  constexpr uint32_t below_numa = df_wake_affine | df_balance_newidle | df_balance_fork | df_prefer_sibling;
  CHECK(chain[0].flags() == (below_numa | df_share_llc | df_share_capacity));
  CHECK(chain[1].flags() == (below_numa | df_share_llc));
  CHECK(chain[2].flags() == (df_wake_affine | df_balance_newidle | df_balance_fork | df_numa | df_serialize));
  CHECK(chain[1].group(0).flags == chain[0].flags());
  CHECK(chain[2].group(0).flags == chain[1].flags());
  CHECK(chain[2].group(0).cores == 10);

  const domain_tree strict(machine, {.reclaim_distance = 15});
  CHECK_FALSE(strict.chain(to_cpu(7))[2].has(df_wake_affine));
  CHECK_FALSE(strict.chain(to_cpu(7))[2].has(df_balance_fork));
  CHECK(strict.chain(to_cpu(7))[2].has(df_balance_newidle));
}

TEST_CASE("domains: levels can be left out") {
  const topology machine = load("2n40");
  const auto text = [&](domain_options options) { return chain_text(machine, domain_tree(machine, options), 0); };
  CHECK(text({.smt = false}) == "llc 0-9,20-29 | machine 0-39");
  CHECK(text({.llc = false}) == "smt 0,20 | node 0-9,20-29 | machine 0-39");
  CHECK(text({.numa = false}) == "smt 0,20 | llc 0-9,20-29 | machine 0-39");
  const domain_tree flat(machine, {.numa = false});
  CHECK_FALSE(flat.chain(to_cpu(0)).back().has(df_numa));
  CHECK(flat.chain(to_cpu(0)).back().has(df_prefer_sibling));
  CHECK(chain_text("hybrid", 12) == "cluster 12-15 | llc 0-19");
  CHECK(chain_text(load("hybrid"), domain_tree(load("hybrid"), {.cluster = false}), 12) == "llc 0-19");
}

TEST_CASE("domains: the last cache is the LLC, whatever its level") {
  CHECK(chain_text("2x4", 5) == "llc 4-7 | machine 0-7");
  CHECK(chain_text("pack:1 l2:3 core:4 pu:1", 0) == "llc 0-3 | machine 0-11");
  CHECK(chain_text("pack:1 l3:1 l2:3 core:4 pu:1", 0) == "cluster 0-3 | llc 0-11");
  CHECK(chain_text("pack:2 core:2 pu:1", 0) == "llc 0-1 | machine 0-3");  // no cache: package and node
  CHECK(chain_text("pu:16", 0) == "llc 0-15");
}

TEST_CASE("domains: one CPU has none") {
  const topology machine = load("pu:1");
  const domain_tree tree(machine);
  CHECK(tree.chain(to_cpu(0)).empty());
  CHECK(tree.span_count() == 0);
}

TEST_CASE("domains: NUMA levels of a ring overlap, each node sees its own") {
  const topology machine = ring(8);
  const domain_tree tree(machine);
  check_domain_invariants(machine, tree);
  CHECK(chain_text(machine, tree, 0) == "numa 0-1,7 | numa 0-2,6-7 | numa 0-3,5-7 | machine 0-7");
  CHECK(chain_text(machine, tree, 3) == "numa 2-4 | numa 1-5 | numa 0-6 | machine 0-7");
  for (cpu_id c : machine.all()) {
    const sched_domain& second = tree.chain(c)[1];
    CHECK(second.group(0).balance_mask == cpu_set{static_cast<int>(c)});
    for (size_t g = 0; g < second.group_count(); g++) CHECK(second.span().contains(second.group(g).span));
  }
}

TEST_CASE("F02: groups are built from their owner's viewpoint: nodes two hops apart are never in one local group") {
  // 0 is linked to 1, 2, 4 and 6; 1 and 2 are two hops apart.
  const int links[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 6}, {1, 3}, {1, 5}, {1, 7}, {2, 3},
                          {2, 4}, {2, 6}, {3, 5}, {3, 7}, {4, 5}, {4, 6}, {5, 7}, {6, 7}};
  std::vector<std::vector<int>> distances(8, std::vector<int>(8, 30));
  for (size_t i = 0; i < 8; i++) distances[i][i] = 10;
  for (const auto& [a, b] : links)
    distances[static_cast<size_t>(a)][static_cast<size_t>(b)] =
        distances[static_cast<size_t>(b)][static_cast<size_t>(a)] = 20;
  const topology machine = nodes_at(distances);
  const domain_tree tree(machine);
  check_domain_invariants(machine, tree);
  for (cpu_id c : machine.all()) {
    const sched_domain& top = tree.chain(c).back();
    for (cpu_id other : top.group(0).span) CHECK(machine.distance(c, other) <= 20);
  }
  const sched_domain& one = tree.chain(to_cpu(1)).back();
  CHECK_FALSE(one.group(0).span.has(to_cpu(2)));
  bool elsewhere = false;
  for (size_t g = 1; g < one.group_count(); g++) elsewhere = elsewhere || one.group(g).span.has(to_cpu(2));
  CHECK(elsewhere);

  // The pool restricted to nodes 1 and 2: they are each other's only group.
  const topology pair = restricted(machine, {1, 2});
  const domain_tree small(pair);
  check_domain_invariants(pair, small);
  CHECK(small.chain(to_cpu(0)).back().group_count() == 2);
}

TEST_CASE("domains: random distances keep the invariants") {
  rng random(heddle_test::seed());
  for (int round = 0; round < 200; round++) {
    const size_t count = 2 + random.below(7);
    std::vector<std::vector<int>> distances(count, std::vector<int>(count, 10));
    for (size_t i = 0; i < count; i++)
      for (size_t j = 0; j < i; j++) {
        distances[i][j] = static_cast<int>(11 + random.below(4) * 5);
        distances[j][i] = random.below(8) == 0 ? 40 : distances[i][j];  // firmware is not always symmetric
      }
    const topology machine = nodes_at(std::move(distances));
    check_domain_invariants(machine, domain_tree(machine));
  }
}

TEST_CASE("domains: random partitions that do not nest keep the invariants") {
  rng random(heddle_test::seed() + 1);
  for (int round = 0; round < 300; round++) {
    machine_facts facts;
    const int count = 1 + static_cast<int>(random.below(16));
    const auto any = [&](int of) { return static_cast<int>(random.below(static_cast<uint64_t>(of))); };
    for (int i = 0; i < count; i++)
      facts.cpus.push_back(
          {.os_id = 3 * i, .core = any(8), .cluster = any(6), .llc = any(4), .node = any(4), .package = any(3)});
    const topology machine = assemble(std::move(facts), "round " + std::to_string(round));
    for (const bool numa : {true, false}) check_domain_invariants(machine, domain_tree(machine, {.numa = numa}));
  }
}

TEST_CASE("domains: 4096 CPUs share their spans") {
  const topology machine = load("n4096");
  const domain_tree tree(machine);
  CHECK(chain_text(machine, tree, 0) ==
        "smt 0,2048 | llc 0-15,2048-2063 | node 0-31,2048-2079 | package 0-127,2048-2175 | machine 0-4095");
  // 2048 cores, 128 LLCs, 64 nodes, 16 packages, 1 machine.
  CHECK(tree.span_count() == 2048 + 128 + 64 + 16 + 1);
}

TEST_CASE("domains: topo_levels says which levels there are") {
  const topology machine = *load_synthetic("pack:2 [numa] l3:1 core:4 pu:2").machine;
  const auto levels = [&](topo_levels_t which) {
    settings set;
    set.topo_levels = which;
    std::string text;
    const domain_tree tree(machine, domain_options_of(set));
    for (const sched_domain& d : tree.chain(to_cpu(0)))
      text += std::string(to_string(d.level())) + (d.has(df_numa) ? "(numa) " : " ");
    return text;
  };
  CHECK(levels(topo_levels_t::all) == levels(topo_levels_t::no_cluster));
  CHECK(levels(topo_levels_t::all).starts_with("smt "));
  CHECK(levels(topo_levels_t::no_smt) == levels(topo_levels_t::all).substr(4));
  CHECK(levels(topo_levels_t::llc) == levels(topo_levels_t::no_smt));
  CHECK(levels(topo_levels_t::no_numa) != levels(topo_levels_t::all));
  settings near;
  near.numa_reclaim_distance = 12;
  CHECK(domain_options_of(near).reclaim_distance == 12);
}
