#include "bench_apps/common/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench_apps/common/statistics.h"

namespace heddle::bench {
namespace {

constexpr std::string_view shown_statistics[] = {"mean", "p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9", "max"};

// Three or four digits that mean something, in a column that lines up.
std::string digits(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  const double size = std::fabs(*value);
  return fmt::format("{:.{}f}", *value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string statistic_cell(const metric& m, std::string_view statistic) {
  std::string text = digits(m.figure(statistic));
  if (statistic.starts_with("p") && m.samples().samples() > 0)
    text += m.samples().trusted(std::stod(std::string(statistic.substr(1)))) ? " " : "?";
  return text;
}

std::vector<std::string> distribution_cells(const metric& m) {
  std::vector<std::string> cells = {std::to_string(m.samples().samples())};
  for (std::string_view s : shown_statistics) cells.push_back(statistic_cell(m, s));
  return cells;
}

std::vector<std::string> distribution_headings(std::string first) {
  std::vector<std::string> headings = {std::move(first), "samples"};
  for (std::string_view s : shown_statistics) headings.push_back(std::string(s) + (s.starts_with("p") ? " " : ""));
  return headings;
}

std::string run_name(const result_case& one, size_t run) {
  return one.runs.size() > 1 ? fmt::format("{} {}", one.name, run + 1) : one.name;
}

// Median, extremes and spread under the single runs of a case, cell by cell.
using cell_of_run = std::function<std::optional<double>(const run_result&)>;
void summary_rows(table& t, const result_case& one, const std::vector<cell_of_run>& columns, bool blank_samples) {
  if (one.runs.size() < 2) return;
  std::vector<std::vector<std::string>> rows = {{one.name + " median"}, {"  min"}, {"  max"}, {"  std %"}};
  if (blank_samples)
    for (auto& row : rows) row.emplace_back();
  for (const auto& column : columns) {
    std::vector<double> values;
    for (const run_result& run : one.runs)
      if (const auto v = column(run)) values.push_back(*v);
    std::ranges::sort(values);
    rows[0].push_back(digits(median(values)));
    rows[1].push_back(values.empty() ? "-" : digits(values.front()));
    rows[2].push_back(values.empty() ? "-" : digits(values.back()));
    rows[3].push_back(digits(std_pct(values)));
  }
  for (auto& row : rows) t.row(std::move(row));
}

table distribution_table(const result_document& document, const std::string& name) {
  table t(distribution_headings("<" + name));
  for (const result_case& one : document.cases) {
    for (size_t r = 0; r < one.runs.size(); r++) {
      const metric* m = one.runs[r].find(name);
      if (m == nullptr) continue;
      std::vector<std::string> cells = {run_name(one, r)};
      std::ranges::copy(distribution_cells(*m), std::back_inserter(cells));
      t.row(cells);
    }
    std::vector<cell_of_run> columns;
    for (const std::string_view s : shown_statistics)
      columns.push_back([&name, s](const run_result& run) {
        const metric* m = run.find(name);
        return m ? m->figure(s) : std::nullopt;
      });
    summary_rows(t, one, columns, true);
  }
  return t;
}

// What runs on the host cost.
void cost_columns(const result_document& document, std::vector<std::string>& headings,
                  std::vector<cell_of_run>& columns) {
  const auto real = [](const run_result& run) { return !simulated(run); };
  if (std::ranges::none_of(document.cases, [&](const result_case& c) { return std::ranges::any_of(c.runs, real); }))
    return;
  const auto cost = [&](std::string heading, std::optional<double> (*of)(const resources&)) {
    headings.push_back(std::move(heading));
    columns.push_back([of](const run_result& run) { return simulated(run) ? std::nullopt : of(run.spent); });
  };
  cost("cpu_us/op", [](const resources& r) { return r.cpu_us_per_op; });
  cost("cpu_s", [](const resources& r) { return std::optional(r.cpu_user_s + r.cpu_sys_s); });
  cost("of it sys", [](const resources& r) { return std::optional(r.cpu_sys_s); });
  cost("switches vol.", [](const resources& r) { return std::optional(static_cast<double>(r.switches_voluntary)); });
  cost("invol.", [](const resources& r) { return std::optional(static_cast<double>(r.switches_involuntary)); });
}

// Single metrics, then what the run cost.
table figure_table(const result_document& document, const std::vector<std::string>& names) {
  std::vector<std::string> headings = {"<"};
  std::vector<cell_of_run> columns;
  for (const std::string& name : names) {
    headings.push_back(name);
    columns.push_back([name](const run_result& run) {
      const metric* m = run.find(name);
      return m ? m->figure() : std::nullopt;
    });
  }
  cost_columns(document, headings, columns);
  table t(headings);
  for (const result_case& one : document.cases) {
    for (size_t r = 0; r < one.runs.size(); r++) {
      std::vector<std::string> cells = {run_name(one, r)};
      for (const auto& column : columns) cells.push_back(digits(column(one.runs[r])));
      t.row(cells);
    }
    summary_rows(t, one, columns, false);
  }
  return t;
}

// Explanations over all runs of a case together: their samples add up.
table detail_table(const result_document& document) {
  table t(distribution_headings("<details"));
  for (const result_case& one : document.cases) {
    std::vector<metric> sums;
    for (const run_result& run : one.runs)
      for (const metric& m : run.metrics) {
        if (!m.detail || !m.is_distribution()) continue;
        const auto at = std::ranges::find(sums, m.name, &metric::name);
        if (at == sums.end())
          sums.push_back(m);
        else
          std::get<histogram>(at->value).merge(m.samples());
      }
    for (const metric& m : sums) {
      std::vector<std::string> cells = {fmt::format("{} {}", one.name, m.name)};
      std::ranges::copy(distribution_cells(m), std::back_inserter(cells));
      t.row(cells);
    }
  }
  return t;
}

// What more than one run says is said once.
std::string notes_text(const result_document& document) {
  std::string out;
  std::vector<std::string> said;
  const auto say = [&](const std::string& who, const std::string& text) {
    const std::string line = fmt::format("{}: {}\n", who, text);
    if (std::ranges::find(said, line) != said.end()) return;
    said.push_back(line);
    out += line;
  };
  for (const result_case& one : document.cases)
    for (size_t r = 0; r < one.runs.size(); r++) {
      for (const std::string& note : one.runs[r].notes) say(one.name, note);
      for (const std::string& text : one.runs[r].disturbances) say(run_name(one, r) + " was disturbed", text);
      if (one.runs[r].ended != ending::complete) say(run_name(one, r), std::string(name_of(one.runs[r].ended)));
    }
  return out;
}

std::vector<std::string> metric_names(const result_document& document, bool distributions) {
  std::vector<std::string> names;
  for (const result_case& one : document.cases)
    for (const run_result& run : one.runs)
      for (const metric& m : run.metrics)
        if (m.is_distribution() == distributions && !m.detail && std::ranges::find(names, m.name) == names.end())
          names.push_back(m.name);
  return names;
}

// One row per metric of a run, every figure in full: for programs, which want one rectangle and no marks.
std::string csv_text(const result_document& document) {
  std::vector<std::string> headings = {"<case", "run", "seed", "<metric", "value", "samples"};
  for (const std::string_view s : statistic_names) headings.emplace_back(s);
  table t(headings);
  const auto full = [](std::optional<double> v) { return v && std::isfinite(*v) ? fmt::format("{:.9g}", *v) : ""; };
  for (const result_case& one : document.cases)
    for (size_t r = 0; r < one.runs.size(); r++)
      for (const metric& m : one.runs[r].metrics) {
        std::vector<std::string> cells = {one.name, std::to_string(r + 1), std::to_string(one.runs[r].seed), m.name};
        cells.push_back(m.is_distribution() ? "" : full(m.figure()));
        if (m.is_distribution()) {
          cells.push_back(std::to_string(m.samples().samples()));
          for (const std::string_view s : statistic_names) cells.push_back(full(m.figure(s)));
        }
        t.row(cells);
      }
  return t.text(table::style::csv);
}

}  // namespace

bool simulated(const run_result& run) { return run.machine.is_object() && run.machine.value("name", "") != "host"; }

std::string results_text(const result_document& document, table::style style) {
  if (style == table::style::csv) return csv_text(document);
  std::vector<table> tables;
  for (const std::string& name : metric_names(document, true)) tables.push_back(distribution_table(document, name));
  tables.push_back(figure_table(document, metric_names(document, false)));
  tables.push_back(detail_table(document));
  std::string out;
  for (const table& t : tables)
    if (!t.empty()) out += (out.empty() ? "" : "\n") + t.text(style);
  if (const std::string notes = notes_text(document); !notes.empty()) out += "\n" + notes;
  return out;
}

}  // namespace heddle::bench
