// What stands around a run: the CPU time and switches it cost this process, and whether somebody else disturbed it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_apps/common/app.h"

namespace heddle::bench {

// System-wide CPU time so far, from /proc/stat; all zero where there is none.
struct system_times {
  double busy_s = 0;
  double steal_s = 0;
  int cpus = 0;
};
system_times read_system_times();

// Sentences about CPU time others used (over 2 % of cpus x wall) and stolen time (over 1 %) between two readings.
std::vector<std::string> disturbances(const system_times& before, const system_times& after, double own_cpu_s,
                                      double wall_s);

// app.run() with `spent` and `disturbances` filled in, and a failure turned into a failed result.
run_result run_measured(app& what, const run_request& request);

}  // namespace heddle::bench
