// From records to result: metrics, the checks every run must pass, and the original's layout.
#pragma once

#include <map>
#include <string>

#include "bench_apps/common/result.h"
#include "bench_apps/hackbench/options.h"
#include "bench_apps/hackbench/roles.h"

namespace heddle::bench::hackbench {

// All roles' records together, and the director's clock.
struct totals {
  int64_t sent = 0, received = 0, blocked = 0, short_reads = 0, torn_bytes = 0;
  uint64_t tags_sent = 0, tags_received = 0;
  histogram latency;
  std::map<int, int64_t> by_cpu;
  nanos first_ended{core::never}, last_ended{0};  // of receivers
  std::string error;
  nanos creation{0}, run{0}, teardown{0};
  bool cut_short = false;  // by a signal: less than everything was to be sent

  void add_sender(const role_records& r);
  void add_receiver(const role_records& r);
};

run_result make_result(const hackbench_options& options, const totals& all);

// Fails the run where messages were lost, changed, or more of them under way than there was room for; adds notes for what
// weakens the figures.
void check_result(const hackbench_options& options, const totals& all, run_result& result);

std::string original_layout(const hackbench_options& options, const run_result& result);

}  // namespace heddle::bench::hackbench
