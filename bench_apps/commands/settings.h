// `heddle settings`: every setting with its value, defaults, range and who set it. Also as JSON (docs/cli.md) and as the
// markdown table that docs/settings.md is made of.
#pragma once

#include <string>

#include "bench_apps/common/command.h"
#include "bench_apps/common/result.h"
#include "runtime/base/settings_list.h"

namespace heddle::bench {

int run_settings_command(const invocation& typed);
inline constexpr command settings_command{"settings", "every setting: value, defaults, range, unit, source, meaning",
                                          run_settings_command};

std::string settings_text(const core::chosen_settings& chosen);
std::string settings_markdown();
ordered_json settings_json(const core::chosen_settings& chosen);

// A value as a person reads it: "on", "v43", "10us", "auto".
std::string show_setting(const core::setting_row& row, int64_t value);

}  // namespace heddle::bench
