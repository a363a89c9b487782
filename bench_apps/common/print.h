// A result document as tables: one per metric with a row per run, the single figures side by side, what explains them, and
// notes. For people first; csv and markdown carry the same cells.
#pragma once

#include <string>

#include "bench_apps/common/result.h"
#include "bench_apps/common/table.h"

namespace heddle::bench {

std::string results_text(const result_document& document, table::style style);

}  // namespace heddle::bench
