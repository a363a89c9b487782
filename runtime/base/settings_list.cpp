#include "runtime/base/settings_list.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace heddle::core {
namespace {

size_t index_of(const setting_row& row) { return static_cast<size_t>(&row - setting_rows().data()); }

std::optional<int64_t> index_of_value(const setting_row& row, std::string_view text) {
  for (size_t i = 0; i < row.values.size(); i++)
    if (same_text(row.values[i], text)) return static_cast<int64_t>(i);
  return std::nullopt;
}

// A name and how it is switched: what NAME and NO_NAME stand for, where they stand for anything.
struct target {
  const setting_row* row = nullptr;
  std::optional<int64_t> on;
  std::optional<int64_t> off;
  bool off_only_over_on = false;
  bool switch_only = false;  // an alias for one value: NAME=VALUE means on or off
};

target plain_target(const setting_row& row) {
  target t{.row = &row};
  if (row.kind == setting_kind::toggle) {
    t.on = 1;
    t.off = 0;
  } else if (row.kind == setting_kind::choice && (t.off = index_of_value(row, "off"))) {
    // Default-when-on: the default, or the furthest-going value where that is off.
    t.on = row.default_value != *t.off ? row.default_value : static_cast<int64_t>(row.values.size()) - 1;
  }
  return t;
}

// alias := NAME | NAME=on:off | NAME=on?off
std::optional<target> alias_target(const setting_row& row, std::string_view alias, std::string_view name) {
  const size_t equals = alias.find('=');
  if (!same_text(alias.substr(0, equals), name)) return std::nullopt;
  if (equals == alias.npos) return plain_target(row);
  const std::string_view values = alias.substr(equals + 1);
  const size_t border = values.find_first_of(":?");
  HEDDLE_ASSERT(border != values.npos);
  target t{.row = &row,
           .on = index_of_value(row, values.substr(0, border)),
           .off = index_of_value(row, values.substr(border + 1))};
  t.off_only_over_on = values[border] == '?';
  t.switch_only = true;
  HEDDLE_ASSERT(t.on && t.off);
  return t;
}

std::optional<target> find_target(std::string_view name) {
  if (const setting_row* row = find_setting(name)) return plain_target(*row);
  for (const setting_row& row : setting_rows())
    for (std::string_view alias : split(row.aliases, ' '))
      if (auto t = alias_target(row, alias, name)) return t;
  return std::nullopt;
}

std::optional<int64_t> parse_toggle(std::string_view text) {
  for (std::string_view on : {"on", "true", "1", "yes"})
    if (same_text(text, on)) return 1;
  for (std::string_view off : {"off", "false", "0", "no"})
    if (same_text(text, off)) return 0;
  return std::nullopt;
}

std::optional<int64_t> parse_number(const setting_row& row, std::string_view text) {
  if (row.takes_auto() && same_text(text, "auto")) return automatic;
  const auto number = row.unit == "ns"      ? parse_duration_ns(text)
                      : row.unit == "bytes" ? parse_bytes(text)
                                            : parse_integer(text);
  if (!number || *number < row.min || *number > row.max) return std::nullopt;
  return number;
}

std::optional<int64_t> parse_value(const setting_row& row, std::string_view text) {
  switch (row.kind) {
    case setting_kind::toggle:
      return parse_toggle(text);
    case setting_kind::choice:
      return index_of_value(row, text);
    case setting_kind::number:
      return parse_number(row, text);
  }
  return std::nullopt;
}

std::string refusal(const setting_row& row, std::string_view text) {
  std::string line = std::string(row.name) + ": '" + std::string(text) + "' is not " + range_text(row);
  if (!row.unit.empty()) line.append(" (").append(row.unit).append(")");
  return line;
}

std::string unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const setting_row& row : setting_rows()) {
    names.emplace_back(row.name);
    for (std::string_view alias : split(row.aliases, ' ')) names.emplace_back(alias.substr(0, alias.find('=')));
  }
  for (const preset& p : presets()) names.emplace_back(p.name);
  const bool negated = starts_with_text(name, "no_");
  std::string line = "'" + std::string(name) + "' is no setting and no preset";
  const std::vector<std::string> near = near_names(negated ? name.substr(3) : name, names);
  if (near.empty()) return line + "; `heddle settings` and `heddle presets` list them";
  line += "; near: ";
  for (size_t i = 0; i < near.size(); i++) line += (i > 0 ? ", " : "") + near[i];
  return line;
}

// These two say what is measured; presets leave them alone.
bool outside_presets(const setting_row& row) { return row.name == "time_scale" || row.name == "preempt"; }

struct preset_item {
  size_t row;
  int64_t value;
};

// A preset's items under one time scale. Our own text: what does not parse is a broken table.
std::vector<preset_item> items_of(const preset& which, bool kernel_times) {
  std::vector<preset_item> items;
  for (std::string_view text : split(which.items, ',')) {
    const size_t equals = text.find('=');
    const setting_row* row = find_setting(text.substr(0, equals));
    HEDDLE_ASSERT(row != nullptr && equals != text.npos && !outside_presets(*row));
    std::string_view value_of = text.substr(equals + 1);
    if (const size_t border = value_of.find(':'); border != value_of.npos)
      value_of = kernel_times ? value_of.substr(0, border) : value_of.substr(border + 1);
    const auto value = parse_value(*row, value_of);
    HEDDLE_ASSERT(value.has_value());
    items.push_back({index_of(*row), *value});
  }
  return items;
}

}  // namespace

std::string_view to_string(settings_source source) noexcept {
  switch (source) {
    case settings_source::none:
      return "default";
    case settings_source::environment:
      return "environment";
    case settings_source::api:
      return "api";
    case settings_source::option:
      return "option";
  }
  return "";
}

std::vector<chosen_settings::change> chosen_settings::changes() const {
  const std::span<const setting_row> rows = setting_rows();
  std::vector<change> changed;
  for (size_t i = 0; i < rows.size(); i++)
    if (const int64_t value = rows[i].get(values); value != rows[i].default_value)
      changed.push_back({&rows[i], value, sources[i]});
  return changed;
}

settings_list::parsed settings_list::parse(std::string_view text) {
  if (text.empty()) return {.error = "an item of the list is empty"};
  const size_t equals = text.find('=');
  const std::string_view name = trimmed(text.substr(0, equals));

  if (equals == text.npos) {
    if (const preset* which = find_preset(name)) return {.which = which};
    const auto positive = find_target(name);
    const auto t = positive || !starts_with_text(name, "no_") ? positive : find_target(name.substr(3));
    if (!t) return {.error = unknown(name)};
    const std::optional<int64_t> value = positive ? t->on : t->off;
    if (!value) return {.error = std::string(t->row->name) + " needs a value: " + range_text(*t->row)};
    item single{.row = index_of(*t->row), .value = *value};
    if (!positive && t->off_only_over_on) single.only_over = *t->on;
    return {.single = single};
  }

  const std::string_view value_text = trimmed(text.substr(equals + 1));
  if (same_text(name, "preset")) {
    if (const preset* which = find_preset(value_text)) return {.which = which};
    return {.error = unknown(value_text)};
  }
  const auto t = find_target(name);
  if (!t) return {.error = unknown(name)};
  if (t->switch_only) {
    const auto on = parse_toggle(value_text);
    if (!on) return {.error = std::string(name) + ": '" + std::string(value_text) + "' is not on|off"};
    item single{.row = index_of(*t->row), .value = *on != 0 ? *t->on : *t->off};
    if (*on == 0 && t->off_only_over_on) single.only_over = *t->on;
    return {.single = single};
  }
  const auto value = parse_value(*t->row, value_text);
  if (!value) return {.error = refusal(*t->row, value_text)};
  return {.single = {.row = index_of(*t->row), .value = *value}};
}

std::string settings_list::add(settings_source source, std::string_view list) {
  std::vector<item> items;
  std::vector<named_preset> named;
  for (std::string_view text : split(list, ',')) {
    parsed one = parse(text);
    if (!one.error.empty()) return one.error;
    if (one.which != nullptr) {
      named.push_back({source, one.which});
    } else {
      one.single.source = source;
      items.push_back(one.single);
    }
  }
  const auto after = [](settings_source a, const auto& b) { return a < b.source; };
  for (const item& i : items) items_.insert(std::upper_bound(items_.begin(), items_.end(), source, after), i);
  for (const named_preset& p : named)
    presets_.insert(std::upper_bound(presets_.begin(), presets_.end(), source, after), p);
  return "";
}

chosen_settings settings_list::resolve() const {
  const std::span<const setting_row> rows = setting_rows();
  chosen_settings chosen;
  if (!presets_.empty()) {
    chosen.base = presets_.back().which;
    chosen.preset_source = presets_.back().source;
  }
  const auto put = [&](size_t row, int64_t value, settings_source source) {
    rows[row].set(chosen.values, value);
    chosen.sources[row] = source;
  };

  // The time scale first: it says which of two columns the times start from.
  settings_source scale_source = settings_source::none;
  for (const item& i : items_)
    if (rows[i.row].name == "time_scale") {
      put(i.row, i.value, i.source);
      scale_source = i.source;
    }
  const bool kernel_times = chosen.values.time_scale == time_scale_t::kernel;

  for (size_t row = 0; row < rows.size(); row++) {
    if (outside_presets(rows[row])) continue;
    if (rows[row].follows_time_scale()) {
      if (kernel_times) put(row, rows[row].kernel_default, scale_source);
    } else if (chosen.base->kernel_base) {
      put(row, rows[row].kernel_default, chosen.preset_source);
    }
  }
  for (const preset_item& i : items_of(*chosen.base, kernel_times)) put(i.row, i.value, chosen.preset_source);

  for (const item& i : items_) {
    if (i.source < chosen.preset_source && !outside_presets(rows[i.row])) continue;
    const int64_t now = rows[i.row].get(chosen.values);
    const bool applies = i.only_over == anything || now == i.only_over || value_text(rows[i.row], now) == "auto";
    if (applies) put(i.row, i.value, i.source);
  }
  return chosen;
}

}  // namespace heddle::core
