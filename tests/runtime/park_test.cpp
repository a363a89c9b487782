// Sleeping workers: a wake-up from anywhere is never lost, and whoever waits costs nothing.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "runtime/fiber/context.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using heddle::core::rng;
using heddle_test::await_dump;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

std::chrono::nanoseconds cpu_time() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(u.ru_utime) + of(u.ru_stime);
}

}  // namespace

TEST_CASE("bug report 2: a plain thread's spawn is run and its join ends, with all workers asleep") {
  for (const char* idle : {"idle=adaptive", "idle=park"}) {
    heddle::runtime rt({.settings = idle, .read_environment = false});
    const watchdog dog(rt);
    rng random(heddle_test::seed());
    const int all = rounds(10'000, 10'000);
    int64_t ran = 0;
    std::thread outsider([&] {
      for (int i = 0; i < all; i++) {
        ran += rt.spawn([] { return 1; }).join();
        // From none to longer than a worker polls.
        if (i % 8 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(heddle_test::long_run() ? 2000 : 200)));
      }
    });
    outsider.join();
    CHECK(ran == all);
    CHECK(rt.stats().counters["parks"] > 0);
  }
}

TEST_CASE("parking: two plain threads and the workers wake each other for ever without a lost wake-up") {
  heddle::runtime rt({.settings = "idle=park", .read_environment = false});
  const watchdog dog(rt);
  heddle::counting_semaphore<> to_fiber[2] = {heddle::counting_semaphore<>(0), heddle::counting_semaphore<>(0)};
  heddle::counting_semaphore<> to_thread[2] = {heddle::counting_semaphore<>(0), heddle::counting_semaphore<>(0)};
  const int all = rounds(3000, 300'000);
  std::vector<heddle::fiber<void>> fibers;
  std::vector<std::thread> threads;
  for (int side = 0; side < 2; side++) {
    fibers.push_back(rt.spawn([&, side] {
      for (int i = 0; i < all; i++) {
        to_fiber[side].acquire();
        to_thread[side].release();
      }
    }));
    threads.emplace_back([&, side] {
      for (int i = 0; i < all; i++) {
        to_fiber[side].release();
        to_thread[side].acquire();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (auto& f : fibers) f.join();
}

TEST_CASE("parking: timers end the sleep of a worker that nobody wakes") {
  heddle::runtime rt({.settings = "idle=park,NO_MONITOR", .read_environment = false});
  const watchdog dog(rt);
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 20; i++)
    all.push_back(rt.spawn([i] {
      for (int k = 0; k < rounds(30, 1000); k++) heddle::this_fiber::sleep_for(std::chrono::microseconds(i * 100));
    }));
  for (auto& f : all) f.join();
}

TEST_CASE("bug report 3: a hundred fibers that wait for ever use less than a hundredth of a core") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::mutex m;
  heddle::condition_variable cv;
  bool over = false;
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 100; i++)
    all.push_back(rt.spawn([&] {
      std::unique_lock guard(m);
      cv.wait(guard, [&] { return over; });
    }));
  await_dump(rt, "waiting on condition_variable", 100);
  std::this_thread::sleep_for(20ms);  // the budgets of those who poll
  const auto before = cpu_time();
  const auto watched = heddle_test::long_run() ? 5s : 2s;
  std::this_thread::sleep_for(watched);
  const auto used = cpu_time() - before;
#if HEDDLE_ASAN || HEDDLE_TSAN
  const auto allowed = std::chrono::nanoseconds(watched) / 20;  // their own background threads count
#else
  const auto allowed = std::chrono::nanoseconds(watched) / 100;
#endif
  CHECK(used < allowed);
  {
    std::lock_guard guard(m);
    over = true;
  }
  cv.notify_all();
  for (auto& f : all) f.join();
}
