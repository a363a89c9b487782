#include "bench_apps/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace heddle::bench {

std::optional<double> median(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

std::optional<double> mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> std_pct(std::span<const double> values) {
  const auto average = mean(values);
  if (values.size() < 2 || *average == 0) return std::nullopt;
  double squares = 0;
  for (const double v : values) squares += (v - *average) * (v - *average);
  return std::sqrt(squares / static_cast<double>(values.size() - 1)) / std::fabs(*average) * 100;
}

}  // namespace heddle::bench
