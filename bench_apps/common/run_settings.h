// The settings of a run: what the environment and the options say, checked once and shown in headers and result files.
#pragma once

#include <string>

#include "bench_apps/common/result.h"
#include "runtime/base/settings_list.h"

namespace heddle::bench {

// HEDDLE_SETTINGS, then `list` (options or a case). usage_error for what the grammar refuses.
core::chosen_settings choose_settings(const std::string& list);

// A value as JSON: a toggle as a boolean, a number as itself, everything else as its text.
ordered_json setting_json(const core::setting_row& row, int64_t value);

// preset, changed and settings of a result file.
void record_settings(run_result& result, const core::chosen_settings& chosen);

// "default", or "k6.12 (environment), wake_affine=off (option)".
std::string show_settings(const core::chosen_settings& chosen);

}  // namespace heddle::bench
