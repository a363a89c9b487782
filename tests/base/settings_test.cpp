#include "runtime/base/settings.h"

#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "runtime/base/settings_list.h"
#include "runtime/base/text.h"

using namespace heddle::core;

namespace {

constexpr auto environment = settings_source::environment;
constexpr auto api = settings_source::api;
constexpr auto option = settings_source::option;

settings resolved(std::string_view list) {
  settings_list l;
  REQUIRE(l.add(option, list) == "");
  return l.resolve().values;
}

std::string refused(std::string_view list) {
  settings_list l;
  const std::string error = l.add(option, list);
  CHECK(error.find('\n') == error.npos);
  CHECK(l.resolve().changes().empty());  // a list is taken whole or not at all
  return error;
}

std::string changes_text(const settings_list& l) {
  std::string text;
  for (const auto& c : l.resolve().changes())
    text += std::string(text.empty() ? "" : " ") + std::string(c.row->name) + "=" + value_text(*c.row, c.value) + "(" +
            std::string(to_string(c.source)) + ")";
  return text;
}

}  // namespace

TEST_CASE("settings: every row is whole, and its names are its own") {
  std::set<std::string, std::less<>> names;
  for (const setting_row& row : setting_rows()) {
    CAPTURE(row.name);
    CHECK(names.insert(std::string(row.name)).second);
    CHECK(!row.meaning.empty());
    CHECK(!row.section.empty());
    for (std::string_view alias : split(row.aliases, ' ')) {
      const std::string name(alias.substr(0, alias.find('=')));
      std::string lower = name;
      for (char& c : lower) c = static_cast<char>(std::tolower(c));
      CHECK(names.insert(lower).second);
      CHECK(find_preset(name) == nullptr);
    }
    for (int64_t value : {row.kernel_default, row.default_value}) {
      if (row.kind == setting_kind::number) CHECK((value == automatic || (row.min <= value && value <= row.max)));
      if (row.kind == setting_kind::choice) CHECK(static_cast<size_t>(value) < row.values.size());
    }
    CHECK((row.kind == setting_kind::number) == !row.unit.empty());
    CHECK((row.kind == setting_kind::choice) == (row.values.size() >= 2));
  }
}

TEST_CASE("settings: a snapshot by itself is the default column, and every value can be written back as text") {
  const settings plain;
  for (const setting_row& row : setting_rows()) {
    CAPTURE(row.name);
    CHECK(row.get(plain) == row.default_value);
    std::vector<int64_t> values{row.default_value, row.kernel_default};
    if (row.kind == setting_kind::number) values.insert(values.end(), {row.min, row.max});
    for (size_t i = 0; i < row.values.size(); i++) values.push_back(static_cast<int64_t>(i));
    for (int64_t value : values) {
      const settings s = resolved(std::string(row.name) + "=" + value_text(row, value));
      CHECK(row.get(s) == value);
      for (const setting_row& other : setting_rows()) {
        const bool scaled_along = row.name == "time_scale" && other.follows_time_scale();
        if (&other != &row && !scaled_along) CHECK(other.get(s) == other.default_value);
      }
    }
  }
}

TEST_CASE("settings: the grammar knows toggles, negations, values, units and either case") {
  CHECK(!resolved("NO_WAKE_AFFINE").wake_affine);
  CHECK(!resolved("no_wake_affine").wake_affine);
  CHECK(!resolved("wake_affine=off").wake_affine);
  CHECK(!resolved("Wake_Affine = FALSE").wake_affine);
  CHECK(resolved("WAKE_CAP").wake_cap);
  CHECK(resolved("wa_burst_ns=1.5us").wa_burst_ns == 1500);
  CHECK(resolved("wa_burst_ns=80").wa_burst_ns == 80);
  CHECK(resolved("stack_bytes=128KiB").stack_bytes == 131072);
  CHECK(resolved("migration_cost_ns=-1").migration_cost_ns == -1);
  CHECK(resolved("migration_cost_ns=AUTO").migration_cost_ns == automatic);
  CHECK(migration_cost_ns_of(settings{}) == 5000);
  CHECK(migration_cost_ns_of(resolved("migration_cost_ns=0")) == 0);
  CHECK(resolved("sis_limit=auto").sis_limit == sis_limit_t::auto_);
  CHECK(resolved("wake_wide=v312, wa_form=v39").wake_wide == wake_wide_t::v312);
  CHECK(resolved("") == settings{});
  // The last word inside a source counts.
  CHECK(resolved("wa_burst_ns=1,wa_burst_ns=2").wa_burst_ns == 2);
}

TEST_CASE("settings: a choice with off is also a switch") {
  CHECK(resolved("NO_WAKE_WIDE").wake_wide == wake_wide_t::off);
  CHECK(resolved("wake_wide=v312,WAKE_WIDE").wake_wide == wake_wide_t::v43);
  // Default-when-on of a choice that is off by default: the furthest-going value.
  CHECK(resolved("WAKE_WIDE_IDLE").wake_wide_idle == wake_wide_idle_t::both);
  CHECK(refused("SIS_LIMIT") == "sis_limit needs a value: none|avg_cpu|prop|prop_wake|util|auto");
  CHECK(refused("wa_burst_ns") == "wa_burst_ns needs a value: 0..1000000000");
}

TEST_CASE("settings: kernel feature names are aliases") {
  CHECK(!resolved("NO_AFFINE_WAKEUPS").wake_affine);
  CHECK(resolved("SIS_PROP").sis_limit == sis_limit_t::prop);
  CHECK(resolved("sis_util=on").sis_limit == sis_limit_t::util);
  CHECK(resolved("SIS_UTIL,NO_SIS_UTIL").sis_limit == sis_limit_t::none);
  CHECK(resolved("NO_SIS_UTIL").sis_limit == sis_limit_t::none);           // auto may have meant it
  CHECK(resolved("SIS_UTIL,NO_SIS_PROP").sis_limit == sis_limit_t::util);  // says nothing about util
  CHECK(resolved("sched_migration_cost_ns=500us").migration_cost_ns == 500'000);
  CHECK(!resolved("NO_NEXT_BUDDY").pick_slot);
}

TEST_CASE("settings: what is wrong is said in one line, with what would be accepted") {
  CHECK(refused("wake_affine=maybe") == "wake_affine: 'maybe' is not on|off");
  CHECK(refused("wa_burst_ns=-5") == "wa_burst_ns: '-5' is not 0..1000000000 (ns)");
  CHECK(refused("wa_burst_ns=99999d") == "wa_burst_ns: '99999d' is not 0..1000000000 (ns)");
  CHECK(refused("migration_cost_ns=5parsec") == "migration_cost_ns: '5parsec' is not -1..1000000000 or auto (ns)");
  CHECK(refused("wake_wide=v44") == "wake_wide: 'v44' is not off|v312|v43");
  CHECK(refused("wake_afine=off") == "'wake_afine' is no setting and no preset; near: wake_affine, wake_wide");
  CHECK(refused("NO_WAKE_AFINE").find("near: wake_affine") != std::string::npos);
  CHECK(refused("k6.21").find("k6.12") != std::string::npos);
  CHECK(refused("preset=ws_plian").find("near: ws_plain") != std::string::npos);
  CHECK(refused("xyzzyxyzzy").find("`heddle settings`") != std::string::npos);
  CHECK(refused("NO_WAKE_AFFINE,,WA_IDLE") == "an item of the list is empty");
  CHECK(refused("NO_WAKE_AFFINE,wa_weight=2") == "wa_weight: '2' is not on|off");
  CHECK(refused("SIS_PROP=7") == "SIS_PROP: '7' is not on|off");
}

TEST_CASE("settings: sources apply in their order, whoever spoke first") {
  settings_list l;
  REQUIRE(l.add(option, "wa_burst_ns=3") == "");
  REQUIRE(l.add(environment, "wa_burst_ns=1,wa_throttle_ns=5") == "");
  REQUIRE(l.add(api, "wa_burst_ns=2,NO_WA_BIAS") == "");
  CHECK(changes_text(l) == "wa_bias=off(api) wa_burst_ns=3(option) wa_throttle_ns=5(environment)");
}

TEST_CASE("settings: inside a source the preset comes first; it discards the sources before it") {
  settings_list l;
  REQUIRE(l.add(environment, "NO_WA_BIAS,tick_ns=20us") == "");
  REQUIRE(l.add(option, "wake_affine=on,ws_plain") == "");
  const chosen_settings chosen = l.resolve();
  CHECK(chosen.base->name == "ws_plain");
  CHECK(chosen.preset_source == option);
  CHECK(chosen.values.wake_affine);  // written before the preset, applied after it
  CHECK(chosen.values.wa_bias);
  CHECK(chosen.values.tick_ns == 10'000);
  CHECK(chosen.values.sis == sis_t::off);

  // A later source without a preset adds to it; items of its own and later sources stay.
  settings_list m;
  REQUIRE(m.add(environment, "k6.12,NO_WA_BIAS") == "");
  REQUIRE(m.add(option, "NO_WA_IDLE") == "");
  CHECK(m.resolve().base->name == "k6.12");
  CHECK(!m.resolve().values.wa_bias);
  CHECK(!m.resolve().values.wa_idle);
}

TEST_CASE("settings: time_scale changes times and shifts only; presets change neither it nor preempt") {
  const settings kernel = resolved("time_scale=kernel");
  CHECK(kernel.tick_ns == 1'000'000);
  CHECK(kernel.migration_cost_ns == 500'000);
  CHECK(kernel.flip_decay_ns == 1'000'000'000);
  CHECK(kernel.pick_slot);  // the default column still
  CHECK(kernel.wake_wide_min_factor == 2);

  const settings k = resolved("k6.12");
  CHECK(k.time_scale == time_scale_t::scaled);
  CHECK(k.tick_ns == 10'000);
  CHECK(!k.pick_slot);
  CHECK(!k.wake_defer);
  CHECK(k.wake_wide_min_factor == 1);

  CHECK(resolved("k3.9_decayed").wa_burst_ns == 1'000);
  CHECK(resolved("k3.9_decayed,time_scale=kernel").wa_burst_ns == 100'000);

  settings_list l;
  REQUIRE(l.add(environment, "time_scale=kernel,preempt=on,NO_WA_BIAS") == "");
  REQUIRE(l.add(option, "default") == "");
  CHECK(l.resolve().values.time_scale == time_scale_t::kernel);
  CHECK(l.resolve().values.preempt);
  CHECK(l.resolve().values.wa_bias);
  CHECK(l.resolve().values.tick_ns == 1'000'000);
}

TEST_CASE("settings: every preset resolves, says what it changes, and `default` changes nothing") {
  for (const preset& p : presets()) {
    CAPTURE(p.name);
    settings_list l;
    REQUIRE(l.add(option, p.name) == "");
    const auto changed = l.resolve().changes();
    CHECK((p.name == "default") == changed.empty());
    for (const auto& c : changed) {
      CHECK(c.source == option);
      CHECK(c.row->name != "time_scale");
      CHECK(c.row->name != "preempt");
    }
  }
  const settings plain = resolved("ws_plain");
  CHECK(!plain.wake_affine);
  CHECK(plain.wake_wide == wake_wide_t::off);
  CHECK(!plain.lb);
  CHECK(plain.victims == victims_t::random);
  CHECK(plain.pick_slot);
}

TEST_CASE("settings: a change that needs a start is named") {
  settings_list l;
  REQUIRE(l.add(api, "NO_WAKE_AFFINE") == "");
  CHECK(first_start_difference(settings{}, l.resolve().values) == nullptr);
  REQUIRE(l.add(api, "accounting=exact") == "");
  const setting_row* row = first_start_difference(settings{}, l.resolve().values);
  REQUIRE(row != nullptr);
  CHECK(row->name == "accounting");
}

TEST_CASE("text: numbers with units are exact or refused") {
  CHECK(parse_duration_ns("30s") == 30'000'000'000);
  CHECK(parse_duration_ns("500us") == 500'000);
  CHECK(parse_duration_ns("10", 1'000'000'000) == 10'000'000'000);
  CHECK(parse_duration_ns("0.5") == std::nullopt);
  CHECK(parse_duration_ns("0.5", 1'000) == 500);
  CHECK(parse_duration_ns("30d") == int64_t{30} * 86'400 * 1'000'000'000);
  CHECK(parse_bytes("64KiB") == 65'536);
  CHECK(parse_bytes("1.5 MiB") == 1'572'864);
  CHECK(parse_integer("9223372036854775807") == INT64_MAX);
  for (const char* wrong : {"", "-", "abc", "1x", "1.", ".5", "1..5", "9223372036854775808", "1e3", "--1", "+1",
                            "99999999999999999999999999999999999999999999"}) {
    CAPTURE(wrong);
    CHECK(parse_integer(wrong) == std::nullopt);
    CHECK(parse_duration_ns(wrong) == std::nullopt);
  }
  CHECK(parse_duration_ns("300000000d") == std::nullopt);
}

TEST_CASE("text: near names are what fingers get wrong") {
  const std::vector<std::string> names{"wake_affine", "wake_wide", "wake_wide_idle", "lb", "sis"};
  CHECK(near_names("wake_wdie", names).front() == "wake_wide");
  CHECK(near_names("wake", names) == std::vector<std::string>{"wake_wide", "wake_affine", "wake_wide_idle"});
  CHECK(near_names("zzzz", names).empty());
}
