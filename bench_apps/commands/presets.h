// `heddle presets`: the named groups of settings, and what each changes.
#pragma once

#include <string>

#include "bench_apps/common/command.h"
#include "bench_apps/common/result.h"

namespace heddle::bench {

int run_presets_command(const invocation& typed);
inline constexpr command presets_command{"presets", "named groups of settings and what each changes",
                                         run_presets_command};

std::string presets_text();
ordered_json presets_json();

}  // namespace heddle::bench
