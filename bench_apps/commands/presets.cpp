#include "bench_apps/commands/presets.h"

#include <fmt/format.h>

#include <cstdio>

#include "bench_apps/commands/settings.h"
#include "bench_apps/common/arguments.h"
#include "bench_apps/common/common_options.h"
#include "bench_apps/common/run_settings.h"
#include "runtime/base/check.h"

namespace heddle::bench {
namespace {

std::vector<core::chosen_settings::change> changes_of(const core::preset& preset) {
  core::settings_list list;
  const std::string wrong = list.add(core::settings_source::option, preset.name);
  HEDDLE_ASSERT(wrong.empty());
  return list.resolve().changes();
}

// Lines of at most `width` columns, broken between words.
std::string wrapped(const std::vector<std::string>& words, size_t indent, size_t width) {
  std::string text;
  size_t column = width;
  for (const std::string& word : words) {
    if (column + 1 + word.size() > width) {
      text += fmt::format("{}{:{}}", text.empty() ? "" : "\n", "", indent);
      column = indent;
    } else {
      text += ' ';
      column++;
    }
    text += word;
    column += word.size();
  }
  return text;
}

}  // namespace

std::string presets_text() {
  std::string text = "Times and shifts follow time_scale; no preset changes it.\n";
  for (const core::preset& preset : core::presets()) {
    text += fmt::format("\n{:<14}{}\n", preset.name, preset.meaning);
    std::vector<std::string> words;
    for (const auto& change : changes_of(preset))
      words.push_back(fmt::format("{}={}", change.row->name, show_setting(*change.row, change.value)));
    if (!words.empty()) text += wrapped(words, 14, 110) + "\n";
  }
  return text;
}

ordered_json presets_json() {
  ordered_json list = ordered_json::array();
  for (const core::preset& preset : core::presets()) {
    ordered_json changed = ordered_json::object();
    for (const auto& change : changes_of(preset))
      changed[std::string(change.row->name)] = setting_json(*change.row, change.value);
    list.push_back({{"name", preset.name}, {"meaning", preset.meaning}, {"changed", changed}});
  }
  return list;
}

int run_presets_command(const invocation& typed) {
  common_options options;
  bool json = false;
  arguments args("presets", presets_command.summary);
  args.flag("--json", json, "as a list of objects");
  declare_common(args, options, {.machine = false, .settings = false, .runs = false});
  if (!parse_command(args, typed, options)) return 0;
  std::fputs((json ? presets_json().dump(2) + "\n" : presets_text()).c_str(), stdout);
  return 0;
}

}  // namespace heddle::bench
