// How an average of load (policy-reference 2.2) fades while nobody adds to it. Here and not with the rest of load tracking
// (balancer/pelt.h), because placement reads the averages of parked CPUs too.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/ids.h"

namespace heddle::core::pelt {

inline constexpr uint32_t period = 1024;      // units
inline constexpr uint32_t half_life = 32;     // periods
inline constexpr uint32_t full_scale = 1024;  // the average of something that always runs

// inverse[n] = floor((2^32 - 1) * 0.5^(n / 32)).
inline constexpr std::array<uint32_t, half_life> inverse = [] {
  constexpr long double y = 0.97857206208770013450916112581343557L;  // 0.5^(1/32)
  std::array<uint32_t, half_life> table{};
  long double power = 1;
  for (uint32_t& entry : table) {
    entry = static_cast<uint32_t>(4294967295.0L * power);
    power *= y;
  }
  return table;
}();

// value * y^periods.
constexpr uint64_t decay(uint64_t value, uint64_t periods) noexcept {
  if (periods == 0) return value;
  if (periods > half_life * 63) return 0;
  __extension__ using wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<wide>(value >> (periods / half_life)) * inverse[periods % half_life]) >>
                               32);
}

// An average of a CPU that parked at `last`, as it is now: blocked members decay whether somebody updates them or not.
constexpr uint64_t aged(uint64_t average, nanos last, nanos now, int shift) noexcept {
  if (now <= last) return average;
  return decay(average, (static_cast<uint64_t>((now - last).count()) >> shift) / period);
}

}  // namespace heddle::core::pelt
