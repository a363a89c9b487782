// "Did you mean": the known names nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bench {

// Names within two edits (fewer for short words) or that begin with `word`, best first, at most three.
std::vector<std::string> nearest(std::string_view word, std::span<const std::string> names);

// "; near: --repeat, --report", or nothing.
std::string near_text(std::string_view word, std::span<const std::string> names);

}  // namespace heddle::bench
