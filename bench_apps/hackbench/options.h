// hackbench's options, with the letters of the original.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_apps/common/arguments.h"

namespace heddle::bench {

struct hackbench_options {
  int64_t groups = 10;                // -g
  int64_t fan = 20;                   // -f: senders of a group, and as many receivers
  int64_t rounds = 100;               // -l: each a message to every receiver
  int64_t message_bytes = 100;        // -s
  std::string transport = "chan";     // --transport, -p
  int64_t capacity_bytes = 64 << 10;  // of a chan: a pipe's
  bool no_stamps = false;             // no clock reads per message, so no latency
  bool pipe_flag = false;
  bool threads_flag = false;

  bool chan() const { return transport == "chan"; }
  int64_t task_count() const { return groups * fan * 2; }
  int64_t messages_per_receiver() const { return fan * rounds; }
  int64_t message_count() const { return groups * fan * messages_per_receiver(); }
  // The first bytes of a message say who it is where it surely arrives in one piece: up to PIPE_BUF, or by chan.
  bool tagged() const;
  bool stamped() const { return tagged() && !no_stamps; }

  void declare(arguments& args);
  void check();  // refuses combinations
  nlohmann::ordered_json json() const;
};

}  // namespace heddle::bench
