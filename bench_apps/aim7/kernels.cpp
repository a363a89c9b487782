#include "bench_apps/aim7/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/base/rng.h"

namespace heddle::bench::aim7 {
namespace {

// The compiler may neither know the value nor leave out how it came about.
template <class T>
void opaque(T& value) {
  asm volatile("" : "+m"(value)::);
}
void keep(uint64_t& value) { asm volatile("" : "+r"(value)); }

uint64_t mix(uint64_t digest, uint64_t value) { return (std::rotl(digest, 5) ^ value) * 0x9e3779b97f4a7c15u; }

}  // namespace

uint64_t add_long(uint64_t times) noexcept {
  uint64_t x = 0;
  for (uint64_t i = 0; i < times; i++) {
    x += i;
    keep(x);
  }
  return x;
}

// Sums, products and quotients of floating point may not be reordered, so these chains stay as written.
uint64_t add_double(uint64_t times) noexcept {
  double x = 1, step = 0.1;
  opaque(step);
  for (uint64_t i = 0; i < times; i++) x += step;
  return std::bit_cast<uint64_t>(x);
}

uint64_t multiply_long(uint64_t times) noexcept {
  uint64_t x = 1;
  for (uint64_t i = 0; i < times; i++) {
    x = x * 2862933555777941757u + i;
    keep(x);
  }
  return x;
}

uint64_t multiply_double(uint64_t times) noexcept {
  double x = 1, factor = 1.0000001;  // far from infinity after any number of times that is asked for
  opaque(factor);
  for (uint64_t i = 0; i < times; i++) x *= factor;
  return std::bit_cast<uint64_t>(x);
}

uint64_t divide_long(uint64_t times) noexcept {
  uint64_t x = 1, divisor = 10;
  opaque(divisor);
  for (uint64_t i = 0; i < times; i++) {
    x = (x | uint64_t{1} << 62) / divisor + i;
    keep(x);
  }
  return x;
}

uint64_t divide_double(uint64_t times) noexcept {
  double x = 1e9, divisor = 1.0000001;
  opaque(divisor);
  for (uint64_t i = 0; i < times; i++) x /= divisor;
  return std::bit_cast<uint64_t>(x);
}

uint64_t sieve(uint64_t times) {
  constexpr size_t limit = 1'000'000;
  uint64_t found = 0;
  for (uint64_t t = 0; t < times; t++) {
    std::vector<char> composite(limit, 0);
    for (size_t i = 2; i < limit; i++) {
      if (composite[i]) continue;
      found++;
      for (size_t j = i * i; j < limit; j += i) composite[j] = 1;
    }
  }
  return found;
}

uint64_t sort(uint64_t times) {
  core::rng random(7);
  uint64_t digest = 1;
  for (uint64_t t = 0; t < times; t++) {
    std::vector<uint32_t> numbers(10'000);
    for (auto& n : numbers) n = static_cast<uint32_t>(random.next());
    std::sort(numbers.begin(), numbers.end());
    if (!std::is_sorted(numbers.begin(), numbers.end())) return 0;
    digest = mix(digest, std::accumulate(numbers.begin(), numbers.end(), uint64_t{0}));
  }
  return digest;
}

namespace {

// Gauss elimination of a system that its diagonal dominates, whose solution is all ones; how far off that came out.
constexpr size_t side = 60;
double solve_once(core::rng& random) {
  using row = std::array<double, side + 1>;
  const auto m = std::make_unique<std::array<row, side>>();
  for (size_t i = 0; i < side; i++) {
    for (size_t j = 0; j < side; j++) (*m)[i][j] = random.unit() + (i == j ? static_cast<double>(side) : 0.0);
    (*m)[i][side] = std::accumulate((*m)[i].begin(), (*m)[i].begin() + side, 0.0);
  }
  for (size_t k = 0; k < side; k++)
    for (size_t i = k + 1; i < side; i++) {
      const double factor = (*m)[i][k] / (*m)[k][k];
      for (size_t j = k; j <= side; j++) (*m)[i][j] -= factor * (*m)[k][j];
    }
  double off = 0;
  for (size_t i = side; i-- > 0;) {
    double rest = (*m)[i][side];
    for (size_t j = i + 1; j < side; j++) rest -= (*m)[i][j] * (*m)[j][side];
    (*m)[i][side] = rest / (*m)[i][i];
    off = std::max(off, std::fabs((*m)[i][side] - 1));
  }
  return off;
}

}  // namespace

uint64_t solve(uint64_t times) {
  core::rng random(11);
  for (uint64_t t = 0; t < times; t++)
    if (solve_once(random) > 1e-9) return 0;
  return times + 1;
}

uint64_t transform(uint64_t times) {
  struct point {
    double x, y, z;
  };
  std::vector<point> points(1000);
  for (size_t i = 0; i < points.size(); i++) points[i] = {static_cast<double>(i), 1.0, 2.0};
  const double c = 0.8, s = 0.6;  // a turn about z: lengths stay
  for (uint64_t t = 0; t < times; t++)
    for (point& p : points) p = {c * p.x - s * p.y, s * p.x + c * p.y, p.z * 0.5 + 1.0};
  uint64_t digest = 1;
  for (const point& p : points) digest = mix(digest, std::bit_cast<uint64_t>(p.x + p.y + p.z));
  return digest;
}

uint64_t strings(uint64_t times) {
  uint64_t digest = 1;
  for (uint64_t t = 0; t < times; t++) {
    std::string text;
    for (uint64_t word = 0; text.size() < 1024; word++) text += std::to_string(word * 7919 + t) + ' ';
    const std::string other(text.rbegin(), text.rend());
    digest = mix(digest, text.find(" 99") + (text.compare(other) < 0 ? 1 : 0) + text.size());
  }
  return digest;
}

uint64_t blocks(uint64_t times) {
  core::rng random(13);
  uint64_t digest = 1;
  for (uint64_t t = 0; t < times; t++) {
    std::array<std::unique_ptr<char[]>, 64> kept;
    for (auto& block : kept) {
      const size_t bytes = 16 + random.below(8192 - 16);
      block = std::make_unique_for_overwrite<char[]>(bytes);
      block[0] = block[bytes - 1] = static_cast<char>(bytes);
      digest = mix(digest, bytes);
    }
    for (size_t i = 0; i < kept.size(); i++) kept[i * 37 % kept.size()].reset();
  }
  return digest;
}

uint64_t copy(uint64_t times) {
  constexpr size_t bytes = size_t{1} << 20;
  const auto from = std::make_unique<char[]>(bytes), to = std::make_unique<char[]>(bytes);
  uint64_t digest = 1;
  for (uint64_t t = 0; t < times; t++) {
    from[t % bytes] = static_cast<char>(t + 1);
    std::memcpy(to.get(), from.get(), bytes);
    digest = mix(digest, static_cast<uint64_t>(static_cast<unsigned char>(to[t % bytes])));
  }
  return digest;
}

}  // namespace heddle::bench::aim7
