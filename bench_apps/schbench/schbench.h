// schbench: message roles wake bursts of workers that think and report back; what counts is how long a woken worker waits
// for a CPU. The scenario of docs/bench-reference.md, section 1, as an app.
#pragma once

#include "bench_apps/common/app.h"

namespace heddle::bench {

std::unique_ptr<app> make_schbench();

inline constexpr app_kind schbench_app{"schbench", "wake-up latency of worker groups (classic and v1)", make_schbench};

}  // namespace heddle::bench
