// The order of a wake-up's placement (policy-reference 3.1), and nothing but the order. Its parts: wake_wide (is the relation
// too wide to pull?), wake_affine (waker's CPU or the previous one?), idle_search (a free CPU around that), slow_path.
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

// Where the wakee goes. Counts the wake in w.waker_memory even if the answer is forced.
placement place_wakeup(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                       const wakeup& w) noexcept;

// The CPU `lost` seemed free, and another waker claimed it first: search again around it. Weighs and counts nothing twice.
placement search_again(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                       const wakeup& w, const placement& lost) noexcept;

// Design 2b, rule 6: may the wakee simply take the slot of the waker's CPU? Reads no board: this precedes every placement and is a
// few nanoseconds of a wake-up that costs twenty. A waker that runs long would make the wakee wait for it.
inline bool defers(const settings& set, const topology& machine, cpu_id waker, cpu_id prev, const cpu_set* allowed,
                   nanos waker_mean_segment) noexcept {
  if (!set.wake_defer || waker_mean_segment.count() > set.defer_max_ns) return false;
  if (!allowed_on(allowed, waker)) return false;
  return waker == prev || (set.wake_affine && machine.distance(waker, prev) <= set.numa_reclaim_distance);
}

}  // namespace heddle::core
