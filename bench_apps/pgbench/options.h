// pgbench's options, with the letters of the original.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_apps/common/arguments.h"
#include "bench_apps/pgbench/script.h"

namespace heddle::bench {

struct pgbench_options {
  int64_t clients = 1;          // -c
  int64_t dispatchers = 1;      // -j
  int64_t scale = 1;            // -s
  int64_t transactions = 0;     // -t, of each client; 0: not given
  nanos runtime{0};             // -T; 0: not given
  bool select_only = false;     // -S
  bool simple_update = false;   // -N
  std::string mode = "simple";  // -M
  double rate = 0;              // -R, transactions per second over all clients; 0: closed loop
  double latency_limit_ms = 0;  // -L; 0: none
  int64_t progress_s = 0;       // -P; 0: none
  bool per_statement = false;   // -r
  bool no_vacuum = false;       // -n, accepted: there is nothing to vacuum
  std::string transport = "chan";
  nanos statement_cpu{0};     // --statement-us, or the query mode's default
  std::string flush = "off";  // off or a duration
  nanos flush_time{0};        // what that says

  pgbench::script_kind script() const;
  pgbench::query_mode queries() const;
  bool by_time() const { return runtime.count() > 0; }

  void declare(arguments& args);
  void check();
  nlohmann::ordered_json json() const;

 private:
  nanos statement_cpu_given_{-1};  // -1: not given
};

}  // namespace heddle::bench
