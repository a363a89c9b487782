// The timer heap alone, and sleeping: order, sweeping, never early.
#include "runtime/time/timers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using namespace heddle::core;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

// A fiber that waits, in epoch 1 unless told otherwise.
void wait_in(fiber_record& f, uint64_t epoch) { f.wait_state.store(wait_word(epoch, wait_phase::waiting)); }

}  // namespace

TEST_CASE("timers: come out by deadline, equal ones in the order in which they were armed") {
  rng random(heddle_test::seed());
  auto f = std::make_unique<fiber_record>();
  for (int round = 0; round < 200; round++) {
    timer_heap heap;
    const auto count = random.below(200) + 1;
    for (uint64_t i = 0; i < count; i++) {
      wait_in(
          *f,
          i + 1);  // the ones before are stale, but below the sweep's threshold or gone: popped ones are checked only
      heap.arm(nanos{static_cast<int64_t>(random.below(20))}, *f, i + 1);
    }
    CHECK(heap.first() >= 0);
    timer last{-1, 0, nullptr, 0};
    while (!heap.empty()) {
      CHECK(heap.first() >= last.at);
      const timer t = heap.pop();
      CHECK((t.at > last.at || (t.at == last.at && t.order > last.order) || last.fiber == nullptr));
      last = t;
    }
    CHECK(heap.first() == never.count());
  }
}

TEST_CASE("timers: a sweep removes the stale ones, keeps all others in order, and memory follows what lives") {
  rng random(heddle_test::seed() + 1);
  std::vector<std::unique_ptr<fiber_record>> fibers;
  for (int i = 0; i < 500; i++) {
    fibers.push_back(std::make_unique<fiber_record>());
    wait_in(*fibers.back(), 1);
  }
  timer_heap heap;
  std::vector<int64_t> expected;
  size_t swept = 0, most = 0;
  // 20,000 waits of which all but 500 ended early.
  for (int round = 0; round < 40; round++)
    for (size_t i = 0; i < fibers.size(); i++) {
      const auto epoch = static_cast<uint64_t>(round + 1);
      const auto at = static_cast<int64_t>(random.below(1'000'000));
      wait_in(*fibers[i], epoch);
      swept += heap.arm(nanos{at}, *fibers[i], epoch);
      most = std::max(most, heap.size());
      if (round == 39) expected.push_back(at);
    }
  CHECK(swept > 15'000);
  CHECK(most <= 4 * fibers.size());
  std::sort(expected.begin(), expected.end());
  std::vector<int64_t> live;
  for (int64_t last = 0; !heap.empty();) {
    const timer t = heap.pop();
    CHECK(t.at >= last);
    last = t.at;
    if (!t.stale()) live.push_back(t.at);
  }
  CHECK(live == expected);
}

TEST_CASE("timers: take_all gives everything and leaves an empty heap that works") {
  timer_heap heap;
  auto f = std::make_unique<fiber_record>();
  wait_in(*f, 1);
  for (int i = 0; i < 100; i++) heap.arm(nanos{i}, *f, 1);
  CHECK(heap.take_all().size() == 100);
  CHECK(heap.empty());
  heap.arm(nanos{5}, *f, 1);
  CHECK(heap.pop().at == 5);
}

TEST_CASE("timers: a sleep never ends early, in fibers and plain threads, however many there are") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  std::atomic<int> early{0};
  const auto sleeps = [&](int i) {
    for (int k = 0; k < rounds(20, 1000); k++) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds((i * 37 + k * 101) % 1500);
      if (k % 2)
        heddle::this_fiber::sleep_until(until);
      else
        heddle::this_fiber::sleep_for(until - std::chrono::steady_clock::now());
      if (std::chrono::steady_clock::now() < until) early++;
    }
  };
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 200; i++) all.push_back(rt.spawn([&, i] { sleeps(i); }));
  sleeps(7);
  for (auto& f : all) f.join();
  CHECK(early == 0);
}

TEST_CASE("timers: sleepers with one deadline wake in the order in which they lay down") {
  heddle::runtime rt(quiet(1));
  const watchdog dog(rt);
  std::vector<int> order;
  rt.run([&] {
    const auto until = std::chrono::steady_clock::now() + 20ms;
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 100; i++)
      all.push_back(heddle::spawn([&, i] {
        heddle::detail::suspend(heddle::detail::pick_sleep(until.time_since_epoch().count()));
        order.push_back(i);
      }));
    for (auto& f : all) f.join();
  });
  REQUIRE(order.size() == 100);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("timers: operations that become rare do not make them late") {
  // 5 ms between two operations, after many quick ones had taught the worker to look at the clock only every so many of them.
  heddle::runtime rt({.machine = heddle::machine::synthetic("core:1 pu:1"), .read_environment = false});
  const auto late = rt.run([] {
    bool stop = false;
    auto computing = heddle::spawn([&] {
      for (int i = 0; i < 10'000; i++) heddle::this_fiber::yield();
      while (!stop) {
        heddle::this_fiber::burn(5ms);
        heddle::this_fiber::yield();
      }
    });
    std::chrono::nanoseconds most{0};
    for (int i = 0; i < 20; i++) {
      const auto until = heddle::this_fiber::now() + 7ms;
      heddle::this_fiber::sleep_for(7ms);
      most = std::max(most, heddle::this_fiber::now() - until);
    }
    stop = true;
    computing.join();
    return most;
  });
  CHECK(
      late <
      11ms);  // the one that computes, and once more if the timer came just after its look; without the monitor's look 78
}
