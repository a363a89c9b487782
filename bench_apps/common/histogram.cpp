#include "bench_apps/common/histogram.h"

#include <algorithm>
#include <cmath>

namespace heddle::bench {

void histogram::merge(const histogram& other) {
  if (other.samples_ == 0) return;
  for (size_t g = 0; g < group_count; g++) {
    if (!other.groups_[g]) continue;
    if (!groups_[g]) groups_[g] = std::make_unique<counts>();
    for (size_t i = 0; i < group_size; i++) (*groups_[g])[i] += (*other.groups_[g])[i];
  }
  min_ = samples_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = samples_ == 0 ? other.max_ : std::max(max_, other.max_);
  samples_ += other.samples_;
  clamped_ += other.clamped_;
  sum_ += other.sum_;
  squares_ += other.squares_;
}

std::optional<double> histogram::mean_ns() const noexcept {
  if (samples_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(samples_);
}

std::optional<double> histogram::stddev_ns() const noexcept {
  if (samples_ == 0) return std::nullopt;
  const double n = static_cast<double>(samples_);
  const double mean = sum_ / n;
  // Cancellation can leave a tiny negative where all samples are equal.
  return std::sqrt(std::max(0.0, squares_ / n - mean * mean));
}

std::optional<int64_t> histogram::min_ns() const noexcept { return samples_ == 0 ? std::nullopt : std::optional(min_); }

std::optional<int64_t> histogram::max_ns() const noexcept { return samples_ == 0 ? std::nullopt : std::optional(max_); }

std::pair<uint64_t, uint64_t> histogram::bounds(size_t index) noexcept {
  if (index < 2 * group_size) return {index, index};
  const size_t shift = index / group_size - 1;
  const uint64_t mantissa = index % group_size + group_size;
  return {mantissa << shift, ((mantissa + 1) << shift) - 1};
}

std::optional<double> histogram::percentile_ns(double percent) const noexcept {
  if (samples_ == 0) return std::nullopt;
  // 99.9 has no exact double; without the slack 10 000 samples would ask for the 9991st.
  const double wanted = (percent / 100 - 1e-12) * static_cast<double>(samples_);
  uint64_t seen = 0;
  for (size_t g = 0; g < group_count; g++) {
    if (!groups_[g]) continue;
    for (size_t i = 0; i < group_size; i++) {
      seen += (*groups_[g])[i];
      if (seen == 0 || static_cast<double>(seen) < wanted) continue;
      const auto [low, high] = bounds(g * group_size + i);
      const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
      return std::clamp(middle, static_cast<double>(min_), static_cast<double>(max_));
    }
  }
  return static_cast<double>(max_);
}

bool histogram::trusted(double percent) const noexcept {
  // Rounding in 1 - p/100 must not turn 10 000 samples at 99.9 into too few.
  return static_cast<double>(samples_) * (100 - percent) / 100 >= 10 - 1e-6;
}

std::vector<histogram::bucket> histogram::buckets() const {
  std::vector<bucket> all;
  for (size_t g = 0; g < group_count; g++) {
    if (!groups_[g]) continue;
    for (size_t i = 0; i < group_size; i++)
      if (const uint64_t n = (*groups_[g])[i])
        all.push_back({static_cast<int64_t>(bounds(g * group_size + i).second), n});
  }
  return all;
}

}  // namespace heddle::bench
