// UTIL_EST (policy-reference 2): what a fiber's utilisation was when it last went to sleep, so that a long sleep does not make a
// busy fiber look small. Matters only where CPUs differ in capacity. Rises at once, falls by a quarter of the difference per sleep.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/settings.h"

namespace heddle::core {

constexpr uint32_t next_util_est(uint32_t estimate, uint32_t at_sleep) noexcept {
  return at_sleep >= estimate ? at_sleep : estimate - (estimate - at_sleep) / 4;
}

// What policies compare with capacities.
inline uint32_t believed_util(const settings& set, uint32_t util_avg, uint32_t estimate) noexcept {
  return set.util_est ? std::max(util_avg, estimate) : util_avg;
}

}  // namespace heddle::core
