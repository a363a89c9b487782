#include <doctest/doctest.h>

#include "bench_apps/commands/presets.h"
#include "bench_apps/commands/settings.h"

using namespace heddle::bench;
using namespace heddle::core;

namespace {

chosen_settings chosen(std::string_view list) {
  settings_list l;
  REQUIRE(l.add(settings_source::option, list) == "");
  return l.resolve();
}

}  // namespace

TEST_CASE("settings command: JSON has every field of the contract, in the table's order") {
  const ordered_json list = settings_json(chosen("NO_WAKE_AFFINE,wa_burst_ns=1us"));
  REQUIRE(list.size() == setting_rows().size());
  for (size_t i = 0; i < list.size(); i++) {
    CHECK(list[i]["name"] == setting_rows()[i].name);
    for (const char* field :
         {"kind", "value", "default", "default_kernel", "range", "unit", "when", "source", "meaning"})
      CHECK(list[i].contains(field));
    if (list[i]["name"] == "wake_affine") {
      CHECK(list[i]["value"] == false);
      CHECK(list[i]["default"] == true);
      CHECK(list[i]["source"] == "option");
    }
    if (list[i]["name"] == "wa_burst_ns") CHECK(list[i]["value"] == 1000);
    if (list[i]["name"] == "migration_cost_ns") {
      CHECK(list[i]["default"] == "auto");
      CHECK(list[i]["default_kernel"] == 500'000);
      CHECK(list[i]["source"] == "default");
    }
  }
}

TEST_CASE("settings command: people read units, and what is in force") {
  const std::string text = settings_text(chosen("tick_ns=20000"));
  CHECK(text.find("20us") != text.npos);
  CHECK(text.find("in force: default, tick_ns=20000 (option)") != text.npos);
  const setting_row* cost = find_setting("migration_cost_ns");
  CHECK(show_setting(*cost, -1) == "-1");
  CHECK(show_setting(*cost, automatic) == "auto");
  CHECK(show_setting(*cost, 500'000) == "500us");
  CHECK(show_setting(*find_setting("stack_bytes"), 65'536) == "64KiB");
  // A row of the markdown table has as many cells as its head, whatever a range contains.
  const std::string markdown = settings_markdown();
  size_t bars = 0;
  for (size_t from = 0, line = 0; from < markdown.size(); line++) {
    const size_t to = markdown.find('\n', from);
    size_t count = 0;
    for (size_t i = from; i < to; i++) count += markdown[i] == '|';
    if (line == 0) bars = count;
    if (count != 0) CHECK(count == bars);
    from = to + 1;
  }
  CHECK(bars == 9);
}

TEST_CASE("presets command: each with what it changes") {
  const ordered_json list = presets_json();
  REQUIRE(list.size() == presets().size());
  for (const auto& p : list) {
    if (p["name"] == "default") CHECK(p["changed"].empty());
    if (p["name"] == "ws_plain") CHECK(p["changed"]["sis"] == "off");
    if (p["name"] == "k3.9") CHECK(p["changed"]["wa_form"] == "v39");
    CHECK(!p["changed"].contains("time_scale"));
  }
  const std::string text = presets_text();
  CHECK(text.find("ws_plain") != text.npos);
  CHECK(text.find("\n              accounting=exact") != text.npos);
}
