// What searching before idling costs at a level, and how often it pays (policy-reference 8.2 to 8.4). Kept per CPU and
// level, written by that CPU.
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

struct newidle_level {
  nanos max_cost{0};  // of a search here, decaying
  nanos cost_stamp{0};
  // Setting ni_target: the same without what failures added.
  nanos target{0};
  nanos target_stamp{0};
  // Success-proportional sampling: `ratio` of 1024 searches are made.
  uint32_t calls = 512;
  uint32_t wins = 256;
  uint32_t ratio = 512;
  nanos ratio_stamp{0};
};

// What a cache refill costs, where a cost of time is asked for: the setting's "always hot" is none.
nanos cost_floor(const settings& set) noexcept;

// After a search of this length.
void note_cost(newidle_level& level, nanos cost, bool got, nanos now, const settings& set) noexcept;
// The old maximum loses a little once per ni_decay_period_ns. True when it did.
bool decay_cost(newidle_level& level, nanos now, const settings& set) noexcept;

// What the gates compare with the idle time.
nanos gate_cost(const newidle_level& level, const settings& set) noexcept;

// Shall this level be searched? `dice` is uniform in 0..1023. The reward is what a success then counts for, so that
// rare searches estimate the rate without bias; 0: not admitted.
uint32_t admission_reward(const newidle_level& level, uint32_t dice, const settings& set) noexcept;
// A search that was made (reward or 0) or was diced away (0).
void note_result(newidle_level& level, uint32_t reward, nanos now, const settings& set) noexcept;

}  // namespace heddle::core
