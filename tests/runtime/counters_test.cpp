// What the runtime counts of waiting, searching and balancing, on described machines; and the layout of /proc/schedstat.
#include <sstream>

#include "tests/runtime/failure.h"

using namespace heddle_test;

namespace {

// Eight hogs that begin on CPU 0 of a machine with two caches.
counts balanced_hogs(const std::string& settings, std::string* schedstat = nullptr) {
  heddle::runtime rt(described("pack:2 core:2 pu:2", settings));
  rt.run([&] {
    bool stop = false;
    std::vector<heddle::fiber<void>> all;
    heddle::spawn({.cpu = 0}, [&] {
      for (int i = 0; i < 8; i++) all.push_back(heddle::spawn(hog{.stop = &stop}));
    }).join();
    heddle::this_fiber::sleep_for(10ms);
    stop = true;
    join_all(all);
  });
  if (schedstat) {
    std::ostringstream text;
    rt.schedstat(text);
    *schedstat = text.str();
  }
  return rt.stats().counters;
}

uint64_t ending_with(const counts& c, const std::string& suffix) {
  uint64_t total = 0;
  for (const auto& [name, value] : c)
    if (name.ends_with(suffix)) total += value;
  return total;
}

}  // namespace

TEST_CASE("counters: what waits beside idle CPUs is counted by how near the nearest of them is") {
  // Nobody moves anything: seven wait for 10 ms, and a sibling idles.
  counts alone = balanced_hogs("wake_chain=off,newidle=off,lb=off,ilb=off,stall_rescue=off");
  CHECK(alone["wait_ns"] > 60'000'000);
  CHECK(alone["idle_while_waiting_core_ns"] > 9'000'000);
  CHECK(alone["idle_while_waiting_llc_ns"] + alone["idle_while_waiting_node_ns"] == 0);
  counts spread = balanced_hogs("default");
  CHECK(ending_with(spread, "_ns") > 0);
  CHECK(spread["idle_while_waiting_core_ns"] + spread["idle_while_waiting_llc_ns"] < 500'000);
}

TEST_CASE("counters: passes of a level end balanced, failed or with fibers gained, and the sum is what was moved") {
  counts c = balanced_hogs("wake_chain=off,newidle=off,ilb=off,idle=poll");
  CHECK(c["moved_by_balance"] > 0);
  CHECK(ending_with(c, "_busy_gained") + ending_with(c, "_idle_gained") == c["moved_by_balance"]);
  for (const char* level : {"smt", "llc"})
    for (const char* how : {"_busy", "_idle"}) {
      const std::string name = std::string(level) + how;
      CHECK(c[name + "_balanced"] + c[name + "_failed"] <= c[name + "_passes"]);
    }
  CHECK(c["migrations"] == c["migrations_core"] + c["migrations_llc"] + c["migrations_node"] + c["migrations_machine"]);
  CHECK(c["migrations_node"] > 0);  // two caches of one node
}

TEST_CASE("counters: searches before idling are counted where they were made") {
  counts c = balanced_hogs("wake_chain=off,lb=off,ilb=off,ni_gate=none,ni_overload_gate=off,ni_random=off");
  CHECK(c["newidle_tried"] > 0);
  CHECK(ending_with(c, "_newidle_gained") == c["moved_by_newidle"]);
  CHECK(c["smt_newidle_passes"] > 0);
  CHECK(c["smt_newidle_ns"] + c["llc_newidle_ns"] + c["package_newidle_ns"] <= c["newidle_ns"]);
  counts gated = balanced_hogs("newidle=on,ni_overload_gate=on,lb=off");
  CHECK(gated["newidle_gated"] > 0);
}

TEST_CASE("schedstat: a line per CPU and one per domain of it, as version 15 has them") {
  std::string text;
  counts c = balanced_hogs("wake_chain=off,newidle=off,ilb=off,idle=poll", &text);
  std::istringstream in(text);
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK(line == "version 15");
  REQUIRE(std::getline(in, line));
  CHECK(line.starts_with("timestamp "));
  int cpus = 0, domains = 0;
  uint64_t gained = 0, run_ns = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<uint64_t> fields;
    if (name.starts_with("cpu")) {
      CHECK(name == "cpu" + std::to_string(cpus++));
      for (uint64_t v; words >> v;) fields.push_back(v);
      REQUIRE(fields.size() == 9);
      run_ns += fields[6];
      continue;
    }
    REQUIRE(name.starts_with("domain"));
    domains++;
    std::string mask;
    words >> mask;
    if (name == "domain0")
      CHECK(mask == (cpus <= 2 ? "00000003" : cpus <= 4 ? "0000000c" : cpus <= 6 ? "00000030" : "000000c0"));
    for (uint64_t v; words >> v;) fields.push_back(v);
    REQUIRE(fields.size() == 36);
    gained += fields[4] + fields[12];
  }
  CHECK(cpus == 8);
  CHECK(domains == 8 * 3);
  CHECK(gained == c["moved_by_balance"]);
  CHECK(run_ns == c["run_ns"]);
}
