// Timed waits against notifications: each wait ends exactly once, as one of the two.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using heddle::core::rng;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

TEST_CASE("bug report 1: timed waits on one condition variable under notifications return once each") {
  heddle::runtime rt(quiet(2));
  const watchdog dog(rt);
  heddle::mutex m;
  heddle::condition_variable cv;
  std::atomic<bool> over{false};
  std::atomic<int64_t> calls{0}, timeouts{0}, notified{0}, unlocked{0};
  std::vector<heddle::fiber<void>> waiters;
  constexpr std::chrono::milliseconds limits[] = {0ms, 1ms, 50ms};
  for (int i = 0; i < 6; i++)
    waiters.push_back(rt.spawn([&, i] {
      while (!over) {
        std::unique_lock guard(m);
        calls++;
        (cv.wait_for(guard, limits[i % 3]) == std::cv_status::timeout ? timeouts : notified)++;
        if (!guard.owns_lock()) unlocked++;
        guard.unlock();
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(i % 2                     ? 0
                                                                                        : heddle_test::long_run() ? 5
                                                                                                                  : 1);
        while (std::chrono::steady_clock::now() < until) {
        }
      }
    }));
  rng random(heddle_test::seed());
  const auto end = std::chrono::steady_clock::now() + (heddle_test::long_run() ? 20s : 1s);
  auto notifier = rt.spawn([&] {
    while (std::chrono::steady_clock::now() < end) {
      heddle::this_fiber::sleep_for(std::chrono::microseconds(1000 + random.below(9000)));
      cv.notify_one();
    }
  });
  while (std::chrono::steady_clock::now() < end) {  // and a plain thread
    std::this_thread::sleep_for(1ms);
    cv.notify_all();
  }
  notifier.join();
  over = true;
  for (auto& f : waiters) f.join();
  CHECK(calls == timeouts + notified);
  CHECK(timeouts > 0);
  CHECK(notified > 0);
  CHECK(unlocked == 0);
}

TEST_CASE("bug report 4: short timed waits that nobody notifies all return, as timeouts, not early") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  std::atomic<int64_t> timeouts{0}, early{0};
  const int fibers = rounds(200, 1000), waits = rounds(50, 1000);
  constexpr std::chrono::nanoseconds limits[] = {0ns, 1us, 10us, 100us, 1ms};
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < fibers; i++)
    all.push_back(rt.spawn([&, i] {
      heddle::mutex m;
      heddle::condition_variable cv;
      for (int k = 0; k < waits; k++) {
        std::unique_lock guard(m);
        const auto limit = limits[(i + k) % 5];
        const auto began = std::chrono::steady_clock::now();
        if (cv.wait_for(guard, limit) == std::cv_status::timeout) timeouts++;
        if (std::chrono::steady_clock::now() - began < limit) early++;
      }
    }));
  for (auto& f : all) f.join();
  CHECK(timeouts == int64_t{fibers} * waits);
  CHECK(early == 0);
}

TEST_CASE("timed waits: a permit released at the deadline goes to the waiter or stays, never both and never neither") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::counting_semaphore<> s(0);
  std::atomic<int64_t> got{0};
  std::atomic<int> waiting{0};
  int64_t released = 0;
  const int each = rounds(3000, 300'000);
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 8; i++)
    all.push_back(rt.spawn([&, i] {
      for (int k = 0; k < each; k++) got += s.try_acquire_for(std::chrono::microseconds((i + k) % 10));
      waiting++;
    }));
  std::thread releaser([&] {
    while (waiting < 8) {
      s.release();
      released++;
      if (released % 4 == 0) std::this_thread::yield();
    }
  });
  std::thread acquirer([&] {
    while (waiting < 8) got += s.try_acquire_for(3us);
  });
  for (auto& f : all) f.join();
  releaser.join();
  acquirer.join();
  while (s.try_acquire()) got++;
  CHECK(got == released);
}

TEST_CASE("timed waits: a join that gives up when the fiber ends can be repeated and gets the result") {
  heddle::runtime rt(quiet()), other(quiet(1));
  const watchdog dog(rt);
  rng random(heddle_test::seed());
  const auto waits = [&](heddle::runtime& from, int count) {
    for (int i = 0; i < count; i++) {
      const auto length = std::chrono::microseconds(random.below(30));
      auto f = rt.spawn([length, i] {
        heddle::this_fiber::sleep_for(length);
        return i;
      });
      const auto wait = [&] {
        while (!f.join_until(std::chrono::steady_clock::now() + std::chrono::microseconds(i % 15))) {
        }
        return f.join();
      };
      CHECK((i % 3 ? from.run(wait) : wait()) == i);
    }
  };
  waits(rt, rounds(1000, 100'000));
  waits(other, rounds(300, 30'000));
}
