// Outcomes as the table people read: a chapter after the other, each figure with its range, its limit and its target here.
#pragma once

#include <string>
#include <vector>

#include "bench_apps/common/table.h"
#include "bench_apps/micro/run.h"

namespace heddle::bench::micro {

std::string micro_table(const outcomes& found, const std::vector<std::string>& disturbances, table::style style);

// Names and meanings, for --list.
std::string figure_list();

}  // namespace heddle::bench::micro
