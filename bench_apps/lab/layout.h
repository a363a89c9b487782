// A comparison as text: in the manner of kernel list mails, as a plain table with intervals, for spreadsheets, for web
// pages, or as Go's benchstat prints it.
#pragma once

#include <string>

#include "bench_apps/lab/comparison.h"

namespace heddle::bench::lab {

// `format`: lkml, table, csv, markdown or benchstat. `base` is the baseline's name.
std::string rows_text(const comparison& c, const std::string& base, const std::string& format);

// Every run of the tail metrics, and how many lie beyond the baseline's range.
std::string tails_text(const comparison& c, const std::string& base);

}  // namespace heddle::bench::lab
