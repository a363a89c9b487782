// A result document as tables: one per metric with a row per run, the single figures side by side, what explains them, and
// notes; markdown has the same cells. csv is for programs: one rectangle, a row per run and metric, full figures.
#pragma once

#include <string>

#include "bench_apps/common/result.h"
#include "bench_apps/common/table.h"

namespace heddle::bench {

// On a virtual machine what the process spent says nothing of the run, and equal runs must print alike.
bool simulated(const run_result& run);

std::string results_text(const result_document& document, table::style style);

}  // namespace heddle::bench
