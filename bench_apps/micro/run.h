// Rounds into a run: every family once per round, so that a slow drift of the machine meets all of them alike; then the median
// of each figure, its range, and its target on this machine.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench_apps/micro/figure.h"
#include "bench_apps/micro/selection.h"

namespace heddle::bench::micro {

struct plan {
  selection only;
  int64_t rounds = 5;
  int64_t live = 1'000'000;
  size_t workers = 1;          // for figures whose definition does not fix them
  bool fixed = true;           // include the figures whose definition does
  std::vector<int> cpus = {};  // OS ids
  std::string settings = {};
  uint64_t seed = 1;
  int64_t part = 1;  // one part in so many of the usual work: a glance, and tests
};

// What came out of one figure.
struct outcome {
  figure_info info;
  std::vector<double> values;  // one per round, ascending
  double median = 0;
  std::optional<double> cpu_ns_per_op;
  // Of the reference machine, moved here by the anchor of the same run.
  std::optional<double> limit_here;
  std::optional<double> target_here;

  bool holds() const;  // its target; true where there is none
};

struct outcomes {
  std::vector<outcome> figures;  // in the order of the table
  std::vector<std::string> notes;
};

// min, max, rounds, cpu_ns_per_op, limit, target, meets_target: what a result file says of a figure beside its value.
ordered_json range_json(const outcome& o);

// `begin` hears what is measured now, for the progress line. Ends early, with what there is, when a stop was requested.
outcomes run_rounds(const plan& p, const std::function<void(const std::string&)>& begin);

}  // namespace heddle::bench::micro
