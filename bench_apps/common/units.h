// Numbers as people type and read them: `500us`, `30s`, `64KiB`, `1e6`. Parsing is exact and refuses what does not fit;
// printing picks the unit that keeps the number short.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/ids.h"

namespace heddle::bench {

using core::nanos;

// A decimal number with an optional unit (ns us ms s m h d); a bare number is in `bare`. Rounded to whole nanoseconds;
// nothing where the text is not a duration or does not fit.
std::optional<nanos> parse_duration(std::string_view text, nanos bare);

// Bytes: B, kB MB GB (powers of 1000), KiB MiB GiB and K M G (powers of 1024); a bare number counts `bare` bytes.
std::optional<int64_t> parse_size(std::string_view text, int64_t bare);

// A whole number; `1e6` is one, `1.5` is not.
std::optional<int64_t> parse_count(std::string_view text);

// A finite decimal number.
std::optional<double> parse_real(std::string_view text);

std::string show_duration(nanos value);  // "1.5ms", "30s", "30d": exact or rounded to four digits
std::string show_size(int64_t bytes);    // "64KiB"
std::string show_number(double value);   // four significant digits, no exponent between 1e-4 and 1e15

}  // namespace heddle::bench
