// What users write, and what it comes to. The one parser behind --set, --features, --preset, --case, HEDDLE_SETTINGS
// and the API.
//
//   LIST := ITEM[,ITEM...]     ITEM := PRESET | preset=PRESET | TOGGLE | NO_TOGGLE | NAME=VALUE     (either case)
//
// Sources apply in the order default, environment, API, option, whatever the order of the calls; inside one its preset
// comes first, then its items as written. A preset discards the items of the sources before it, except time_scale and
// preempt, which no preset touches: they say what is measured, not how it is scheduled. Reads nothing by itself:
// whoever may look at the environment hands the text in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/presets.h"
#include "runtime/base/settings.h"

namespace heddle::core {

enum class settings_source : uint8_t { none, environment, api, option };  // none: the default
std::string_view to_string(settings_source source) noexcept;              // "default", "environment", ...

// The settings in force and where each came from.
struct chosen_settings {
  settings values;
  const preset* base = &default_preset();
  settings_source preset_source = settings_source::none;
  std::vector<settings_source> sources =
      std::vector<settings_source>(setting_rows().size());  // in the order of setting_rows()

  struct change {
    const setting_row* row;
    int64_t value;
    settings_source source;
  };
  // What differs from the preset `default`: the header of every run, and "changed" in a result file.
  std::vector<change> changes() const;
};

class settings_list {
 public:
  // Adds a list to a source. Returns what is wrong with it, in one line without "heddle:", and then adds nothing; "" if
  // all is well.
  [[nodiscard]] std::string add(settings_source source, std::string_view list);

  chosen_settings resolve() const;

 private:
  static constexpr int64_t anything = automatic;
  struct item {
    settings_source source;
    size_t row;
    int64_t value;
    int64_t only_over = anything;  // NO_SIS_PROP takes effect over sis_limit=prop (or auto), not over util
  };
  struct named_preset {
    settings_source source;
    const preset* which;
  };
  struct parsed {
    std::string error;
    const preset* which = nullptr;
    item single{};
  };
  static parsed parse(std::string_view text);

  std::vector<item> items_;  // by source, then as written
  std::vector<named_preset> presets_;
};

}  // namespace heddle::core
