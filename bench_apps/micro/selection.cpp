#include "bench_apps/micro/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/suggest.h"

namespace heddle::bench::micro {
namespace {

std::vector<std::string> figure_names() {
  std::vector<std::string> names;
  for (const chapter& c : chapters())
    for (const family* f : c.families)
      for (const figure_info& info : f->figures) names.emplace_back(info.name);
  return names;
}

}  // namespace

selection::selection(const std::string& prefixes) {
  const auto names = figure_names();
  std::istringstream words(prefixes);
  for (std::string prefix; std::getline(words, prefix, ',');) {
    const bool known =
        !prefix.empty() && std::ranges::any_of(names, [&](const auto& n) { return n.starts_with(prefix); });
    if (!known)
      throw usage_error(fmt::format("--only: '{}' is not the beginning of a figure's name{} (see heddle micro --list)",
                                    prefix, near_text(prefix, names)));
    prefixes_.push_back(prefix);
  }
}

bool selection::has(std::string_view figure) const {
  return prefixes_.empty() || figure.starts_with("anchor_") ||
         std::ranges::any_of(prefixes_, [&](const std::string& p) { return figure.starts_with(p); });
}

bool selection::has(const family& one) const {
  return std::ranges::any_of(one.figures, [this](const figure_info& f) { return has(f.name); });
}

}  // namespace heddle::bench::micro
