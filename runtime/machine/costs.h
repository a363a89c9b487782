// What things cost on the virtual machine, in nanoseconds: the settings whose names begin with vm_, resolved once. Where the
// figures come from stands in costs.cpp, one profile at a time.
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
  int64_t wake_waker;                // of these, what the waker itself pays
  int64_t wake_polling;              // a push seen by a cpu that polls
};

machine_costs costs_of(const settings& rule) noexcept;

}  // namespace heddle::core
