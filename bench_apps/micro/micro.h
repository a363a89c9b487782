// `heddle micro`: small figures, each held against what the hardware allows. A command of its own (its table, `--list`,
// `--workers 1,2`), and an app, so that `compare` can drive it.
#pragma once

#include "bench_apps/common/command.h"

namespace heddle::bench {

std::unique_ptr<app> make_micro();
int run_micro(const invocation& typed);

inline constexpr std::string_view micro_summary =
    "small figures: switch, yield, spawn, wake, ping-pong, locks, timers, load";
inline constexpr app_kind micro_app{.name = "micro", .summary = micro_summary, .make = make_micro};
inline constexpr command micro_command{.name = "micro", .summary = micro_summary, .run = run_micro};

}  // namespace heddle::bench
