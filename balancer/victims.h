// Whom a thief without a map asks, and for how much: plain work stealing, the control that the domain-wise search is
// measured against (settings victims, steal_amount).
#pragma once

#include <cstdint>
#include <span>

#include "affinity/board.h"
#include "runtime/base/settings.h"

namespace heddle::core {

// The first CPU with movable work, circularly from a random one; none where there is no such CPU.
cpu_id random_victim(const board& state, cpu_id me, uint64_t random, std::span<const cpu_id> excluded) noexcept;

// Of so many movable fibers. Half rounds up: one is worth taking.
uint32_t steal_count(const settings& set, uint32_t movable) noexcept;

}  // namespace heddle::core
