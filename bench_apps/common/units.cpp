#include "bench_apps/common/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace heddle::bench {
namespace {

struct unit {
  std::string_view name;
  int64_t scale;
};

// Finest first: show_duration() and show_size() take the last that fits.
constexpr std::array durations = {unit{"ns", 1},
                                  unit{"us", 1000},
                                  unit{"ms", 1000 * 1000},
                                  unit{"s", 1000 * 1000 * 1000},
                                  unit{"m", 60'000'000'000},
                                  unit{"h", 3'600'000'000'000},
                                  unit{"d", 86'400'000'000'000}};
constexpr std::array sizes = {unit{"B", 1}, unit{"KiB", 1 << 10}, unit{"MiB", 1 << 20}, unit{"GiB", 1 << 30}};
constexpr std::array other_sizes = {
    unit{"kB", 1000},   unit{"KB", 1000},   unit{"MB", 1000 * 1000}, unit{"GB", 1000 * 1000 * 1000},
    unit{"K", 1 << 10}, unit{"k", 1 << 10}, unit{"M", 1 << 20},      unit{"G", 1 << 30}};

struct quantity {
  long double number;
  std::string_view unit;
};

std::optional<quantity> split(std::string_view text) {
  long double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  return quantity{number, {rest, static_cast<size_t>(end - rest)}};
}

std::optional<int64_t> scaled(long double number, int64_t scale) {
  const long double product = std::round(number * static_cast<long double>(scale));
  if (std::fabs(product) >= 0x1p63L) return std::nullopt;
  return static_cast<int64_t>(product);
}

template <size_t N>
const unit* find(const std::array<unit, N>& units, std::string_view name) {
  for (const unit& u : units)
    if (u.name == name) return &u;
  return nullptr;
}

std::string trimmed(double value) {
  std::string text = fmt::format("{:.4g}", value);
  // %g turns to exponents too early for a reader; whole numbers stay whole.
  if (text.find('e') != std::string::npos && std::fabs(value) < 1e15 && std::fabs(value) >= 1)
    text = fmt::format("{:.0f}", value);
  return text;
}

template <size_t N>
std::string show(int64_t value, const std::array<unit, N>& units) {
  const unit* best = &units[0];
  for (const unit& u : units)
    if (std::llabs(value) >= u.scale) best = &u;
  // 90 s reads better than 1.5m: a coarser unit must divide the value, as soon as seconds are at hand.
  while (best != &units[0] && best->scale > 1'000'000'000 && value % best->scale != 0) --best;
  return trimmed(static_cast<double>(value) / static_cast<double>(best->scale)) + std::string(best->name);
}

}  // namespace

std::optional<nanos> parse_duration(std::string_view text, nanos bare) {
  const auto q = split(text);
  if (!q) return std::nullopt;
  int64_t scale = bare.count();
  if (!q->unit.empty()) {
    const std::string_view name = q->unit == "µs" ? "us" : q->unit == "min" ? "m" : q->unit == "sec" ? "s" : q->unit;
    const unit* u = find(durations, name);
    if (u == nullptr) return std::nullopt;
    scale = u->scale;
  }
  const auto count = scaled(q->number, scale);
  return count ? std::optional(nanos{*count}) : std::nullopt;
}

std::optional<int64_t> parse_size(std::string_view text, int64_t bare) {
  const auto q = split(text);
  if (!q) return std::nullopt;
  if (q->unit.empty()) return scaled(q->number, bare);
  const unit* u = find(sizes, q->unit);
  if (u == nullptr) u = find(other_sizes, q->unit);
  return u ? scaled(q->number, u->scale) : std::nullopt;
}

std::optional<int64_t> parse_count(std::string_view text) {
  const auto q = split(text);
  if (!q || !q->unit.empty() || q->number != std::round(q->number)) return std::nullopt;
  return scaled(q->number, 1);
}

std::optional<double> parse_real(std::string_view text) {
  const auto q = split(text);
  if (!q || !q->unit.empty()) return std::nullopt;
  return static_cast<double>(q->number);
}

std::string show_duration(nanos value) { return show(value.count(), durations); }
std::string show_size(int64_t bytes) { return show(bytes, sizes); }
std::string show_number(double value) { return trimmed(value); }

}  // namespace heddle::bench
