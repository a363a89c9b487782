// From records to result: metrics, counters, the checks every run must pass, and the original's layout.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "bench_apps/common/result.h"
#include "bench_apps/schbench/roles.h"

namespace heddle::bench::schbench {

struct window {
  nanos begin{0};
  nanos end{0};
  std::vector<double> rate_samples;  // v1: requests in each full second
  uint64_t requests = 0;             // v1: over the window
  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};

// All roles' records together.
struct totals {
  histogram latency[distance_count];
  histogram burst, run, request, overshoot;
  uint64_t loops = 0, dropped = 0, bursts = 0, wakes = 0, out_of_order = 0;
  uint64_t workers = 0;
  uint64_t loops_min = std::numeric_limits<uint64_t>::max(), loops_max = 0;  // of one worker
  double cycle_ns = 0;
  double cut_ns = 0;  // time of workers inside the window that no recorded cycle covers

  void add(const worker_records& r, const window& recorded);
  void add(const message_records& r);
  histogram all_latency() const;
};

run_result make_result(const schbench_options& options, const totals& all, const window& recorded);

// Adds a note for what weakens the figures, and fails the run where its structure is broken.
void check_result(const schbench_options& options, const totals& all, const window& recorded, int cpus,
                  run_result& result);

std::string original_layout(const schbench_options& options, const run_result& result);

}  // namespace heddle::bench::schbench
