#include "bench_apps/micro/micro_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench_apps/common/units.h"
#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {
namespace {

std::string cell(std::optional<double> value) { return value ? show_number(*value) : ""; }

// How the target was met: "yes", or how far away it is.
std::string verdict(const outcome& o) {
  if (!o.target_here) return "";
  if (o.holds()) return "yes";
  const double factor = o.info.better == direction::lower ? o.median / *o.target_here : *o.target_here / o.median;
  return factor < 1.01 ? "almost" : fmt::format("{:.2f}x off", factor);
}

std::optional<double> reference_of(std::string_view name) {
  for (const anchor_info& a : anchor_list())
    if (a.name == name) return a.reference;
  return std::nullopt;
}

std::vector<std::string> cells(const outcome& o) {
  const auto reference = reference_of(o.info.name);
  return {std::string(o.info.name),   cell(o.median),
          cell(o.values.front()),     cell(o.values.back()),
          cell(o.cpu_ns_per_op),      reference ? cell(*reference) : cell(o.limit_here),
          cell(o.target_here),        verdict(o),
          std::string(o.info.meaning)};
}

bool belongs(const chapter& c, const outcome& o) {
  return std::ranges::any_of(c.families, [&](const family* f) {
    return std::ranges::any_of(f->figures, [&](const figure_info& i) { return i.name == o.info.name; });
  });
}

std::string summary(const outcomes& found) {
  const auto judged = std::ranges::count_if(found.figures, [](const outcome& o) { return o.target_here.has_value(); });
  const auto kept = std::ranges::count_if(found.figures, [](const outcome& o) { return o.target_here && o.holds(); });
  std::string text;
  if (judged > 0)
    text +=
        fmt::format("{} of {} targets met; limits and targets moved to this machine by the anchors\n", kept, judged);
  for (const std::string& n : found.notes) text += "note: " + n + "\n";
  return text;
}

}  // namespace

std::string micro_table(const outcomes& found, const std::vector<std::string>& disturbances, table::style style) {
  table t({"<figure", "median", "min", "max", "cpu ns/op", "limit", "target", "met", "<"});
  for (const chapter& c : chapters()) {
    bool first = true;
    for (const outcome& o : found.figures) {
      if (!belongs(c, o)) continue;
      if (first && !t.empty()) t.gap();
      first = false;
      t.row(cells(o));
    }
  }
  std::string text = t.text(style);
  if (style == table::style::aligned) {
    text += "\n" + summary(found);
    for (const std::string& d : disturbances) text += "disturbed: " + d + "\n";
  }
  return text;
}

std::string figure_list() {
  std::string text;
  for (const chapter& c : chapters()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", c.title);
    for (const family* f : c.families)
      for (const figure_info& i : f->figures) text += fmt::format("  {:<20} {}\n", i.name, i.meaning);
  }
  return text;
}

}  // namespace heddle::bench::micro
