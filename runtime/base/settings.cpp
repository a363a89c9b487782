#include "runtime/base/settings.h"

#include <algorithm>
#include <cctype>

#include "runtime/base/text.h"

namespace heddle::core {
namespace {

// "off, f253_256, auto_" as stringized from an enumerator list -> {"off", "253/256", "auto"}.
std::vector<std::string> enumerator_texts(std::string_view list) {
  std::vector<std::string> texts;
  for (std::string_view item : split(list, ',')) {
    std::string text(item);
    if (text.back() == '_') text.pop_back();
    if (text.size() > 1 && text[0] == 'f' && std::isdigit(static_cast<unsigned char>(text[1]))) {
      text.erase(0, 1);
      std::replace(text.begin(), text.end(), '_', '/');
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

template <auto Member>
int64_t get_member(const settings& s) {
  return static_cast<int64_t>(s.*Member);
}

template <auto Member>
void set_member(settings& s, int64_t value) {
  auto& member = s.*Member;
  member = static_cast<std::remove_reference_t<decltype(member)>>(value);
}

std::vector<setting_row> build_rows() {
  std::vector<setting_row> rows;
#define HEDDLE_TOGGLE(name, kernel_default, default_value, when, section, aliases, meaning) \
  rows.push_back({#name,                                                                    \
                  setting_kind::toggle,                                                     \
                  toggle::kernel_default,                                                   \
                  toggle::default_value,                                                    \
                  0,                                                                        \
                  1,                                                                        \
                  "",                                                                       \
                  setting_when::when,                                                       \
                  section,                                                                  \
                  aliases,                                                                  \
                  meaning,                                                                  \
                  {},                                                                       \
                  get_member<&settings::name>,                                              \
                  set_member<&settings::name>});
#define HEDDLE_NUMBER(name, kernel_default, default_value, min, max, unit, when, section, aliases, meaning) \
  rows.push_back({#name,                                                                                    \
                  setting_kind::number,                                                                     \
                  kernel_default,                                                                           \
                  default_value,                                                                            \
                  min,                                                                                      \
                  max,                                                                                      \
                  #unit,                                                                                    \
                  setting_when::when,                                                                       \
                  section,                                                                                  \
                  aliases,                                                                                  \
                  meaning,                                                                                  \
                  {},                                                                                       \
                  get_member<&settings::name>,                                                              \
                  set_member<&settings::name>});
#define HEDDLE_CHOICE(name, kernel_default, default_value, when, section, aliases, meaning, ...)                 \
  rows.push_back({#name, setting_kind::choice, static_cast<int64_t>(name##_t::kernel_default),                   \
                  static_cast<int64_t>(name##_t::default_value), 0, 0, "", setting_when::when, section, aliases, \
                  meaning, enumerator_texts(#__VA_ARGS__), get_member<&settings::name>, set_member<&settings::name>});
#include "runtime/base/settings.def"
#undef HEDDLE_TOGGLE
#undef HEDDLE_NUMBER
#undef HEDDLE_CHOICE
  return rows;
}

}  // namespace

std::string_view to_string(setting_kind kind) noexcept {
  switch (kind) {
    case setting_kind::toggle:
      return "toggle";
    case setting_kind::choice:
      return "choice";
    case setting_kind::number:
      return "number";
  }
  return "";
}

std::string_view to_string(setting_when when) noexcept { return when == setting_when::start ? "start" : "run"; }

std::span<const setting_row> setting_rows() {
  static const std::vector<setting_row> rows = build_rows();
  return rows;
}

const setting_row* find_setting(std::string_view name) {
  for (const setting_row& row : setting_rows())
    if (same_text(row.name, name)) return &row;
  return nullptr;
}

std::string value_text(const setting_row& row, int64_t value) {
  switch (row.kind) {
    case setting_kind::toggle:
      return value != 0 ? "on" : "off";
    case setting_kind::choice:
      return row.values[static_cast<size_t>(value)];
    case setting_kind::number:
      return value == automatic ? "auto" : std::to_string(value);
  }
  return "";
}

std::string range_text(const setting_row& row) {
  switch (row.kind) {
    case setting_kind::toggle:
      return "on|off";
    case setting_kind::choice: {
      std::string text;
      for (const std::string& value : row.values) text += (text.empty() ? "" : "|") + value;
      return text;
    }
    case setting_kind::number:
      return std::to_string(row.min) + ".." + std::to_string(row.max) + (row.takes_auto() ? " or auto" : "");
  }
  return "";
}

const setting_row* first_start_difference(const settings& running, const settings& wanted) {
  for (const setting_row& row : setting_rows())
    if (row.when == setting_when::start && row.get(running) != row.get(wanted)) return &row;
  return nullptr;
}

}  // namespace heddle::core
