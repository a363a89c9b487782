// pgbench: clients send the statements of a bank's transactions to a server that has one task per connection. The built-in
// engine keeps what the original measures of a scheduler: one dispatcher wakes many sessions and is woken by each, rows
// are waited for in queues, commits in groups. The scenario of docs/bench-reference.md, section 4, as an app.
#pragma once

#include "bench_apps/common/app.h"

namespace heddle::bench {

std::unique_ptr<app> make_pgbench();

inline constexpr app_kind pgbench_app{
    "pgbench", "transactions of a small database: dispatchers, sessions, row locks, group commit", make_pgbench};

}  // namespace heddle::bench
