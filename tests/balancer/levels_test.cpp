#include "balancer/levels.h"

#include <doctest/doctest.h>

namespace {
using namespace heddle::core;

settings kernel_times() {
  settings s;
  s.tick_ns = s.balance_unit_ns = 1'000'000;
  s.max_balance_interval_unit_ns = 100'000'000;
  return s;
}

sched_span span_of(uint32_t flags, size_t weight) {
  sched_span s;
  s.flags = flags;
  s.weight = weight;
  s.span = cpu_set::first(weight);
  return s;
}
}  // namespace

TEST_CASE("TV-DOM-1: intervals of a busy and an idle CPU, before and after a balanced pass") {
  struct vector {
    uint64_t weight;
    int64_t idle_ms, busy_ms, idle_after_ms, busy_after_ms;
  };
  const settings set = kernel_times();
  for (const vector& v :
       {vector{2, 2, 31, 4, 63}, vector{4, 4, 63, 8, 127}, vector{8, 8, 127, 16, 255}, vector{16, 16, 255, 32, 511}}) {
    const sched_span span = span_of(df_share_llc, v.weight);
    const level_constants c = constants_of({&span, 0}, set);
    CHECK(c.min_interval == v.weight);
    CHECK(c.max_interval == 2 * v.weight);
    const uint64_t grown = grown_interval(c.min_interval, false, c);
    CHECK(interval_of(c.min_interval, false, 16, set) == nanos{v.idle_ms * 1'000'000});
    CHECK(interval_of(c.min_interval, true, 16, set) == nanos{v.busy_ms * 1'000'000});
    CHECK(interval_of(grown, false, 16, set) == nanos{v.idle_after_ms * 1'000'000});
    CHECK(interval_of(grown, true, 16, set) == nanos{v.busy_after_ms * 1'000'000});
  }
}

TEST_CASE(
    "levels: an interval is at least a tick and at most the machine's longest; without interval_minus_one no tick is "
    "saved") {
  settings set = kernel_times();
  CHECK(interval_of(0, false, 16, set) == nanos{set.tick_ns});
  CHECK(interval_of(1'000'000, true, 16, set) == nanos{1'600'000'000});
  set.interval_minus_one = false;
  CHECK(interval_of(2, true, 16, set) == nanos{32'000'000});
  set.busy_factor = 64;
  CHECK(interval_of(2, true, 16, set) == nanos{128'000'000});
}

TEST_CASE("TV-BO-1: a balanced level is looked at ever less often, up to a limit") {
  const sched_span span = span_of(df_share_llc, 4);
  const level_constants c = constants_of({&span, 0}, kernel_times());
  uint64_t interval = c.min_interval;
  CHECK((interval = grown_interval(interval, false, c)) == 8);
  CHECK((interval = grown_interval(interval, false, c)) == 8);
  interval = c.min_interval;
  for (uint64_t expected = 8; expected <= 512; expected *= 2)
    CHECK((interval = grown_interval(interval, true, c)) == expected);
  CHECK(grown_interval(interval, true, c) == 512);
}

TEST_CASE("levels: constants by level") {
  settings set;
  set.imbalance_pct_smt = 110;
  set.imbalance_pct_llc = 117;
  set.imbalance_pct_numa = 125;
  set.cache_nice_tries_numa = 2;
  const auto of = [&](uint32_t flags) {
    const sched_span span = span_of(flags, 2);
    return constants_of({&span, 0}, set);
  };
  CHECK(of(df_share_capacity | df_share_llc).imbalance_pct == 110);
  CHECK(of(df_share_llc).imbalance_pct == 117);
  CHECK(of(0).imbalance_pct == 125);
  CHECK(of(df_numa).imbalance_pct == 125);
  CHECK(of(df_share_capacity | df_share_llc).cache_nice_tries == 0);
  CHECK(of(df_share_llc).cache_nice_tries == 1);
  CHECK(of(0).cache_nice_tries == 1);
  CHECK(of(df_numa).cache_nice_tries == 2);
}
