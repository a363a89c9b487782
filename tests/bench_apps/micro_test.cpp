#include "bench_apps/micro/micro.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/micro/families.h"
#include "bench_apps/micro/micro_table.h"
#include "bench_apps/micro/run.h"
#include "bench_apps/micro/selection.h"

using namespace heddle::bench;
using namespace heddle::bench::micro;

namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const chapter& c : chapters())
    for (const family* f : c.families)
      for (const figure_info& i : f->figures) names.emplace_back(i.name);
  return names;
}

plan small_plan(const std::string& only) {
  return {.only = selection(only), .rounds = 1, .live = 100, .workers = 1, .cpus = allowed_cpus(), .part = 200};
}

std::vector<std::string> names_in(const outcomes& found) {
  std::vector<std::string> names;
  for (const outcome& o : found.figures) names.emplace_back(o.info.name);
  return names;
}

const outcome* find(const outcomes& found, std::string_view name) {
  for (const outcome& o : found.figures)
    if (o.info.name == name) return &o;
  return nullptr;
}

void ignore(const std::string&) {}

}  // namespace

TEST_SUITE("micro") {
  TEST_CASE("micro: every figure has one name, a unit at its end, and a meaning") {
    std::set<std::string> seen;
    for (const std::string& name : all_names()) {
      CAPTURE(name);
      CHECK(seen.insert(name).second);
      CHECK(name.find_last_of('_') != std::string::npos);
      CHECK(figure_list().find("  " + name + " ") != std::string::npos);
    }
  }

  TEST_CASE("micro: the targets of the contract are all there") {
    for (const char* name :
         {"yield2_ns",     "yield1000_ns",   "yield2_pelt_ns", "pingpong1_ns",   "pingpong2_ns",   "pingpong_cross_ns",
          "spawn_join_ns", "spawn_batch_ns", "live1m_ns",      "live1m_kib",     "release1m_ns",   "mutex8_mops",
          "mutex64_mops",  "channel1_mops",  "channel2_mops",  "sleep5k_p50_us", "sleep5k_p99_us", "sleep5k_cpu_us",
          "sleep100k_s",   "extwake_p50_us", "extwake_p99_us", "paced50_p99_us", "paced90_p99_us", "paced100_per_s",
          "hog_max_us",    "hog_p99_us",     "idle_cpu_pct"}) {
      CAPTURE(name);
      bool has_target = false;
      for (const chapter& c : chapters())
        for (const family* f : c.families)
          for (const figure_info& i : f->figures) has_target |= i.name == name && i.target.has_value();
      CHECK(has_target);
    }
  }

  TEST_CASE("micro: a selection takes what begins with its prefixes, and the anchors") {
    const selection some("yield,spawn_join");
    CHECK(some.has("yield2_ns"));
    CHECK(some.has("yield2_pelt_ns"));
    CHECK(some.has("spawn_join_ns"));
    CHECK(some.has("anchor_rmw_ns"));
    CHECK_FALSE(some.has("spawn_batch_ns"));
    CHECK(selection("").has("spawn_batch_ns"));
    CHECK(selection("hog_m").has(hog));
    CHECK_FALSE(selection("hog_m").has("hog_p99_us"));
  }

  TEST_CASE("micro: a prefix that begins no name is refused with what is near") {
    CHECK_THROWS_AS(selection("yeild"), usage_error);
    CHECK_THROWS_AS(selection("yield,,wake"), usage_error);
    try {
      selection("yield2_nx");
    } catch (const usage_error& e) {
      CHECK(std::string(e.what()).find("'yield2_nx'") != std::string::npos);
      CHECK(std::string(e.what()).find("yield2_ns") != std::string::npos);
    }
  }

  TEST_CASE("micro: percentiles are sample values, the smallest that enough do not exceed") {
    std::vector<double> none, one = {7}, hundred;
    for (int i = 100; i > 0; i--) hundred.push_back(i);
    CHECK_FALSE(percentile(none, 50));
    CHECK(*percentile(one, 99) == 7);
    CHECK(*percentile(hundred, 50) == 50);
    CHECK(*percentile(hundred, 99) == 99);
    CHECK(*percentile(hundred, 100) == 100);
  }

  TEST_CASE("micro: a run yields exactly the figures asked for, with anchors first and targets moved by them") {
    const outcomes found = run_rounds(small_plan("spawn_join,live"), ignore);
    const auto names = names_in(found);
    CHECK(names.front().starts_with("anchor_"));
    for (const char* name : {"anchor_rmw_ns", "spawn_join_ns", "live1m_ns", "live1m_kib"}) {
      CAPTURE(name);
      const outcome* o = find(found, name);
      REQUIRE(o != nullptr);
      CHECK(o->values.size() == 1);
      CHECK(std::isfinite(o->median));
    }
    CHECK(find(found, "release1m_ns") == nullptr);
    const outcome& o = *find(found, "spawn_join_ns");
    CHECK(*o.target_here == doctest::Approx(45 * find(found, "anchor_rmw_ns")->median / 6.0));
    CHECK(o.holds() == (o.median <= *o.target_here));
    CHECK(micro_table(found, {}, table::style::aligned).find("spawn_join_ns") != std::string::npos);
  }

  TEST_CASE("micro: figures whose definition fixes the workers are left out of further cases") {
    plan p = small_plan("yield2_ns,live1m_ns");
    p.fixed = false;
    const outcomes found = run_rounds(p, ignore);
    CHECK(find(found, "yield2_ns") == nullptr);
    CHECK(find(found, "live1m_ns") != nullptr);
  }

  TEST_CASE("micro: with too few CPUs a figure is left out, and a note says so") {
    plan p = small_plan("mutex8");
    p.cpus.resize(1);
    const outcomes found = run_rounds(p, ignore);
    CHECK(find(found, "mutex8_mops") == nullptr);
    REQUIRE(found.notes.size() == 1);
    CHECK(found.notes.front().find("mutex8_mops") != std::string::npos);
  }

  TEST_CASE("micro: every family runs and records what it lists") {
    plan p = small_plan("");
    p.workers = p.cpus.size() < 2 ? 1 : 2;
    const outcomes found = run_rounds(p, ignore);
    for (const chapter& c : chapters())
      for (const family* f : c.families)
        for (const figure_info& i : f->figures) {
          const bool bare = i.name == "anchor_switch_ns" || i.name == "switch_ns";  // absent under sanitizers
          if (bare || f->workers > p.cpus.size() || (i.name == "anchor_line_ns" && p.cpus.size() < 2)) continue;
          CAPTURE(i.name);
          const outcome* o = find(found, i.name);
          REQUIRE(o != nullptr);
          CHECK(o->median >= 0);
          CHECK(std::isfinite(o->median));
        }
  }

  TEST_CASE("micro: as an app it gives a result, and refuses what is not fibers on this machine") {
    const auto app = make_micro();
    arguments args("micro", micro_summary);
    app->declare(args);
    REQUIRE(args.parse({"--only", "wake_ns", "--rounds", "2", "--quick"}));
    app->check();
    const run_result result = app->run({});
    REQUIRE(result.find("wake_ns") != nullptr);
    CHECK(to_json(*result.find("wake_ns"))["better"] == "lower");
    CHECK(to_json(*result.find("anchor_rmw_ns"))["detail"] == true);
    run_request threads;
    threads.backend = backend_kind::threads;
    CHECK_THROWS_AS(app->run(threads), usage_error);
    run_request elsewhere;
    elsewhere.machine = "2x4";
    CHECK_THROWS_AS(app->run(elsewhere), usage_error);
  }

  TEST_CASE("micro: the result file has the range of a figure, and its target where there is one") {
    outcome o{.info = {"x_ns", "", direction::lower, 1, 2, anchor::none}, .values = {1, 2, 3}, .median = 2};
    o.target_here = 2;
    CHECK(range_json(o) == ordered_json::parse(R"({"min":1.0,"max":3.0,"rounds":3,"target":2.0,"meets_target":true})"));
    o.info.better = direction::higher;
    o.target_here = 2.5;
    o.cpu_ns_per_op = 4;
    CHECK(range_json(o)["meets_target"] == false);
    CHECK(range_json(o)["cpu_ns_per_op"] == 4);
    o.target_here.reset();
    CHECK_FALSE(range_json(o).contains("target"));
  }
}
