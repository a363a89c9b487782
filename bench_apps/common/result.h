// What a run found out, as values: metrics (distributions and single figures), counters, notes. And the result file made
// of them, schema 1 (docs/cli.md). Nothing here measures, prints tables or knows an app.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bench_apps/common/histogram.h"

namespace heddle::bench {

using nlohmann::ordered_json;

enum class direction { lower, higher };
enum class ending { complete, interrupted, failed };
std::string_view name_of(direction better);
std::string_view name_of(ending ended);

// A metric's name carries its unit: `wakeup_latency_us`, `loops_per_s`.
struct metric {
  std::string name;
  direction better = direction::lower;
  std::variant<histogram, std::optional<double>> value;
  double ns_per_unit = 1000;  // of a distribution: 1000 for _us
  bool detail = false;        // explains another metric; shown apart, not compared

  bool is_distribution() const { return value.index() == 0; }
  const histogram& samples() const { return std::get<histogram>(value); }
  // One figure for tables of runs and comparisons: the value, or the named statistic of the distribution (`p99`, `mean`).
  std::optional<double> figure(std::string_view statistic = "p50") const;
};
metric distribution_us(std::string name, histogram samples, direction better = direction::lower);
metric figure(std::string name, std::optional<double> value, direction better);

// The statistics of a distribution in the order of the result file; percentiles by their number.
inline constexpr std::string_view statistic_names[] = {"mean", "stddev", "min",   "p50",   "p75", "p90",
                                                       "p95",  "p99",    "p99.5", "p99.9", "max"};

// What the process paid for a run; on a virtual machine the only part that is not the machine's own.
struct resources {
  double cpu_user_s = 0;
  double cpu_sys_s = 0;
  int64_t switches_voluntary = 0;
  int64_t switches_involuntary = 0;
  std::optional<double> cpu_us_per_op;
};

struct run_result {
  uint64_t seed = 1;
  double seconds = 0;  // the recorded window, in the machine's own time
  ending ended = ending::complete;
  std::string error;            // why it failed
  std::vector<metric> metrics;  // the first is the one people look at first
  std::map<std::string, int64_t> counters;
  std::string schedstat;  // its counters in the layout of /proc/schedstat (--schedstat); no part of the result file
  std::vector<std::string> notes;    // what a reader must know to trust the figures
  std::optional<double> operations;  // what cpu_us_per_op divides by

  // Filled by whoever knows the machine: how the run was set up.
  int workers = 0;
  ordered_json machine;
  ordered_json settings = ordered_json::object();  // all of them, as they counted
  ordered_json changed = ordered_json::object();   // what differs from the preset `default`
  std::string preset = "default";
  std::string idle_policy;  // what a worker without work does

  // Filled around the run (measure.h).
  resources spent;
  std::vector<std::string> disturbances;

  const metric* find(std::string_view name) const;
};

// Runs of one configuration.
struct result_case {
  std::string name;
  std::string backend;
  ordered_json options = ordered_json::object();
  std::vector<run_result> runs;
};

struct result_document {
  std::string app;
  std::vector<std::string> command;
  std::vector<result_case> cases;
  ordered_json environment = ordered_json::object();
  ordered_json comparison;  // null without one
  ending ended = ending::complete;
  std::string error;
};

ordered_json to_json(const metric& m);
ordered_json to_json(const result_document& document);

// Asked before a long run, so that its result is not lost at the end.
bool can_write_json(const std::string& where);
// Writes the document to a file, or to stdout for "-". Throws run_error when the file cannot be written.
void write_json(const ordered_json& document, const std::string& where);
// Any text, the same way: whole or not at all.
void write_result(const std::string& text, const std::string& where);

}  // namespace heddle::bench
