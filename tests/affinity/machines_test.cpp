#include "affinity/machines.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace heddle::core;

namespace {
struct counts {
  size_t packages, nodes, llcs, cores, cpus;
  bool operator==(const counts&) const = default;
};
}  // namespace

TEST_CASE("machines: every built-in name of cli.md is there and has its shape") {
  const std::map<std::string_view, counts> expected = {
      {"2n40", {2, 2, 2, 20, 40}},          {"4n192", {4, 4, 4, 96, 192}}, {"2x4", {1, 1, 2, 8, 8}},
      {"2x6", {2, 2, 2, 12, 12}},           {"1x6x2", {1, 1, 1, 6, 12}},   {"8x10x2", {8, 8, 8, 80, 160}},
      {"1x4x2", {1, 1, 1, 4, 8}},           {"1x16x2", {1, 1, 1, 16, 32}}, {"desktop", {1, 1, 1, 8, 16}},
      {"ccx", {2, 2, 16, 64, 128}},         {"hybrid", {1, 1, 1, 14, 20}}, {"n1024", {8, 16, 32, 512, 1024}},
      {"n4096", {16, 64, 128, 2048, 4096}},
  };
  CHECK(named_machines().size() == expected.size());
  for (const named_machine& n : named_machines()) {
    CAPTURE(n.name);
    CHECK_FALSE(n.meaning.empty());
    const auto m = make_named_machine(n.name);
    REQUIRE(m);
    CHECK(m->name == n.name);
    CHECK_FALSE(m->this_system);
    REQUIRE(expected.count(n.name) == 1);
    CHECK(counts{m->packages.size(), m->nodes.size(), m->llcs.size(), m->cores.size(), m->cpus.size()} ==
          expected.at(n.name));
  }
  CHECK_FALSE(make_named_machine("2n41"));
}

TEST_CASE("machines: the 40-CPU machine is numbered as in the mails") {
  const auto m = make_named_machine("2n40");
  CHECK(m->list(m->nodes[0]) == "0-9,20-29");
  CHECK(m->list(m->nodes[1]) == "10-19,30-39");
  CHECK(m->list(m->core_of(m->find_os(7))) == "7,27");
}

TEST_CASE("machines: the 2013 box alternates between its packages") {
  const auto m = make_named_machine("2x6");
  CHECK(m->list(m->packages[0]) == "0,2,4,6,8,10");
  CHECK(m->list(m->packages[1]) == "1,3,5,7,9,11");
}

TEST_CASE("machines: the hybrid has two kinds, the fast one at full capacity") {
  const auto m = make_named_machine("hybrid");
  CHECK(m->at(m->find_os(0)).kind == 1);
  CHECK(m->at(m->find_os(0)).capacity == 1024);
  CHECK(m->at(m->find_os(19)).kind == 0);
  CHECK(m->at(m->find_os(19)).capacity < 1024);
  CHECK(m->list(m->core_of(m->find_os(0))) == "0-1");
  CHECK(m->list(m->clusters[static_cast<size_t>(m->at(m->find_os(17)).cluster)]) == "16-19");
}

TEST_CASE("machines: the largest has distances inside and between packages") {
  const auto m = make_named_machine("n4096");
  CHECK(m->distance(m->find_os(0), m->find_os(1)) == 10);
  CHECK(m->distance(m->find_os(0), m->find_os(32)) == 12);
  CHECK(m->distance(m->find_os(0), m->find_os(128)) == 20);
}
