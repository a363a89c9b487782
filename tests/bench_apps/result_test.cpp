#include "bench_apps/common/result.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/print.h"
#include "bench_apps/common/statistics.h"
#include "bench_apps/common/table.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

namespace {

result_document document_with(std::vector<metric> metrics) {
  result_document d{.app = "sample", .command = {"sample", "-m", "2"}};
  d.cases.push_back({.name = "base", .backend = "threads", .options = {{"-m", 2}}});
  run_result run;
  run.metrics = std::move(metrics);
  run.seconds = 1;
  d.cases[0].runs.push_back(run);
  return d;
}

histogram microseconds(std::initializer_list<int> values) {
  histogram h;
  for (const int v : values) h.record(std::chrono::microseconds{v});
  return h;
}

}  // namespace

TEST_CASE("result: a statistic without samples is null, and says so") {
  const auto j = to_json(distribution_us("wakeup_latency_us", {}));
  CHECK(j["samples"] == 0);
  for (const auto name : statistic_names) CHECK(j[std::string(name)].is_null());
  CHECK(j["histogram_ns"].empty());
}

TEST_CASE("result: statistics are in the metric's unit, the histogram in nanoseconds") {
  const auto j = to_json(distribution_us("wakeup_latency_us", microseconds({1, 2, 3})));
  CHECK(j["samples"] == 3);
  CHECK(j["mean"] == 2.0);
  CHECK(j["min"] == 1.0);
  CHECK(j["max"] == 3.0);
  CHECK(j["better"] == "lower");
  uint64_t counted = 0;
  for (const auto& bucket : j["histogram_ns"]) counted += bucket[1].get<uint64_t>();
  CHECK(counted == 3);
}

TEST_CASE("result: no NaN and no infinity reaches a file") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(to_json(figure("loops_per_s", bad, direction::higher))["value"].is_null());
  CHECK(to_json(figure("loops_per_s", std::nullopt, direction::higher))["value"].is_null());
}

TEST_CASE("result: the document has schema 1's fields, complete or not") {
  for (const ending how : {ending::complete, ending::interrupted, ending::failed}) {
    auto d = document_with({figure("loops_per_s", 812.0, direction::higher)});
    d.ended = d.cases[0].runs[0].ended = how;
    if (how == ending::failed) d.error = "why";
    const auto j = to_json(d);
    CHECK(j["schema"] == 1);
    CHECK(j["app"] == "sample");
    CHECK(j["command"] == ordered_json({"sample", "-m", "2"}));
    CHECK(j["ended"] == name_of(how));
    CHECK(j.contains("error") == (how == ending::failed));
    CHECK(j["cases"][0]["runs"][0]["metrics"]["loops_per_s"]["value"] == 812.0);
    CHECK(j["resources"][0]["case"] == 0);
    CHECK(j["comparison"].is_null());
  }
}

TEST_CASE("result: a file is whole or absent, and an unwritable one is known before the run") {
  const std::string path = "result_test.json";
  CHECK(can_write_json(path));
  write_json(to_json(document_with({})), path);
  CHECK(ordered_json::parse(std::ifstream(path))["schema"] == 1);
  CHECK_FALSE(std::ifstream(path + ".part").is_open());
  std::remove(path.c_str());
  CHECK_FALSE(can_write_json("/no such folder/x.json"));
  CHECK_FALSE(can_write_json("."));
  CHECK_THROWS_AS(write_json({}, "/no such folder/x.json"), run_error);
}

TEST_CASE("print: percentiles without ten samples beyond them are marked") {
  const std::string text = results_text(
      document_with({distribution_us("wakeup_latency_us", microseconds({10, 20, 30}))}), table::style::aligned);
  CHECK(text.find("20.00?") != std::string::npos);
  CHECK(text.find("wakeup_latency_us") != std::string::npos);
}

TEST_CASE("print: repeated runs are listed singly, then median, range and spread") {
  auto d = document_with({figure("loops_per_s", 10.0, direction::higher)});
  for (const double v : {30.0, 20.0}) {
    d.cases[0].runs.push_back(d.cases[0].runs[0]);
    d.cases[0].runs.back().metrics = {figure("loops_per_s", v, direction::higher)};
  }
  const std::string text = results_text(d, table::style::markdown);
  CHECK(text.find("| base 3 | 20.00 |") != std::string::npos);
  CHECK(text.find("| base median | 20.00 |") != std::string::npos);
  CHECK(text.find("| min | 10.00 |") != std::string::npos);
  CHECK(text.find("| max | 30.00 |") != std::string::npos);
  CHECK(text.find("| std % | 50.00 |") != std::string::npos);
  CHECK(results_text(d, table::style::csv).find("base,3,1,loops_per_s,20,") != std::string::npos);
}

TEST_CASE("table: columns line up whatever bytes a character takes") {
  table t({"<name", "µs"});
  t.row({"ä", "1"});
  t.row({"bb", "10"});
  CHECK(t.text() == "name  µs\nä      1\nbb    10\n");
  CHECK(t.text(table::style::csv) == "name,µs\nä,1\nbb,10\n");
  CHECK(t.text(table::style::markdown) == "| name | µs |\n|---|---:|\n| ä | 1 |\n| bb | 10 |\n");
}

TEST_CASE("table: a comma or a quote in a csv cell is quoted") {
  table t({"<a"});
  t.row({"x,\"y\""});
  CHECK(t.text(table::style::csv) == "a\n\"x,\"\"y\"\"\"\n");
}

TEST_CASE("statistics: median, mean and relative deviation") {
  const double values[] = {1, 4, 2, 3};
  CHECK(median(values) == 2.5);
  CHECK(median(std::span(values, 3)) == 2.0);
  CHECK(mean(values) == 2.5);
  CHECK(std_pct(values).value() == doctest::Approx(51.64).epsilon(0.001));
  CHECK_FALSE(median({}));
  CHECK_FALSE(std_pct(std::span(values, 1)));
}
