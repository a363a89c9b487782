#include "bench_apps/common/run_settings.h"

#include <fmt/format.h>

#include "bench_apps/common/environment.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench {

ordered_json setting_json(const core::setting_row& row, int64_t value) {
  if (row.kind == core::setting_kind::toggle) return value != 0;
  if (row.kind == core::setting_kind::number && value != core::automatic) return value;
  return core::value_text(row, value);
}

core::chosen_settings choose_settings(const std::string& list) {
  core::settings_list all;
  if (const auto text = variable("HEDDLE_SETTINGS"))
    if (const std::string wrong = all.add(core::settings_source::environment, *text); !wrong.empty())
      throw usage_error("HEDDLE_SETTINGS: " + wrong);
  if (!list.empty())
    if (const std::string wrong = all.add(core::settings_source::option, list); !wrong.empty())
      throw usage_error(wrong);
  return all.resolve();
}

void record_settings(run_result& result, const core::chosen_settings& chosen) {
  result.preset = chosen.base->name;
  for (const auto& change : chosen.changes())
    result.changed[std::string(change.row->name)] = setting_json(*change.row, change.value);
  for (const core::setting_row& row : core::setting_rows())
    result.settings[std::string(row.name)] = setting_json(row, row.get(chosen.values));
}

std::string show_settings(const core::chosen_settings& chosen) {
  std::string text(chosen.base->name);
  if (chosen.preset_source != core::settings_source::none)
    text += fmt::format(" ({})", to_string(chosen.preset_source));
  for (const auto& change : chosen.changes())
    if (change.source != chosen.preset_source || chosen.preset_source == core::settings_source::none)
      text += fmt::format(", {}={} ({})", change.row->name, core::value_text(*change.row, change.value),
                          to_string(change.source));
  return text;
}

}  // namespace heddle::bench
