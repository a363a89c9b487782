#include "bench_apps/micro/calibrate.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "affinity/machines.h"
#include "bench_apps/common/common_options.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/run_settings.h"

using namespace heddle::bench;
using namespace heddle::bench::micro;

namespace {

outcomes measured() {
  outcomes found;
  const auto add = [&](const char* name, double value) {
    outcome o{.info = {name, ""},
              .values = {value},
              .median = value,
              .cpu_ns_per_op = {},
              .limit_here = {},
              .target_here = {}};
    found.figures.push_back(o);
  };
  add("switch_ns", 4.2);
  add("yield2_ns", 9.8);
  add("wake_ns", 31);
  add("spawn_join_ns", 55);
  add("pingpong_cross_ns", 800);
  add("anchor_line_ns", 200);
  add("anchor_futex_us", 4.5);
  return found;
}

std::string settings_from(const std::string& text) {
  const std::string path = "calibrate_test.costs";
  std::ofstream(path) << text;
  common_options o;
  o.costs = path;
  std::string list;
  try {
    list = o.settings_list();
  } catch (...) {
    std::remove(path.c_str());
    throw;
  }
  std::remove(path.c_str());
  return list;
}

}  // namespace

TEST_CASE("calibrate: what it prints is a --costs file, whose settings are the figures' differences") {
  const std::string text = costs_text(measured(), *heddle::core::make_named_machine("2x6"));
  const auto s = choose_settings(settings_from(text)).values;
  CHECK(s.vm_switch_ns == 4);
  CHECK(s.vm_op_ns == 6);
  CHECK(s.vm_wake_ns == 21);
  CHECK(s.vm_spawn_ns == 35);
  CHECK(s.vm_wake_polling_ns == 269);
  CHECK(s.vm_wake_parked_ns == 4500);
  CHECK(s.vm_line_far_ns == 100);  // the machine's first two CPUs are on two nodes
  CHECK(s.vm_line_llc_ns == heddle::core::automatic);
  CHECK(s.vm_deep_idle_ns == heddle::core::automatic);
  CHECK(text.find("# vm_deep_idle_ns: not measured here") != std::string::npos);
}

TEST_CASE("calibrate: a costs file that is none is refused in one line") {
  common_options o;
  o.costs = "/no/such.costs";
  CHECK_THROWS_AS(o.settings_list(), usage_error);
  CHECK_THROWS_AS(settings_from("not a setting\n"), usage_error);
  CHECK(settings_from("# nothing\n\n  vm_op_ns = 5  # five\n") == "vm_op_ns = 5");
}
