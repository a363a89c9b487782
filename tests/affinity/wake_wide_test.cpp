#include "affinity/wake_wide.h"

#include <doctest/doctest.h>

using namespace heddle::core;

namespace {

settings with(wake_wide_t rule, int64_t min_factor = 1) {
  settings s;
  s.wake_wide = rule;
  s.wake_wide_min_factor = min_factor;
  s.flip_decay_ns = 1'000'000'000;
  return s;
}

bool wide(wake_wide_t rule, uint32_t waker, uint32_t wakee, int64_t factor) {
  const wake_memory a{.flips = waker};
  const wake_memory b{.flips = wakee};
  return wake_wide(with(rule), &a, &b, factor);
}

}  // namespace

TEST_CASE("TV-WW-1: flips settle at twice what half a period brings") {
  const settings s = with(wake_wide_t::v43);
  for (const auto& [rate, expected] : {std::pair{1000, std::vector<uint32_t>{500, 750, 875, 937, 968, 984, 992, 996}},
                                       std::pair{40, std::vector<uint32_t>{20, 30, 35, 37, 38, 39, 39}}}) {
    wake_memory waker;
    // rate changes of partner in each second, then the first wake of the next second halves.
    uint32_t partner = 1;
    for (size_t second = 0; second < expected.size(); second++) {
      for (int i = 0; i < rate; i++)
        record_wakee(s, waker, partner++, nanos{static_cast<int64_t>(second) * 1'000'000'001 + i});
      record_wakee(s, waker, partner - 1, nanos{static_cast<int64_t>(second + 1) * 1'000'000'001});
      CHECK(waker.flips == expected[second]);
    }
  }
}

TEST_CASE("TV-WW-2: the rules of 3.12 and 4.3") {
  struct row {
    uint32_t waker, wakee;
    int64_t factor;
    bool old_rule, new_rule;
  };
  for (const row& r : {row{0, 0, 4, false, false},
                       {16, 4, 4, false, true},
                       {15, 4, 4, false, false},
                       {17, 4, 4, false, true},
                       {21, 5, 4, true, true},
                       {20, 5, 4, false, true},
                       {4, 16, 4, false, true},
                       {100, 3, 4, false, false},
                       {1600, 40, 40, false, true},
                       {1600, 39, 40, false, false},
                       {1681, 41, 40, true, true},
                       {1640, 41, 40, false, true},
                       {1, 1, 1, false, true},
                       {2, 2, 1, false, true},
                       {0, 5, 1, false, false}}) {
    CAPTURE(r.waker);
    CAPTURE(r.wakee);
    CAPTURE(r.factor);
    CHECK(wide(wake_wide_t::v312, r.waker, r.wakee, r.factor) == r.old_rule);
    CHECK(wide(wake_wide_t::v43, r.waker, r.wakee, r.factor) == r.new_rule);
    CHECK(!wide(wake_wide_t::off, r.waker, r.wakee, r.factor));
  }
}

TEST_CASE("INV-WW1: a strict pair never becomes wide") {
  const settings s = with(wake_wide_t::v43, 2);
  wake_memory a, b;
  for (int64_t i = 0; i < 10'000; i++) {
    record_wakee(s, a, 2, nanos{i * 1'000'000});
    record_wakee(s, b, 1, nanos{i * 1'000'000});
    CHECK(a.flips <= 1);
    CHECK(!wake_wide(s, &a, &b, 1));
  }
}

TEST_CASE("INV-WW2: a dispatcher whose wakees know only it is not wide") {
  const settings s = with(wake_wide_t::v43, 2);
  wake_memory dispatcher;
  std::vector<wake_memory> wakees(16);
  for (int64_t i = 0; i < 20'000; i++) {
    const auto k = static_cast<uint32_t>(i % 16);
    record_wakee(s, dispatcher, 100 + k, nanos{i * 100'000});
    record_wakee(s, wakees[k], 1, nanos{i * 100'000 + 50'000});
    CHECK(wakees[k].flips <= 1);
    CHECK(!wake_wide(s, &dispatcher, &wakees[k], 2));
  }
  CHECK(dispatcher.flips > 1000);
}

TEST_CASE("INV-WW3: whatever 3.12 calls wide, 4.3 does too") {
  for (int64_t factor : {1, 2, 4, 8, 20})
    for (uint32_t a = 0; a <= 200; a++)
      for (uint32_t b = 0; b <= 200; b++)
        if (wide(wake_wide_t::v312, a, b, factor)) REQUIRE(wide(wake_wide_t::v43, a, b, factor));
}

TEST_CASE("wake_wide: one decay per call, by half or to zero, and an LLC of one CPU counts as the least factor") {
  settings s = with(wake_wide_t::v43);
  wake_memory waker{.flips = 64, .last_wakee = 7};
  record_wakee(s, waker, 7, nanos{10'000'000'001});  // ten periods late
  CHECK(waker.flips == 32);
  record_wakee(s, waker, 7, nanos{10'500'000'000});  // not due
  CHECK(waker.flips == 32);
  s.flip_decay_mode = flip_decay_mode_t::zero;
  record_wakee(s, waker, 7, nanos{20'000'000'000});
  CHECK(waker.flips == 0);

  const wake_memory one{.flips = 1};
  CHECK(wake_wide(with(wake_wide_t::v43, 1), &one, &one, 1));
  CHECK(!wake_wide(with(wake_wide_t::v43, 2), &one, &one, 1));
  CHECK(!wake_wide(with(wake_wide_t::v43, 1), nullptr, &one, 1));
  CHECK(!wake_wide(with(wake_wide_t::v43, 1), &one, nullptr, 1));
}

TEST_CASE("wake_wide_idle: the dispatcher is the side with more flips") {
  settings s;
  const wake_memory master{.flips = 100};
  const wake_memory slave{.flips = 10};
  CHECK(!wide_looks_beyond(s, slave, master));
  s.wake_wide_idle = wake_wide_idle_t::dispatcher;
  CHECK(wide_looks_beyond(s, slave, master));
  CHECK(!wide_looks_beyond(s, master, slave));
  s.wake_wide_idle = wake_wide_idle_t::both;
  CHECK(wide_looks_beyond(s, master, slave));
}
