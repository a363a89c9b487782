#include "bench_apps/common/units.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/errors.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

TEST_CASE("units: durations take a unit, a bare number has the documented one") {
  CHECK(parse_duration("500us", 1s) == nanos{500us});
  CHECK(parse_duration("1.5ms", 1s) == nanos{1500us});
  CHECK(parse_duration("30", 1s) == nanos{30s});
  CHECK(parse_duration("10000", 1us) == nanos{10ms});
  CHECK(parse_duration("2min", 1s) == nanos{2min});
  CHECK(parse_duration("30d", 1s) == nanos{720h});
  CHECK(parse_duration("0", 1s) == nanos{0});
  CHECK(parse_duration("-5", 1s) == nanos{-5s});
}

TEST_CASE("units: what is no number, has an unknown unit or does not fit is refused") {
  for (const char* text :
       {"", "x", "5x", "5 s", "s", "nan", "inf", "-inf", "1e30", "9e18s", "0x10", "5ss", "--5", "1,5s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text, 1s));
  }
  for (const char* text : {"", "1.5", "1e30", "nan", "7k", " 7", "7 "}) {
    CAPTURE(text);
    CHECK_FALSE(parse_count(text));
  }
}

TEST_CASE("units: counts may be written 1e6") {
  CHECK(parse_count("1e6") == 1'000'000);
  CHECK(parse_count("-3") == -3);
}

TEST_CASE("units: sizes distinguish KiB from kB") {
  CHECK(parse_size("64KiB", 1) == 65536);
  CHECK(parse_size("64K", 1) == 65536);
  CHECK(parse_size("64kB", 1) == 64000);
  CHECK(parse_size("2MiB", 1) == 2 << 20);
  CHECK(parse_size("7", 1024) == 7168);
  CHECK_FALSE(parse_size("7 KiB", 1));
  CHECK_FALSE(parse_size("9e18KiB", 1));
}

TEST_CASE("units: a shown duration reads back as itself") {
  for (const nanos d :
       {nanos{0}, nanos{1}, nanos{1500ns}, nanos{30ms}, nanos{90s}, nanos{60s}, nanos{1000s}, nanos{720h}}) {
    CAPTURE(show_duration(d));
    CHECK(parse_duration(show_duration(d), 1s) == d);
  }
  CHECK(show_duration(90s) == "90s");
  CHECK(show_duration(720h) == "30d");
  CHECK(show_duration(1500us) == "1.5ms");
  CHECK(show_size(65536) == "64KiB");
}

TEST_CASE("cpu list: is written in the kernel's notation") {
  CHECK(show_cpu_list({0, 2, 3, 4, 5, 9}) == "0,2-5,9");
  CHECK(show_cpu_list({}).empty());
}

TEST_CASE("cpu list: what is chosen lies within what is allowed") {
  const auto allowed = allowed_cpus();
  const auto chosen = chosen_cpus("", "auto");
  CHECK_FALSE(chosen.empty());
  CHECK(std::ranges::includes(allowed, chosen));
  CHECK(chosen_cpus(std::to_string(allowed.back()), "auto") == std::vector<int>{allowed.back()});
  CHECK(chosen_cpus("", "1").size() == 1);
  CHECK_THROWS_AS(chosen_cpus("1,x", "auto"), usage_error);
  CHECK_THROWS_AS(chosen_cpus("99999", "auto"), usage_error);
}
