// Work that waits beside idle cpus: where the nearest of them is, and for how long. Seen at ticks and at wake-ups that missed, by
// the idle marks: statistics, nobody infers anything else from them.
#pragma once

#include <optional>

#include "affinity/cpu_set.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {

// The nearest idle cpu that is allowed, if there is one. Not the queue's own.
std::optional<reach> nearest_idle(const board& said, cpu_id from, const cpu_set* allowed) noexcept;

// From the tick: what waited here since the last one, and beside whom.
void count_waiting(scheduler& s, worker& w, int64_t now) noexcept;

}  // namespace heddle::core
