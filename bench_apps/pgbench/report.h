// What a run of pgbench found, as a result and in the original's layout; and what must hold at its end.
#pragma once

#include <array>
#include <string>

#include "bench_apps/common/result.h"
#include "bench_apps/pgbench/client.h"

namespace heddle::bench::pgbench {

// The sums of a run, from all dispatchers and sessions.
struct totals {
  client_statistics clients;
  session_statistics sessions;
  flush_statistics flushes;
  nanos connected{0};  // how long connecting took
  nanos window{0};     // when recording began

  void add(const client_statistics& c);
  void add(const session_statistics& s);
};

// The books of the database when everybody has gone home.
struct books {
  std::array<int64_t, locked_tables> balances{};
  int64_t history_sum = 0;
  int64_t history_rows = 0;
  bool locks_held = false;
};

run_result make_result(const pgbench_options& options, const totals& all);
// Sums of all tables equal, a history row for every committed transaction, Little's law; else the result has failed.
void check_result(const pgbench_options& options, const totals& all, const books& found, run_result& result);

std::string original_layout(const pgbench_options& options, const run_result& result);

}  // namespace heddle::bench::pgbench
