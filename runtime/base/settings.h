// The settings as values: one immutable snapshot (`settings`), and the table of what exists (`setting_rows`).
//
// Whoever decides holds a `const settings*` for the whole decision, so that a change at run time is never seen by half.
// A `settings{}` is the preset `default`. What users write is read by settings_list.h; nothing here knows the
// environment.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::core {

// A number that the runtime sets by what it measures. Not -1, which migration_cost_ns needs as a value.
inline constexpr int64_t automatic = std::numeric_limits<int64_t>::min();

// enum class wake_wide_t { off, v312, v43 }; one per choice. gcc takes a scoped enumerator for a shadow of a global of its name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#define HEDDLE_TOGGLE(name, kernel_default, default_value, when, section, aliases, meaning)
#define HEDDLE_NUMBER(name, kernel_default, default_value, min, max, unit, when, section, aliases, meaning)
#define HEDDLE_CHOICE(name, kernel_default, default_value, when, section, aliases, meaning, ...) \
  enum class name##_t : uint8_t{__VA_ARGS__};
#include "runtime/base/settings.def"
#undef HEDDLE_TOGGLE
#undef HEDDLE_NUMBER
#undef HEDDLE_CHOICE
#pragma GCC diagnostic pop

namespace toggle {
inline constexpr bool on = true;
inline constexpr bool off = false;
}  // namespace toggle

struct settings {
#define HEDDLE_TOGGLE(name, kernel_default, default_value, when, section, aliases, meaning) \
  bool name = toggle::default_value;
#define HEDDLE_NUMBER(name, kernel_default, default_value, min, max, unit, when, section, aliases, meaning) \
  int64_t name = default_value;
#define HEDDLE_CHOICE(name, kernel_default, default_value, when, section, aliases, meaning, ...) \
  name##_t name = name##_t::default_value;
#include "runtime/base/settings.def"
#undef HEDDLE_TOGGLE
#undef HEDDLE_NUMBER
#undef HEDDLE_CHOICE

  bool operator==(const settings&) const = default;
};

// migration_cost_ns before (or without) a measurement: the cost of refilling a fiber's working set, policy-reference
// 0.3.
inline constexpr int64_t uncalibrated_migration_cost_ns = 5'000;
constexpr int64_t migration_cost_ns_of(const settings& s) noexcept {
  return s.migration_cost_ns == automatic ? uncalibrated_migration_cost_ns : s.migration_cost_ns;
}

enum class setting_kind : uint8_t { toggle, choice, number };
enum class setting_when : uint8_t { start, run };
std::string_view to_string(setting_kind kind) noexcept;
std::string_view to_string(setting_when when) noexcept;

// One row. Every value travels as int64_t: off/on as 0/1, a choice as the index of its enumerator, a number as itself.
struct setting_row {
  std::string_view name;
  setting_kind kind;
  int64_t kernel_default;
  int64_t default_value;
  int64_t min;  // numbers only
  int64_t max;
  std::string_view unit;
  setting_when when;
  std::string_view section;
  std::string_view aliases;
  std::string_view meaning;
  std::vector<std::string> values;  // texts of a choice, in the enumerators' order
  int64_t (*get)(const settings&);
  void (*set)(settings&, int64_t);

  bool takes_auto() const noexcept {
    return kind == setting_kind::number && (default_value == automatic || kernel_default == automatic);
  }
  // Times and shifts: they follow time_scale and no preset's base.
  bool follows_time_scale() const noexcept { return kind == setting_kind::number && (unit == "ns" || unit == "shift"); }
};

// In the order of settings.def.
std::span<const setting_row> setting_rows();
// By name, either case; nullptr where there is none. Aliases are settings_list.h's matter.
const setting_row* find_setting(std::string_view name);

std::string value_text(const setting_row& row, int64_t value);  // "on", "v43", "5000", "auto"
std::string range_text(const setting_row& row);                 // "on|off", "off|v312|v43", "0..1000000 or auto"

// The first row that only a start may change and in which the two differ, else nullptr: what rt.set() must refuse.
const setting_row* first_start_difference(const settings& running, const settings& wanted);

}  // namespace heddle::core
