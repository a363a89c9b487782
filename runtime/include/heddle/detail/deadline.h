// Durations and time points of any clock as a deadline in nanoseconds on the machine's clock. What lies beyond 292 years is for ever,
// what is not after now is over: both would overflow in nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace heddle::detail {

int64_t deadline_after(std::chrono::nanoseconds how_long) noexcept;  // saturating

template <class Rep, class Period>
int64_t deadline_in(const std::chrono::duration<Rep, Period>& d) {
  if (!(d > d.zero())) return 0;
  if (std::chrono::duration<double>(d).count() > 9.0e9) return std::numeric_limits<int64_t>::max();
  return deadline_after(std::chrono::ceil<std::chrono::nanoseconds>(d));
}

template <class Clock, class Duration>
int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& t) {
  const auto now = Clock::now();
  return t > now ? deadline_in(t - now) : 0;
}

}  // namespace heddle::detail
