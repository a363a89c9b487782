// schbench's options, with the letters of the original.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_apps/common/arguments.h"

namespace heddle::bench {

struct schbench_options {
  std::string mode = "classic";
  std::string think = "work";
  int64_t message_roles = 0;    // -m; 0: the mode's default
  int64_t workers_each = 0;     // -t; 0: the mode's default
  nanos runtime{0};             // -r; 0: the mode's default
  nanos sleep{-1};              // -s; -1: the mode's default
  nanos think_time{-1};         // -c, classic
  int64_t pipe_bytes = 0;       // -p, classic; 0: think instead
  int64_t footprint_kib = 256;  // -F, v1
  int64_t operations = 5;       // -n, v1
  bool no_cpu_lock = false;     // -L, v1
  nanos yield_every{0};         // 0: never
  bool compat = false;          // microseconds, zeros dropped, as the original counts

  bool v1() const { return mode == "v1"; }
  bool wall() const { return think == "wall"; }
  // Three matrices of 64-bit integers fill the footprint.
  int matrix_side() const;
  int64_t worker_count() const { return message_roles * workers_each; }

  void declare(arguments& args);
  void check();  // fills in the mode's defaults, refuses combinations
  nlohmann::ordered_json json() const;
};

}  // namespace heddle::bench
