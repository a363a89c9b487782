#include "affinity/topology.h"

#include <doctest/doctest.h>

#include <string>

using namespace heddle::core;

namespace {

// Two packages of two cores; OS ids far apart and in no order; labels of no order either.
topology small() {
  machine_facts facts;
  facts.cpus = {{.os_id = 88, .core = 7, .cluster = 7, .llc = 1, .node = 5, .package = 3},
                {.os_id = 2, .core = 9, .cluster = 9, .llc = 0, .node = 1, .package = 0},
                {.os_id = 89, .core = 8, .cluster = 8, .llc = 1, .node = 5, .package = 3},
                {.os_id = 1, .core = 4, .cluster = 4, .llc = 0, .node = 1, .package = 0}};
  facts.llc_caches = {{3, 1000}, {3, 2000}};
  facts.node_os_ids = {-1, 11, -1, -1, -1, 55};
  facts.distances = std::vector<std::vector<int>>(6, std::vector<int>(6, 0));
  facts.distances[1] = {0, 10, 0, 0, 0, 17};
  facts.distances[5] = {0, 16, 0, 0, 0, 10};
  return assemble(std::move(facts), "small");
}

}  // namespace

TEST_CASE("topology: CPUs ascend by OS id, partitions by their lowest CPU") {
  const topology m = small();
  CHECK(m.list(m.all()) == "1-2,88-89");
  CHECK(m.cores.size() == 4);
  CHECK(m.at(to_cpu(0)).core == 0);
  CHECK(m.list(m.llcs[0]) == "1-2");
  CHECK(m.llc_caches[1].bytes == 2000);
  CHECK(m.node_os_ids == std::vector<int>{11, 55});
  CHECK(m.distances == std::vector<std::vector<int>>{{10, 17}, {16, 10}});
  CHECK(m.distance(m.find_os(1), m.find_os(88)) == 17);
  CHECK(m.find_os(3) == cpu_id::none);
  CHECK_FALSE(m.has_smt());
}

TEST_CASE("topology: an LLC that spans two nodes is cut at their border") {
  machine_facts facts;
  for (int i = 0; i < 4; i++) facts.cpus.push_back({.os_id = i, .core = i, .cluster = i, .llc = 0, .node = i / 2});
  facts.llc_caches = {{3, 64}};
  const topology m = assemble(std::move(facts), "cut");
  REQUIRE(m.llcs.size() == 2);
  CHECK(m.list(m.llcs[1]) == "2-3");
  CHECK(m.llc_caches[0].level == 3);
  CHECK(m.llc_caches[1].level == 3);
}

TEST_CASE("topology: without a matrix nodes are 10 and 20 apart") {
  machine_facts facts;
  for (int i = 0; i < 3; i++) facts.cpus.push_back({.os_id = i, .core = i, .cluster = i, .llc = i, .node = i});
  const topology m = assemble(std::move(facts), "no matrix");
  CHECK(m.distances == std::vector<std::vector<int>>{{10, 20, 20}, {20, 10, 20}, {20, 20, 10}});
}

TEST_CASE("topology: a node that the matrix does not know is farther than all others") {
  machine_facts facts;
  for (int i = 0; i < 3; i++) facts.cpus.push_back({.os_id = i, .core = i, .cluster = i, .llc = i, .node = i});
  facts.distances = {{10, 15}, {15, 10}};
  const topology m = assemble(std::move(facts), "one unknown");
  CHECK(m.distances == std::vector<std::vector<int>>{{10, 15, 16}, {15, 10, 16}, {16, 16, 10}});
}

TEST_CASE("topology: restricted keeps the numbers users see and renumbers the rest") {
  const topology m = small();
  const topology one = restricted(m, {2, 3});
  CHECK(one.list(one.all()) == "88-89");
  CHECK(one.nodes.size() == 1);
  CHECK(one.node_os_ids == std::vector<int>{55});
  CHECK(one.llc_caches[0].bytes == 2000);
  CHECK(one.hash() != m.hash());
  CHECK(restricted(m, m.all()).hash() == m.hash());
}

TEST_CASE("topology: CPU lists are read in OS ids") {
  const topology m = small();
  std::string error;
  CHECK(m.list(parse_cpu_list(m, "1,88-89", error)) == "1,88-89");
  CHECK(error.empty());
  for (const char* bad : {"", ",", "1,", "a", "2-1", "-1", "1-", "0x1", "1 ", "99999999999999999999"}) {
    error.clear();
    CHECK(parse_cpu_list(m, bad, error).empty());
    CHECK_MESSAGE(error.find("is not a CPU list") != error.npos, bad);
  }
  for (const char* absent : {"3", "1-3", "0", "0-2000000000", "90"}) {
    error.clear();
    CHECK(parse_cpu_list(m, absent, error).empty());
    CHECK_MESSAGE(error == "'" + std::string(absent) + "' is not within CPUs 1-2,88-89", error);
  }
}
