// Figures over repeated runs.
#pragma once

#include <optional>
#include <span>

namespace heddle::bench {

std::optional<double> median(std::span<const double> values);
std::optional<double> mean(std::span<const double> values);
// Relative standard deviation (n - 1) in percent of the mean; nothing for fewer than two values or a mean of zero.
std::optional<double> std_pct(std::span<const double> values);

}  // namespace heddle::bench
