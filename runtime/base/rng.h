// Small seeded generator (splitmix64): the only source of chance in the runtime, always handed in by its owner, so that
// the same seed repeats the same run.
#pragma once

#include <cstdint>

namespace heddle::core {

class rng {
 public:
  explicit constexpr rng(uint64_t seed = 1) noexcept : state_(seed) {}

  constexpr uint64_t next() noexcept {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), bound > 0. Multiply-shift: the bias is below bound / 2^64.
  constexpr uint64_t below(uint64_t bound) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<wide>(next()) * bound) >> 64);
  }

  // Uniform in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace heddle::core
