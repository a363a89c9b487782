// Log-linear histogram of nanoseconds: values below 512 have a bucket each, above that 256 buckets per power of two, so a
// bucket is at most 1/256 wide. One per task, written by it alone, merged when all have ended; nothing is shared while
// recording. Groups of 256 buckets are allocated when first met: a million tasks may each hold one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"

namespace heddle::bench {

using core::nanos;

class histogram {
 public:
  histogram() = default;
  histogram(const histogram& other) { merge(other); }
  histogram(histogram&&) noexcept = default;
  histogram& operator=(const histogram& other) { return *this = histogram(other); }
  histogram& operator=(histogram&&) noexcept = default;

  // Zeros are samples. What lies beyond the last bucket (2^38 ns, 274 s) counts there and in clamped(); what is negative,
  // which only a clock fault can produce, counts as 0 and in clamped().
  void record(nanos value) noexcept {
    const int64_t v = value.count();
    if (v < 0 || v > value_max) clamped_++;
    const uint64_t x = v < 0 ? 0 : static_cast<uint64_t>(v > value_max ? value_max : v);
    const size_t at = index(x);
    auto& group = groups_[at / group_size];
    if (!group) group = std::make_unique<counts>();
    (*group)[at % group_size]++;
    note(v < 0 ? 0 : v, 1);
  }
  void merge(const histogram& other);

  uint64_t samples() const noexcept { return samples_; }
  uint64_t clamped() const noexcept { return clamped_; }
  // Exact, from the samples themselves and not from buckets. Nothing without samples.
  std::optional<double> mean_ns() const noexcept;
  std::optional<double> stddev_ns() const noexcept;
  std::optional<int64_t> min_ns() const noexcept;
  std::optional<int64_t> max_ns() const noexcept;
  double sum_ns() const noexcept { return sum_; }

  // The midpoint of the smallest bucket whose cumulative count reaches percent/100 of all, kept within [min, max].
  std::optional<double> percentile_ns(double percent) const noexcept;
  // Whether enough samples lie beyond that percentile to speak of it: at least 10.
  bool trusted(double percent) const noexcept;

  struct bucket {
    int64_t upper_ns;  // the largest value it counts
    uint64_t count;
  };
  std::vector<bucket> buckets() const;  // non-empty ones, ascending

 private:
  static constexpr int mantissa_bits = 8;
  static constexpr size_t group_size = size_t{1} << mantissa_bits;
  static constexpr int top_bit = 38;
  static constexpr int64_t value_max = (int64_t{1} << top_bit) - 1;
  static constexpr size_t group_count = top_bit - mantissa_bits + 1;  // values below 512 fill the first two
  using counts = std::array<uint64_t, group_size>;

  static size_t index(uint64_t v) noexcept {
    if (v < 2 * group_size) return static_cast<size_t>(v);
    const int shift = 63 - __builtin_clzll(v) - mantissa_bits;
    return (static_cast<size_t>(shift) << mantissa_bits) + static_cast<size_t>(v >> shift);
  }
  static std::pair<uint64_t, uint64_t> bounds(size_t index) noexcept;  // inclusive
  void note(int64_t v, uint64_t n) noexcept {
    if (samples_ == 0 || v < min_) min_ = v;
    if (samples_ == 0 || v > max_) max_ = v;
    samples_ += n;
    sum_ += static_cast<double>(v);
    squares_ += static_cast<double>(v) * static_cast<double>(v);
  }

  std::array<std::unique_ptr<counts>, group_count> groups_;
  uint64_t samples_ = 0;
  uint64_t clamped_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace heddle::bench
