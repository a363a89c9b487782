#include "runtime/base/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace heddle::core {
namespace {

char lower(char c) noexcept { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool digit(char c) noexcept { return c >= '0' && c <= '9'; }

struct unit {
  std::string_view name;
  int64_t factor;
};

// number := [-]digits[.digits], times the factor of the unit that follows. 128 bits, so that the product cannot wrap.
std::optional<int64_t> parse_scaled(std::string_view text, const unit* first, const unit* last, int64_t bare_factor) {
  text = trimmed(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || !digit(text[0])) return std::nullopt;

  __extension__ using wide = __int128;
  wide number = 0;
  wide below = 1;  // 10 to the power of the digits after the point
  bool fraction = false;
  size_t at = 0;
  for (; at < text.size(); at++) {
    const char c = text[at];
    if (c == '.' && !fraction && at + 1 < text.size() && digit(text[at + 1])) {
      fraction = true;
      continue;
    }
    if (c == '\'' && !fraction && at + 1 < text.size() && digit(text[at + 1])) continue;
    if (!digit(c)) break;
    if (number > INT64_MAX || below > INT64_MAX / 10) return std::nullopt;
    number = number * 10 + (c - '0');
    if (fraction) below *= 10;
  }

  int64_t factor = bare_factor;
  if (const std::string_view name = trimmed(text.substr(at)); !name.empty()) {
    const unit* found = std::find_if(first, last, [name](const unit& u) { return same_text(u.name, name); });
    if (found == last) return std::nullopt;
    factor = found->factor;
  }
  const wide product = number * factor;
  if (product % below != 0) return std::nullopt;
  const wide value = negative ? -(product / below) : product / below;
  if (value > INT64_MAX || value < -wide{INT64_MAX}) return std::nullopt;
  return static_cast<int64_t>(value);
}

// Edit distance, swapped neighbours count once: what fingers get wrong.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  std::iota(back.begin(), back.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); i++) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      const size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[b.size()];
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (trimmed(text).empty()) return parts;
  for (size_t from = 0;;) {
    const size_t to = text.find(separator, from);
    parts.push_back(trimmed(text.substr(from, to == text.npos ? text.npos : to - from)));
    if (to == text.npos) return parts;
    from = to + 1;
  }
}

bool same_text(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool starts_with_text(std::string_view text, std::string_view prefix) noexcept {
  return text.size() >= prefix.size() && same_text(text.substr(0, prefix.size()), prefix);
}

std::optional<int64_t> parse_integer(std::string_view text) { return parse_scaled(text, nullptr, nullptr, 1); }

std::optional<int64_t> parse_duration_ns(std::string_view text, int64_t bare_unit_ns) {
  static constexpr unit units[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"s", 1'000'000'000},
                                   {"m", 60'000'000'000},
                                   {"h", 3'600'000'000'000},
                                   {"d", 86'400'000'000'000}};
  return parse_scaled(text, std::begin(units), std::end(units), bare_unit_ns);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr unit units[] = {{"B", 1},          {"KiB", 1 << 10},     {"MiB", 1 << 20}, {"GiB", 1 << 30},
                                   {"K", 1 << 10},    {"M", 1 << 20},       {"G", 1 << 30},   {"KB", 1'000},
                                   {"MB", 1'000'000}, {"GB", 1'000'000'000}};
  return parse_scaled(text, std::begin(units), std::end(units), 1);
}

std::vector<std::string> near_names(std::string_view wrong, const std::vector<std::string>& names, size_t most) {
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const std::string& name : names) {
    const size_t far = distance(wrong, name);
    // A third of the name may be wrong; a beginning of three letters counts, however much is missing.
    if (far <= std::max<size_t>(1, std::min(wrong.size(), name.size()) / 3))
      near.emplace_back(far, name);
    else if (wrong.size() >= 3 && starts_with_text(name, wrong))
      near.emplace_back(name.size(), name);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> best;
  for (size_t i = 0; i < std::min(most, near.size()); i++) best.emplace_back(near[i].second);
  return best;
}

}  // namespace heddle::core
