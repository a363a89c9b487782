// `heddle compare`: one app under several settings, runs interleaved in blocks, and what differs.
#pragma once

#include "bench_apps/common/command.h"

namespace heddle::bench {

int run_compare(const invocation& typed);

inline constexpr command compare_command{"compare", "one app under several settings, interleaved, and what differs",
                                         run_compare};

}  // namespace heddle::bench
