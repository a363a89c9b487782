// The two quantities that are mixed up most easily, as types of their own, so that a swapped argument does not compile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace heddle::core {

// Dense index of a hardware thread inside one topology: 0 .. cpu_count-1. What users see is topology::os_id().
enum class cpu_id : int32_t { none = -1 };

constexpr size_t index_of(cpu_id cpu) noexcept { return static_cast<size_t>(cpu); }
constexpr cpu_id to_cpu(size_t index) noexcept { return static_cast<cpu_id>(index); }
constexpr bool valid(cpu_id cpu) noexcept { return cpu != cpu_id::none; }

// Instants (since the machine's epoch) and durations alike.
using nanos = std::chrono::nanoseconds;
inline constexpr size_t cache_line_bytes = 64;
constexpr nanos never = nanos::max();

// A deadline far in the future must not wrap into the past.
constexpr nanos saturating_add(nanos at, nanos by) noexcept {
  int64_t sum = 0;
  if (__builtin_add_overflow(at.count(), by.count(), &sum)) return by.count() > 0 ? never : nanos::min();
  return nanos{sum};
}

}  // namespace heddle::core
