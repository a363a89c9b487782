#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "bench_apps/common/errors.h"
#include "bench_apps/lab/blocks.h"
#include "bench_apps/lab/comparison.h"
#include "bench_apps/lab/from_files.h"
#include "bench_apps/lab/layout.h"
#include "bench_apps/lab/plan.h"
#include "runtime/base/rng.h"
#include "tests/seed.h"

using namespace heddle::bench;
using namespace heddle::bench::lab;
using heddle::core::rng;

namespace {

series figures(std::string metric, std::vector<double> values, direction better = direction::higher,
               bool primary = false, std::string statistic = "") {
  series s{.metric = std::move(metric), .statistic = std::move(statistic), .better = better, .primary = primary};
  for (double v : values) s.values.emplace_back(v);
  return s;
}

const comparison_row& row(const comparison& c, std::string_view metric, std::string_view name) {
  for (const comparison_row& r : c.rows)
    if (r.metric == metric && r.case_name == name) return r;
  FAIL("no such row");
  return c.rows.front();
}

run_result with_tps(double tps) {
  run_result r;
  r.metrics.push_back(figure("tps", tps, direction::higher));
  return r;
}

nlohmann::ordered_json file_of(const std::string& model, const std::string& name, std::vector<double> tps) {
  result_document d{.app = "pgbench"};
  d.cases.push_back({.name = name, .backend = "fibers"});
  d.environment = {{"cpu_model", model}};
  for (double v : tps) {
    d.cases.back().runs.push_back(with_tps(v));
    d.cases.back().runs.back().machine = {{"name", "host"}, {"cpu_count", 2}};
  }
  return to_json(d);
}

std::string primary_tps(const std::string&) { return "tps"; }

}  // namespace

TEST_CASE("compare: a case is a name and a list in which backend, machine, workers, cpus and seed are no settings") {
  const case_plan c =
      parse_case("off:k6.12,NO_WAKE_AFFINE,backend=threads,cpus=0,2-5,migration_cost_ns=500,workers=2,seed=7");
  CHECK(c.name == "off");
  CHECK(c.settings == "k6.12,NO_WAKE_AFFINE,migration_cost_ns=500");
  CHECK(*c.backend == "threads");
  CHECK(*c.cpus == "0,2-5");
  CHECK(*c.workers == "2");
  CHECK(*c.seed == 7);
  CHECK(*parse_case("big:machine=pack:2 core:10 pu:2").machine == "pack:2 core:10 pu:2");
  CHECK(parse_case("base:").settings.empty());
  CHECK_THROWS_WITH_AS(parse_case("base"), "--case: 'base' is not NAME:LIST", usage_error);
  CHECK_THROWS_WITH_AS(parse_case("x:backend=gpu"), "backend: 'gpu' is not fibers or threads", usage_error);
}

TEST_CASE("compare: varied settings multiply the cases, varied app options the points") {
  const comparison_plan p = make_plan({"a:", "b:k3.9"}, {"wa_burst_ns=0,500", "-c=8,16,32", "-j=1,2"});
  REQUIRE(p.cases.size() == 4);
  CHECK(p.cases[0].name == "a wa_burst_ns=0");
  CHECK(p.cases[3].name == "b wa_burst_ns=500");
  CHECK(p.cases[3].settings == "k3.9,wa_burst_ns=500");
  REQUIRE(p.points.size() == 6);
  CHECK(p.points[5].label == "-c 32 -j 2");
  CHECK(p.points[5].words == std::vector<std::string>{"-c", "32", "-j", "2"});
  CHECK(make_plan({}, {"preset=ws_plain,k3.9"}).cases[1].name == "preset=k3.9");
  CHECK(make_plan({}, {"backend=fibers,threads"}).cases[1].backend == "threads");
  CHECK_THROWS_AS(make_plan({"a:", "a:k3.9"}, {}), usage_error);
  CHECK_THROWS_WITH_AS(make_plan({}, {"-c"}), "--vary: '-c' is not NAME=V1,V2,...", usage_error);
}

TEST_CASE(
    "compare: every block runs every case once, in orders drawn by the seed, after a warm-up that is thrown away") {
  std::map<int64_t, std::vector<size_t>> order;
  int runs = 0;
  const block_plan plan{.cases = 3, .points = 2, .repeat = 20, .seed = heddle_test::seed()};
  const auto conduct = [&] {
    order.clear();
    return run_blocks(plan, [&](const block_run& r) {
      runs++;
      order[r.block].push_back(r.point * 3 + r.which);
      return with_tps(static_cast<double>(r.block));
    });
  };
  const blocks_result b = conduct();
  CHECK(runs == 3 * 2 * 21);
  CHECK(b.blocks == 2 * 20);
  for (const auto& point : b.runs)
    for (const auto& one : point) {
      REQUIRE(one.size() == 20);
      for (size_t i = 0; i < one.size(); i++) CHECK(*one[i].find("tps")->figure() == static_cast<double>(i));
    }
  std::set<std::vector<size_t>> orders;
  for (auto& [block, seen] : order) {
    orders.insert(seen);
    CHECK(std::set<size_t>(seen.begin(), seen.end()).size() == 6);
    CHECK(seen[0] / 3 == seen[2] / 3);  // a point's cases stand together: what is compared is close in time
  }
  CHECK(orders.size() > 5);
  const auto first = order;
  conduct();
  CHECK(first == order);
}

TEST_CASE("compare: a disturbed block is run again whole, at most twice, and counted") {
  int runs = 0;
  const blocks_result b = run_blocks({.cases = 2, .points = 1, .repeat = 3, .seed = 1}, [&](const block_run& r) {
    runs++;
    run_result result = with_tps(r.attempt);
    if ((r.block == 1 && r.attempt == 0 && r.which == 0) || r.block == 2) result.disturbances.push_back("others");
    return result;
  });
  CHECK(runs == 2 * (1 + 1 + 2 + 3));
  CHECK(b.repeated == 3);
  CHECK(b.still_disturbed == 1);
  CHECK(b.blocks == 3);
  CHECK(*b.runs[0][1][1].find("tps")->figure() == 1);  // both sides come from the repetition
}

TEST_CASE("compare: a failing run costs its block and is reported; an interrupted one ends with what is complete") {
  const blocks_result failed = run_blocks({.cases = 2, .points = 1, .repeat = 3, .seed = 1}, [&](const block_run& r) {
    run_result result = with_tps(1);
    if (r.block == 1 && r.which == 1) result.ended = ending::failed, result.error = "lost a fiber";
    return result;
  });
  CHECK(failed.error == "lost a fiber");
  CHECK(failed.runs[0][0].size() == 2);
  CHECK(failed.runs[0][1].size() == 2);
  const blocks_result stopped = run_blocks({.cases = 2, .points = 1, .repeat = 9, .seed = 1}, [&](const block_run& r) {
    run_result result = with_tps(1);
    if (r.runs_done == 7) result.ended = ending::interrupted;
    return result;
  });
  CHECK(stopped.interrupted);
  CHECK(stopped.runs[0][0].size() == 2);  // 2 to warm up, 4 in two blocks, 1 in the third, then the signal
  CHECK(stopped.runs[0][1].size() == 2);
}

TEST_CASE("compare: a planted effect gets its sign, its verdict by direction, and an interval without zero") {
  rng random(heddle_test::seed());
  std::vector<double> base, faster, latency, shorter;
  for (int i = 0; i < 10; i++) {
    const double drift = 1 + 0.5 * random.unit();
    base.push_back(1000 * drift * (1 + 0.01 * random.unit()));
    faster.push_back(1100 * drift * (1 + 0.01 * random.unit()));
    latency.push_back(50 / drift);
    shorter.push_back(60 / drift);
  }
  const comparison c = compare_cases(
      {{"base", "", {figures("tps", base, direction::higher, true), figures("lat", latency, direction::lower)}},
       {"new", "", {figures("tps", faster, direction::higher, true), figures("lat", shorter, direction::lower)}}},
      pairing::blocks, 1);
  const comparison_row& tps = row(c, "tps", "new");
  CHECK(tps.says == verdict::better);
  CHECK(*tps.difference_pct == doctest::Approx(10).epsilon(0.1));
  CHECK(tps.interval_pct.low > 5);
  CHECK(tps.n == 10);
  CHECK(row(c, "lat", "new").says == verdict::worse);
  CHECK(worst_pct(c) == doctest::Approx(20));
}

TEST_CASE("compare: fewer than six blocks say n/a and claim nothing") {
  const comparison c = compare_cases(
      {{"base", "", {figures("tps", {1, 2, 3, 4, 5})}}, {"new", "", {figures("tps", {10, 20, 30, 40, 50})}}},
      pairing::blocks, 1);
  CHECK_FALSE(c.rows[0].p);
  CHECK(c.rows[0].says == verdict::unknown);
  CHECK(name_of(c.rows[0].says) == "n/a");
  CHECK(worst_pct(c) == 0);
  CHECK(to_json(c)["rows"][0]["p"].is_null());
  CHECK(to_json(c)["rows"][0]["interval_pct"].is_null());
}

TEST_CASE("compare: the primary metric keeps its p, all others are corrected together") {
  const std::vector<double> base{100, 101, 102, 103, 104, 105}, other{110, 111, 112, 113, 114, 116};
  std::vector<series> left{figures("tps", base, direction::higher, true)},
      right{figures("tps", other, direction::higher, true)};
  for (int i = 0; i < 3; i++) {
    left.push_back(figures("m" + std::to_string(i), base));
    right.push_back(figures("m" + std::to_string(i), other));
  }
  const comparison c = compare_cases({{"base", "", left}, {"new", "", right}}, pairing::blocks, 1);
  CHECK(*row(c, "tps", "new").p == doctest::Approx(0.03125));
  CHECK(row(c, "tps", "new").says == verdict::better);
  CHECK(*row(c, "m1", "new").raw_p == doctest::Approx(0.03125));
  CHECK(*row(c, "m1", "new").p == doctest::Approx(0.09375));
  CHECK(row(c, "m1", "new").says == verdict::same);
}

TEST_CASE("compare: the baseline is taken within each value of a varied option") {
  const comparison c = compare_cases({{"base", "-c 8", {figures("tps", {1, 1, 1, 1, 1, 1})}},
                                      {"new", "-c 8", {figures("tps", {2, 2, 2, 2, 2, 2})}},
                                      {"base", "-c 16", {figures("tps", {10, 10, 10, 10, 10, 10})}},
                                      {"new", "-c 16", {figures("tps", {5, 5, 5, 5, 5, 5})}}},
                                     pairing::blocks, 1);
  REQUIRE(c.rows.size() == 2);
  CHECK(*c.rows[0].difference_pct == doctest::Approx(100));
  CHECK(*c.rows[1].difference_pct == doctest::Approx(-50));
  CHECK(c.rows[1].vary == "-c 16");
}

TEST_CASE("compare: tails are listed run by run with the count beyond the baseline's range") {
  const comparison c =
      compare_cases({{"base", "", {figures("lat", {1, 2, 3, 4, 5, 6}, direction::lower, false, "p99")}},
                     {"new", "", {figures("lat", {2, 3, 90, 95, 4, 99}, direction::lower, false, "p99")}}},
                    pairing::blocks, 1);
  REQUIRE(c.tails.size() == 1);
  CHECK(c.tails[0].beyond.count == 3);
  const std::string text = tails_text(c, "base");
  CHECK(text.find("3 of 6 outside the baseline's range") != std::string::npos);
  CHECK(text.find("95.00") != std::string::npos);
}

TEST_CASE("compare: a block in which one side has no figure counts for neither") {
  series base = figures("lag", {1, 2, 3, 4, 5, 6, 7}), other = figures("lag", {1, 2, 3, 4, 5, 6, 7});
  other.values[2].reset();
  const comparison c = compare_cases({{"base", "", {base}}, {"new", "", {other}}}, pairing::blocks, 1);
  CHECK(c.rows[0].n == 6);
  CHECK(c.rows[0].p == 1.0);
  CHECK(c.rows[0].base.mean == doctest::Approx(25.0 / 6));
}

TEST_CASE("compare: series carry the primary metric first, leave details out and mark thin percentiles") {
  std::vector<run_result> runs(6);
  for (run_result& r : runs) {
    histogram h;
    for (int i = 0; i < 2000; i++) h.record(heddle::core::nanos{i});
    r.metrics.push_back(figure("loops_per_s", 5, direction::higher));
    r.metrics.push_back(distribution_us("latency_us", h));
    r.metrics.push_back(figure("hidden", 1, direction::lower));
    r.metrics.back().detail = true;
  }
  const auto all = series_of(runs, "latency_us");
  CHECK(all.front().name() == "latency_us.p50");
  CHECK(all.front().primary);
  for (const series& s : all) {
    CHECK(s.metric != "hidden");
    CHECK(s.values.size() == 6);
    CHECK(s.trusted == (s.statistic != "p99.9"));
  }
}

TEST_CASE("compare: every format prints every row; ~ stands where nothing can be told apart") {
  const comparison c = compare_cases(
      {{"base", "", {figures("tps", {1, 2, 3, 4, 5, 6}), figures("ops", {1, 2, 3, 4, 5, 6})}},
       {"new", "", {figures("tps", {1.1, 2.3, 3.2, 4.6, 5.7, 6.9}), figures("ops", {2, 1, 3.1, 3.9, 5, 6})}}},
      pairing::blocks, 1);
  for (const char* format : {"lkml", "table", "csv", "markdown", "benchstat"}) {
    const std::string text = rows_text(c, "base", format);
    CAPTURE(text);
    CHECK(text.find("tps") != std::string::npos);
    CHECK(text.find("ops") != std::string::npos);
    CHECK(text.find('~') != std::string::npos);
  }
  CHECK(rows_text(c, "base", "lkml").find("base(std%)") != std::string::npos);
  CHECK(rows_text(c, "base", "lkml").find("new%(std%)") != std::string::npos);
}

TEST_CASE("compare --from: cases of one machine are compared, machines get rows of their own") {
  const read_result r = read_documents({{"a.json", file_of("EPYC", "fibers", {1, 2, 3, 4, 5})},
                                        {"b.json", file_of("EPYC", "fibers", {11, 12, 13, 14, 15})},
                                        {"c.json", file_of("Xeon", "fibers", {21, 22, 23, 24, 25})},
                                        {"d.json", file_of("Xeon", "fibers", {1, 2, 3, 4, 5})}},
                                       primary_tps);
  const comparison c = compare_cases(r.cases, pairing::none, 1);
  REQUIRE(c.rows.size() == 2);
  CHECK(c.rows[0].case_name == "b:fibers");
  CHECK(c.rows[0].vary == "EPYC x2");
  CHECK(*c.rows[0].p == doctest::Approx(2.0 / 252));
  CHECK(c.rows[0].says == verdict::better);
  CHECK(c.rows[1].vary == "Xeon x2");
  CHECK(c.rows[1].says == verdict::worse);
}

TEST_CASE("compare --from: what cannot be compared is refused in one line") {
  CHECK_THROWS_WITH_AS(read_documents({{"x.json", nlohmann::ordered_json::parse("{}")}}, primary_tps),
                       "--from: 'x.json' is not a result file of schema 1", usage_error);
  CHECK_THROWS_AS(
      read_documents({{"a.json", file_of("EPYC", "fibers", {1})}, {"b.json", file_of("Xeon", "fibers", {1})}},
                     primary_tps),
      usage_error);
  auto other = file_of("EPYC", "fibers", {1});
  other["app"] = "schbench";
  CHECK_THROWS_AS(read_documents({{"a.json", file_of("EPYC", "fibers", {1})}, {"b.json", other}}, primary_tps),
                  usage_error);
  CHECK_THROWS_AS(read_files({"/does/not/exist"}, primary_tps), usage_error);
  CHECK_THROWS_AS(
      read_documents(
          {{"y.json", nlohmann::ordered_json::parse(R"({"schema":1,"app":"pgbench","cases":[{"name":3}]})")}},
          primary_tps),
      usage_error);
}
