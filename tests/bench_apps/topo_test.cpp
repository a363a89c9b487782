#include "bench_apps/commands/topo.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "affinity/capabilities.h"
#include "affinity/discover.h"
#include "affinity/machines.h"
#include "affinity/pin.h"
#include "bench_apps/commands/topo_text.h"
#include "bench_apps/common/errors.h"
#include "tests/bench_apps/captured.h"

using namespace heddle::bench;
using nlohmann::json;

namespace {

struct outcome {
  int status;
  std::string out;
  std::string err;
};

outcome topo(std::vector<std::string> words) {
  static constexpr command commands[] = {topo_command};
  words.insert(words.begin(), "topo");
  captured out(stdout);
  captured err(stderr);
  outcome o{run_program(words, commands, {}), "", ""};
  o.err = err.end();
  o.out = out.end();
  return o;
}

json topo_json(std::vector<std::string> words) {
  words.push_back("--json");
  const outcome o = topo(std::move(words));
  REQUIRE_MESSAGE(o.status == exit_done, o.err);
  return json::parse(o.out);
}

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("topo: JSON has the contract's fields") {
  const json j = topo_json({"--machine", "2n40", "--domains"});
  CHECK(j["workers"] == 40);
  CHECK(j["workers_reason"] == "one per CPU");
  CHECK(j["cpus"] == "0-39");
  CHECK(j["smt"].size() == 20);
  CHECK(j["smt"][0] == "0,20");
  CHECK(j["llcs"] == json({"0-9,20-29", "10-19,30-39"}));
  CHECK(j["nodes"] == j["llcs"]);
  CHECK(j["packages"] == j["llcs"]);
  CHECK_FALSE(j.contains("capabilities"));
  // Finest first per CPU.
  REQUIRE(j["domains"].size() == 40 * 3);
  CHECK(j["domains"][0] == json({{"cpu", 0}, {"level", "smt"}, {"span", "0,20"}}));
  CHECK(j["domains"][1] == json({{"cpu", 0}, {"level", "llc"}, {"span", "0-9,20-29"}}));
  CHECK(j["domains"][2] == json({{"cpu", 0}, {"level", "machine"}, {"span", "0-39"}}));
}

TEST_CASE("topo: domains are those of the CPUs that have a worker") {
  const json j = topo_json({"--machine", "2n40", "--cpus", "0-1,20,10", "--workers", "2", "--domains"});
  CHECK(j["cpus"] == "0-1,10,20");
  CHECK(j["workers"] == 2);
  CHECK(j["worker_cpus"] == "0-1");
  CHECK(j["workers_reason"] == "--cpus 0-1,20,10; --workers 2");
  CHECK(j["domains"] == json::parse(R"([{"cpu":0,"level":"llc","span":"0-1"},{"cpu":1,"level":"llc","span":"0-1"}])"));
}

TEST_CASE("topo: this host in numbers agrees with the affinity mask") {
  const json j = topo_json({"--caps"});
  CHECK(j["this_system"] == true);
  CHECK(j["workers"].get<size_t>() >= 1);
  CHECK(j["workers"].get<size_t>() <= heddle::core::affinity_mask().size());
  CHECK(j["capabilities"].is_object());
  for (const char* name :
       {"io_uring", "pinning", "membarrier_private_expedited", "membarrier_rseq", "madv_guard_install"})
    CHECK_MESSAGE(j["capabilities"][name].is_boolean(), name);
  for (const char* name : {"memlock_bytes", "max_map_count"}) CHECK_MESSAGE(j["capabilities"].contains(name), name);
  CHECK(has(topo({}).out, "workers: " + std::to_string(j["workers"].get<int>()) + " on CPU"));
  CHECK_FALSE(has(topo({}).out, "not this system"));
}

TEST_CASE("topo: what cannot be is one line on stderr and status 2") {
  const std::vector<std::vector<std::string>> bad = {
      {"--machine", "pack:x"},
      {"--machine", "bogus"},
      {"--machine", "/no/such.xml"},
      {"--machine", "2n40", "--cpus", "40"},
      {"--machine", "2n40", "--workers", "41"},
      {"--workers", "0"},
      {"--cpus", "a"},
      {"--domain"},
  };
  for (const auto& words : bad) {
    const outcome o = topo(words);
    CAPTURE(words.back());
    CHECK(o.status == exit_usage);
    CHECK(o.out.empty());
    CHECK(lines(o.err) == 1);
    CHECK(o.err.starts_with("heddle: "));
  }
  CHECK(topo({"--machine", "2n40", "--workers", "41"}).err == "heddle: --workers: '41' is not 1..40\n");
}

TEST_CASE("topo: the list names every built-in machine") {
  const std::string text = topo({"--list"}).out;
  const json j = topo_json({"--list"});
  CHECK(j.size() == heddle::core::named_machines().size());
  for (const auto& m : heddle::core::named_machines()) CHECK(has(text, std::string(m.meaning)));
}

TEST_CASE("topo: a description is headed `not this system`") {
  CHECK(topo({"--machine", "desktop"}).out.starts_with("not this system"));
}

TEST_CASE("topo: the drawing merges levels that are one, and shows each core") {
  CHECK(drawing_of(*heddle::core::make_named_machine("2n40")) ==
        "package 0, node 0, LLC 0 (L3 25 MiB)\n"
        "  0+20  1+21  2+22  3+23  4+24  5+25  6+26  7+27  8+28  9+29\n"
        "package 1, node 1, LLC 1 (L3 25 MiB)\n"
        "  10+30  11+31  12+32  13+33  14+34  15+35  16+36  17+37  18+38  19+39\n");
  CHECK(has(drawing_of(*heddle::core::make_named_machine("hybrid")), "[12 13 14 15]  [16 17 18 19]"));
  CHECK(has(drawing_of(*heddle::core::make_named_machine("2x4")), "LLC 1 (L2 512 KiB)"));
  CHECK(has(drawing_of(*heddle::core::load_machine("pack:2 core:4 pu:1").machine), "llc: assumed"));
}

TEST_CASE("topo: a large machine fits on a screen or two") {
  const std::string text = topo({"--machine", "n4096", "--domains"}).out;
  CHECK(lines(text) < 70);
  CHECK(has(text, "14 more like these"));
  CHECK(has(text, "16 cores: 0-15 + 2048-2063"));
}

TEST_CASE("capabilities: each is told once, what is missing says what is used instead") {
  std::vector<std::string> names;
  for (const heddle::core::capability& c : heddle::core::probe_capabilities()) {
    CHECK_FALSE(c.note.empty());
    CHECK(std::find(names.begin(), names.end(), c.name) == names.end());
    names.push_back(c.name);
    if (!c.is_limit) CHECK_FALSE(c.value);
  }
  // Probing leaves the thread where it was.
  const std::vector<int> mask = heddle::core::affinity_mask();
  heddle::core::probe_capabilities();
  CHECK(heddle::core::affinity_mask() == mask);
}
