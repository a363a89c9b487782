// Small helpers for what users type: splitting, comparing in either case, numbers with units, near names. Not for hot
// paths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::core {

std::string_view trimmed(std::string_view text) noexcept;
// Parts without the blanks around them; "" has none, "a,,b" has an empty one.
std::vector<std::string_view> split(std::string_view text, char separator);
bool same_text(std::string_view a, std::string_view b) noexcept;  // either case
bool starts_with_text(std::string_view text, std::string_view prefix) noexcept;

// Exact: no floating point, "1.5us" is 1500; nullopt for anything else, what does not fit and fractions of the base
// unit.
std::optional<int64_t> parse_integer(std::string_view text);                                // "-5", "1000", "1'000"
std::optional<int64_t> parse_duration_ns(std::string_view text, int64_t bare_unit_ns = 1);  // ns us ms s m h d
std::optional<int64_t> parse_bytes(std::string_view text);  // B KiB MiB GiB K M G KB MB GB

// Those of `names` that `wrong` may have meant, best first, at most `most`.
std::vector<std::string> near_names(std::string_view wrong, const std::vector<std::string>& names, size_t most = 3);

}  // namespace heddle::core
