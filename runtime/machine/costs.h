// What things cost on the virtual machine, in nanoseconds: the settings of that name, resolved once. Where the figures come from
// stands in costs.cpp, one profile at a time.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/settings.h"
#include "runtime/machine/machine.h"

namespace heddle::core {

struct machine_costs {
  std::array<int64_t, op_count> op;  // a scheduling point of each kind, the switch included where there is one
  int64_t poll_least;                // the first rounds of a wait loop
  int64_t poll_most;                 // longest time between two rounds of a patient poller
  int64_t relax_most;                // longest time between two rounds of another wait loop
  int64_t park;                      // going to sleep
  int64_t wake_parked;               // from the waker's call to the sleeper's first instruction
  int64_t deep_idle, deep_after;     // more than that after a long sleep
  int64_t unpark;                    // what the waker itself pays
  int64_t wake_polling;              // a push seen by a cpu that polls
  int64_t line_core, line_llc, line_node, line_far;
  int64_t refill_overlap;
  uint64_t working_set_bytes, core_cache_bytes;
  int64_t smt_pct;
  int64_t tick, probe, place, balance_pass, lock;
};

machine_costs costs_of(const settings& rule) noexcept;

}  // namespace heddle::core
