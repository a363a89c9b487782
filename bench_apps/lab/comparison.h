// From figures of runs to statements: for every metric and case against the baseline, by how much, how sure. Pure: knows
// neither apps nor how the runs were made.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_apps/common/result.h"
#include "bench_apps/lab/statistics.h"

namespace heddle::bench::lab {

// One figure of every run of a case, in the order of the blocks.
struct series {
  std::string metric;     // "latency_us"
  std::string statistic;  // "p99"; empty for a single figure
  direction better = direction::lower;
  bool primary = false;
  bool trusted = true;  // a percentile with at least 10 samples beyond it, in every run
  std::vector<std::optional<double>> values;

  std::string name() const { return statistic.empty() ? metric : metric + "." + statistic; }
  bool tail() const { return statistic == "p99" || statistic == "p99.5" || statistic == "p99.9" || statistic == "max"; }
};

// All figures of a case's runs. `primary` names the app's metric; of a distribution its median is meant.
std::vector<series> series_of(const std::vector<run_result>& runs, std::string_view primary);

struct compared_case {
  std::string name;
  std::string vary;  // the point it was run at
  std::vector<series> figures;
};

enum class verdict { better, worse, same, unknown };  // same: cannot be told apart; unknown: too few runs
std::string_view name_of(verdict v);

struct comparison_row {
  std::string metric;
  std::string case_name;
  std::string vary;
  bool primary = false;
  bool trusted = true;
  spread base, other;  // mean and relative deviation
  size_t n = 0;        // blocks (pairs), or runs of the smaller side
  std::optional<double> difference_pct;
  interval interval_pct;
  std::optional<double> raw_p, p;  // p: of all rows but the primary metric's, corrected after Holm
  verdict says = verdict::unknown;
};

// A tail, run by run.
struct tail_list {
  std::string metric;
  std::string case_name;
  std::string vary;
  std::vector<double> base, other;
  outside beyond;
};

struct comparison {
  std::vector<comparison_row> rows;
  std::vector<tail_list> tails;
};

enum class pairing { blocks, none };

// Every case against the first one with the same `vary`.
comparison compare_cases(const std::vector<compared_case>& cases, pairing how, uint64_t seed);

nlohmann::ordered_json to_json(const comparison& c);

// The worst significant worsening in percent; 0 without one.
double worst_pct(const comparison& c);

}  // namespace heddle::bench::lab
