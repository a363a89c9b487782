// aim7: users, each with a fixed number of fixed jobs in an order of its own, all at once; how many jobs a minute that
// makes, and how evenly the users end. The scenario of docs/bench-reference.md, section 5, as an app.
#pragma once

#include "bench_apps/common/app.h"

namespace heddle::bench {

std::unique_ptr<app> make_aim7();

inline constexpr app_kind aim7_app{
    "aim7", "users with a mix of jobs (compute, memory, IPC, files, disk): jobs per minute and fairness", make_aim7};

}  // namespace heddle::bench
