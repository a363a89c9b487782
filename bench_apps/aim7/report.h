// From points to result: metrics, the checks every run must pass, and the original's layout.
#pragma once

#include <string>
#include <vector>

#include "bench_apps/aim7/options.h"
#include "bench_apps/aim7/records.h"
#include "bench_apps/common/result.h"

namespace heddle::bench::aim7 {

run_result make_result(const std::vector<point>& points);

// Fails the run where a job was not done, or not all of it, or more CPU time was used than there is; adds notes.
void check_result(const aim7_options& options, const std::vector<point>& points, int cpus, run_result& result);

std::string original_layout(const run_result& result);

}  // namespace heddle::bench::aim7
