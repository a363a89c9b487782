#include "affinity/discover.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "affinity/domains.h"
#include "affinity/pin.h"
#include "tests/affinity/domain_checks.h"

using namespace heddle::core;
namespace fs = std::filesystem;

namespace {

// Small machines of our own, one per trap: tests/data/NAME.xml.
topology load(const char* name) {
  loaded_machine loaded = load_machine(std::string(HEDDLE_SOURCE_DIR "/tests/data/") + name + ".xml");
  REQUIRE_MESSAGE(loaded.machine, loaded.error);
  CHECK_FALSE(loaded.machine->this_system);
  heddle_test::check_domain_invariants(*loaded.machine, domain_tree(*loaded.machine));
  return std::move(*loaded.machine);
}

std::string lists(const topology& m, const std::vector<cpu_set>& partition) {
  std::string text;
  for (const cpu_set& s : partition) text += (text.empty() ? "" : " | ") + m.list(s);
  return text;
}

struct set_variable {
  set_variable(const char* n, const std::string& value) : name(n) { ::setenv(n, value.c_str(), 1); }
  ~set_variable() { ::unsetenv(name); }
  const char* name;
};

}  // namespace

TEST_CASE("discover: this host has the CPUs the kernel lets us see, and at least those of the mask") {
  const loaded_machine loaded = discover_host();
  REQUIRE_MESSAGE(loaded.machine, loaded.error);
  const topology& m = *loaded.machine;
  CHECK(m.this_system);
  CHECK(m.name == "host");
  for (int os_id : affinity_mask()) CHECK(valid(m.find_os(os_id)));
  heddle_test::check_domain_invariants(m, domain_tree(m));
}

TEST_CASE("discover: a synthetic machine") {
  const loaded_machine loaded = load_machine("pack:2 core:10 pu:2");
  REQUIRE(loaded.machine);
  const topology& m = *loaded.machine;
  CHECK(m.cpu_count() == 40);
  CHECK(m.cores.size() == 20);
  CHECK(m.packages.size() == 2);
  CHECK(lists(m, m.llcs) == "0-19 | 20-39");
  CHECK(m.llc_caches[0].level == 0);
  CHECK_FALSE(m.this_system);
}

TEST_CASE("discover: more CPUs than a cpu_set_t has bits") {
  const loaded_machine loaded = load_machine("numa:32 core:32 pu:2");
  REQUIRE(loaded.machine);
  CHECK(loaded.machine->cpu_count() == 2048);
  CHECK(loaded.machine->nodes.size() == 32);
  CHECK(loaded.machine->list(loaded.machine->all()) == "0-2047");
}

TEST_CASE("discover: what cannot be a machine is refused in one line") {
  const auto error = [](const std::string& spec) {
    const loaded_machine loaded = load_machine(spec);
    CHECK_FALSE(loaded.machine);
    CHECK(loaded.error.find('\n') == std::string::npos);
    return loaded.error;
  };
  CHECK(error("pack:x") == "'pack:x' is not a synthetic machine such as \"pack:2 core:10 pu:2\"");
  for (const char* bad : {"pack:0 pu:1", "pack:-1", "pack:2 pu:2 core:2", "core:2:3", ":"})
    CHECK_MESSAGE(error(bad).find("is not a synthetic machine") != std::string::npos, bad);
  CHECK(error("nonsense").find("is not host, a built-in name") != std::string::npos);
  CHECK(error("").find("is not host, a built-in name") != std::string::npos);
  CHECK(error("/no/such/file.xml") == "'/no/such/file.xml' does not exist");
  CHECK(error("/").find("is not an hwloc XML file") != std::string::npos);
  // Refused before hwloc builds a billion objects.
  for (const char* huge : {"pack:1000 core:1000 pu:1000", "pu:99999999999999999999999", "core:65537 pu:1"})
    CHECK_MESSAGE(error(huge).find("describes more than 65536 CPUs") != std::string::npos, huge);
  const fs::path broken = fs::temp_directory_path() / ("heddle_broken_" + std::to_string(::getpid()) + ".xml");
  for (const char* text :
       {"", "hello", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Machine\""}) {
    std::ofstream(broken) << text;
    CHECK_MESSAGE(error(broken.string()).find("is not an hwloc XML file") != std::string::npos, text);
  }
  fs::remove(broken);
}

TEST_CASE("discover: hwloc's own variables describe the host, and are not this system") {
  {
    const set_variable v("HWLOC_SYNTHETIC", "pack:2 core:2 pu:1");
    const loaded_machine loaded = load_machine("host");
    REQUIRE(loaded.machine);
    CHECK(loaded.machine->cpu_count() == 4);
    CHECK_FALSE(loaded.machine->this_system);
    // A machine that is named is not disturbed by it.
    CHECK(load_machine("pu:3").machine->cpu_count() == 3);
  }
  {
    const set_variable v("HWLOC_XMLFILE", HEDDLE_SOURCE_DIR "/tests/data/l3_wider_than_node.xml");
    CHECK(load_machine("host").machine->cpu_count() == 4);
    const set_variable insists("HWLOC_THISSYSTEM", "1");
    CHECK(load_machine("host").machine->this_system);
    CHECK_FALSE(load_machine("pu:3").machine->this_system);
  }
  const set_variable v("HWLOC_SYNTHETIC", "nonsense");
  const loaded_machine loaded = load_machine("host");
  CHECK_FALSE(loaded.machine);
  CHECK(loaded.error.starts_with("HWLOC_SYNTHETIC: 'nonsense' is not"));
}

TEST_CASE("discover: an L3 wider than a node is cut at the border") {
  const topology m = load("l3_wider_than_node");
  CHECK(lists(m, m.llcs) == "0-1 | 2-3");
  CHECK(lists(m, m.nodes) == "0-1 | 2-3");
  CHECK(m.llc_caches[0].level == 3);
  CHECK(m.llc_caches[0].bytes == 8388608);
}

TEST_CASE("discover: several memory nodes beside the same CPUs are one node, the first stands for it") {
  const topology m = load("two_memories_per_node");
  CHECK(lists(m, m.nodes) == "0-1 | 2-3");
  CHECK(m.node_os_ids == std::vector<int>{0, 1});
  CHECK(m.distance(to_cpu(0), to_cpu(2)) == 17);
}

TEST_CASE("discover: CPUs without a memory node are a node of their own, farthest away") {
  const topology m = load("node_without_memory");
  CHECK(lists(m, m.nodes) == "0-1 | 2-3 | 4-5");
  CHECK(m.node_os_ids == std::vector<int>{0, 1, -1});
  CHECK(m.distances == std::vector<std::vector<int>>{{10, 15, 16}, {15, 10, 16}, {16, 16, 10}});
}

TEST_CASE("discover: a memory node without CPUs is no node of ours") {
  const topology m = load("memory_without_cpus");
  CHECK(lists(m, m.nodes) == "0-1");
  CHECK(m.node_os_ids == std::vector<int>{0});
}

TEST_CASE("discover: forbidden and offline CPUs are left out and counted apart") {
  const topology m = load("forbidden_and_offline");
  CHECK(m.list(m.all()) == "0-1,4");
  CHECK(m.forbidden_count == 2);
  CHECK(m.offline_count == 2);
  // The package of the forbidden CPUs is not one of ours, nor is its cache.
  CHECK(lists(m, m.packages) == "0-1 | 4");
  CHECK(lists(m, m.llcs) == "0-1 | 4");
}

TEST_CASE("discover: last caches of different levels and sizes in one machine") {
  const topology m = load("mixed_last_caches");
  CHECK(lists(m, m.llcs) == "0-3 | 4-5 | 6");
  CHECK(m.llc_caches[0].level == 3);
  CHECK(m.llc_caches[1].level == 2);
  CHECK(m.llc_caches[2].level == 0);
  CHECK(lists(m, m.clusters) == "0-1 | 2-3 | 4 | 5 | 6");
  const domain_tree tree(m);
  CHECK(tree.chain(to_cpu(0))[0].level() == domain_level::cluster);
  CHECK(tree.chain(to_cpu(4))[0].level() == domain_level::llc);
  CHECK(tree.chain(to_cpu(6)).size() == 1);
}

TEST_CASE("discover: no core, no cache, no package: each CPU a core, all one LLC") {
  const topology m = load("nothing_but_cpus");
  CHECK(lists(m, m.cores) == "0 | 7 | 9");
  CHECK(lists(m, m.packages) == "0,7,9");
  CHECK(lists(m, m.llcs) == "0,7,9");
  CHECK(m.llc_caches[0].level == 0);
}

TEST_CASE("discover: a core with several L2 caches") {
  const topology m = load("core_wider_than_l2");
  CHECK(lists(m, m.cores) == "0-3");
  CHECK(lists(m, m.llcs) == "0-1 | 2-3");
  const domain_tree tree(m);
  CHECK(tree.chain(to_cpu(0))[0].level() == domain_level::llc);
  CHECK(tree.chain(to_cpu(0))[1].level() == domain_level::machine);
}

TEST_CASE("discover: kinds are ranked, capacity follows the highest frequency") {
  const topology m = load("two_kinds");
  CHECK(m.at(m.find_os(0)).kind == 1);
  CHECK(m.at(m.find_os(0)).capacity == 1024);
  CHECK(m.at(m.find_os(2)).kind == 0);
  CHECK(m.at(m.find_os(2)).capacity == 512);
}
