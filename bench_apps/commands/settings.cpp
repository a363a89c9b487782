#include "bench_apps/commands/settings.h"

#include <fmt/format.h>

#include <cstdio>

#include "bench_apps/common/common_options.h"
#include "bench_apps/common/run_settings.h"
#include "bench_apps/common/table.h"
#include "bench_apps/common/units.h"

namespace heddle::bench {
namespace {

std::string show_range(const core::setting_row& row) {
  if (row.kind != core::setting_kind::number) return core::range_text(row);
  const bool has_unit = row.unit == "ns" || row.unit == "bytes";
  return fmt::format("{}..{}{}{}", show_setting(row, row.min), show_setting(row, row.max),
                     row.takes_auto() ? " or auto" : "", has_unit ? "" : fmt::format(" {}", row.unit));
}

}  // namespace

std::string show_setting(const core::setting_row& row, int64_t value) {
  if (row.kind != core::setting_kind::number || value == core::automatic) return core::value_text(row, value);
  // -1 is a word of its own in migration_cost_ns, not a duration.
  if (row.unit == "ns" && value > 0) return show_duration(nanos{value});
  if (row.unit == "bytes" && value > 0) return show_size(value);
  return core::value_text(row, value);
}

std::string settings_text(const core::chosen_settings& chosen) {
  table rows({"<setting", "<value", "<default", "<kernel", "<when", "<source", "<range", "<meaning"});
  const std::span<const core::setting_row> all = core::setting_rows();
  for (size_t i = 0; i < all.size(); i++) {
    const core::setting_row& row = all[i];
    rows.row({std::string(row.name), show_setting(row, row.get(chosen.values)), show_setting(row, row.default_value),
              show_setting(row, row.kernel_default), std::string(to_string(row.when)),
              std::string(to_string(chosen.sources[i])), show_range(row), std::string(row.meaning)});
  }
  return rows.text() + "\nin force: " + show_settings(chosen) + "\n";
}

std::string settings_markdown() {
  table rows({"<setting", "<default", "<kernel", "<range", "<when", "<section", "<kernel names", "<meaning"});
  for (const core::setting_row& row : core::setting_rows()) {
    std::string range = show_range(row);
    // A bar would end the cell.
    for (size_t at = 0; (at = range.find('|', at)) != range.npos; at += 2) range.replace(at, 1, ", ");
    rows.row({fmt::format("`{}`", row.name), show_setting(row, row.default_value),
              show_setting(row, row.kernel_default), range, std::string(to_string(row.when)), std::string(row.section),
              std::string(row.aliases), std::string(row.meaning)});
  }
  return rows.text(table::style::markdown);
}

ordered_json settings_json(const core::chosen_settings& chosen) {
  ordered_json list = ordered_json::array();
  const std::span<const core::setting_row> all = core::setting_rows();
  for (size_t i = 0; i < all.size(); i++) {
    const core::setting_row& row = all[i];
    list.push_back({{"name", row.name},
                    {"kind", to_string(row.kind)},
                    {"value", setting_json(row, row.get(chosen.values))},
                    {"default", setting_json(row, row.default_value)},
                    {"default_kernel", setting_json(row, row.kernel_default)},
                    {"range", core::range_text(row)},
                    {"unit", row.unit},
                    {"when", to_string(row.when)},
                    {"source", to_string(chosen.sources[i])},
                    {"section", row.section},
                    {"aliases", row.aliases},
                    {"meaning", row.meaning}});
  }
  return list;
}

int run_settings_command(const invocation& typed) {
  common_options options;
  bool json = false;
  bool markdown = false;
  arguments args("settings", settings_command.summary);
  args.flag("--json", json, "as a list of objects");
  args.flag("--markdown", markdown, "as a table for the docs: what exists, without what is in force");
  declare_common(args, options, {.machine = false, .settings = true, .runs = false});
  if (!parse_command(args, typed, options)) return 0;

  const core::chosen_settings chosen = choose_settings(options.settings_list());
  const std::string text = json       ? settings_json(chosen).dump(2) + "\n"
                           : markdown ? settings_markdown()
                                      : settings_text(chosen);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace heddle::bench
