// What a level of the domain tree tolerates and how often it is looked at (policy-reference 1.3, 7.1, 7.8).
#pragma once

#include <cstdint>

#include "affinity/domains.h"
#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

struct level_constants {
  uint64_t imbalance_pct;     // a difference below this is noise
  uint64_t cache_nice_tries;  // failed attempts before cache-hot fibers may move
  uint64_t min_interval;      // in units of balance_unit_ns
  uint64_t max_interval;
};
level_constants constants_of(const sched_domain& level, const settings& set) noexcept;

// An interval stops growing here even where every fiber is pinned.
inline constexpr uint64_t max_pinned_interval = 512;

// `base`: the level's present interval in units. A busy CPU looks less often, and a tick early, so that the levels of a
// CPU drift apart.
nanos interval_of(uint64_t base, bool busy, size_t cpu_count, const settings& set) noexcept;

// After a pass that found nothing to move.
uint64_t grown_interval(uint64_t base, bool all_pinned, const level_constants& level) noexcept;

}  // namespace heddle::core
