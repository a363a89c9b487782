#include "bench_apps/lab/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "bench_apps/common/table.h"

namespace heddle::bench::lab {

namespace {

std::string figure_text(double v) {
  const double size = std::fabs(v);
  return fmt::format("{:.{}f}", v, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string metric_text(const comparison_row& r) {
  return r.metric + (r.trusted ? "" : " ?") + (r.primary ? " *" : "");
}
std::string p_text(std::optional<double> p) { return p ? fmt::format("{:.3f}", *p) : "n/a"; }
std::string pct_text(std::optional<double> pct) { return pct ? fmt::format("{:+.2f}", *pct) : "-"; }

// The rows of one compared case after the other.
std::vector<std::string> case_names(const comparison& c) {
  std::vector<std::string> names;
  for (const comparison_row& r : c.rows)
    if (std::ranges::find(names, r.case_name) == names.end()) names.push_back(r.case_name);
  return names;
}

bool anything_varied(const comparison& c) {
  return std::ranges::any_of(c.rows, [](const comparison_row& r) { return !r.vary.empty(); });
}

using cells = std::vector<std::string>;

// One table per compared case; where options were varied, a metric's points stand together.
std::string per_case(const comparison& c, table::style style,
                     const std::function<cells(const std::string& name)>& headings,
                     const std::function<cells(const comparison_row&)>& row_cells) {
  std::string out;
  const bool varied = anything_varied(c);
  for (const std::string& name : case_names(c)) {
    cells head = {"<metric"};
    if (varied) head.push_back("<load");
    std::ranges::copy(headings(name), std::back_inserter(head));
    table t(head);
    std::vector<std::string> metrics;
    for (const comparison_row& r : c.rows)
      if (r.case_name == name && std::ranges::find(metrics, r.metric) == metrics.end()) metrics.push_back(r.metric);
    for (const std::string& metric : metrics) {
      for (const comparison_row& r : c.rows) {
        if (r.case_name != name || r.metric != metric) continue;
        cells row = {metric_text(r)};
        if (varied) row.push_back(r.vary);
        std::ranges::copy(row_cells(r), std::back_inserter(row));
        t.row(row);
      }
    }
    out += (out.empty() ? "" : "\n") + t.text(style);
  }
  return out;
}

std::string verdict_text(const comparison_row& r) { return std::string(name_of(r.says)); }

// The list normalises the baseline to 1.00 and gives the other side as a signed change, each with its spread.
std::string lkml_text(const comparison& c, const std::string& base) {
  return per_case(
      c, table::style::aligned,
      [&](const std::string& name) -> cells { return {base, "", base + "(std%)", "", name + "%(std%)", "p", "<"}; },
      [](const comparison_row& r) -> cells {
        return {figure_text(r.base.mean),
                "",
                fmt::format("1.00 ({:6.2f})", r.base.std_pct),
                r.says == verdict::same ? "~" : "",
                fmt::format("{:>8} ({:6.2f})", pct_text(r.difference_pct), r.other.std_pct),
                p_text(r.p),
                r.says == verdict::better || r.says == verdict::worse ? verdict_text(r) : ""};
      });
}

std::string table_text(const comparison& c, const std::string& base) {
  return per_case(
      c, table::style::aligned,
      [&](const std::string& name) -> cells {
        return {base, "std %", name, "std %", "change %", "95 % interval", "p", "n", "<"};
      },
      [](const comparison_row& r) -> cells {
        return {figure_text(r.base.mean),
                fmt::format("{:.2f}", r.base.std_pct),
                figure_text(r.other.mean),
                fmt::format("{:.2f}", r.other.std_pct),
                pct_text(r.difference_pct),
                r.p ? fmt::format("{:+.2f} .. {:+.2f}", r.interval_pct.low, r.interval_pct.high) : "-",
                p_text(r.p),
                std::to_string(r.n),
                verdict_text(r)};
      });
}

// One flat table: programs sort for themselves.
std::string flat_text(const comparison& c, const std::string& base, table::style style) {
  table t({"<metric", "<case", "<baseline_case", "<vary", "baseline", "baseline_std_pct", "value", "value_std_pct",
           "difference_pct", "interval_low_pct", "interval_high_pct", "p", "n", "<verdict"});
  const auto plain = [](std::optional<double> v) { return v ? fmt::format("{:.6g}", *v) : ""; };
  for (const comparison_row& r : c.rows)
    t.row({r.metric, r.case_name, base, r.vary, plain(r.base.mean), plain(r.base.std_pct), plain(r.other.mean),
           plain(r.other.std_pct), plain(r.difference_pct), r.p ? plain(r.interval_pct.low) : "",
           r.p ? plain(r.interval_pct.high) : "", plain(r.p), std::to_string(r.n), verdict_text(r)});
  return t.text(style);
}

std::string benchstat_text(const comparison& c, const std::string& base) {
  return per_case(
      c, table::style::aligned, [&](const std::string& name) -> cells { return {base, name, "delta", "<"}; },
      [](const comparison_row& r) -> cells {
        const bool sure = r.says == verdict::better || r.says == verdict::worse;
        return {fmt::format("{} ± {:2.0f}%", figure_text(r.base.mean), r.base.std_pct),
                fmt::format("{} ± {:2.0f}%", figure_text(r.other.mean), r.other.std_pct),
                sure ? pct_text(r.difference_pct) + "%" : "~",
                r.p ? fmt::format("(p={} n={}+{})", p_text(r.p), r.n, r.n) : fmt::format("(n={}+{})", r.n, r.n)};
      });
}

std::string runs_text(const std::vector<double>& values) {
  std::string out;
  for (double v : values) out += fmt::format(" {:>9}", figure_text(v));
  return out;
}

}  // namespace

std::string rows_text(const comparison& c, const std::string& base, const std::string& format) {
  if (format == "csv") return flat_text(c, base, table::style::csv);
  if (format == "markdown") return flat_text(c, base, table::style::markdown);
  if (format == "benchstat") return benchstat_text(c, base);
  return format == "table" ? table_text(c, base) : lkml_text(c, base);
}

std::string tails_text(const comparison& c, const std::string& base) {
  std::string out;
  size_t width = base.size();
  for (const tail_list& t : c.tails) width = std::max(width, t.case_name.size());
  for (const tail_list& t : c.tails) {
    out += fmt::format("{}{}{}\n", t.metric, t.vary.empty() ? "" : ", ", t.vary);
    out += fmt::format("  {:<{}}{}\n  {:<{}}{}   {} of {} outside the baseline's range, p {:.3f}\n", base, width,
                       runs_text(t.base), t.case_name, width, runs_text(t.other), t.beyond.count, t.other.size(),
                       t.beyond.p);
  }
  return out;
}

}  // namespace heddle::bench::lab
