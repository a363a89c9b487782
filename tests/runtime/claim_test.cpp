// Queues taken over from workers that stand still: nothing lost, nothing twice, nobody starves behind a fiber that does not
// suspend. Hogs here spin until those behind them have run, so a worker that could not be robbed would hang the test.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using heddle::core::rng;
using heddle_test::await_dump;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

template <class Condition>
void hog_until(Condition&& condition) {
  while (!condition()) {
  }
}

bool alone(const heddle::runtime& rt) { return rt.workers() < 2; }

// The CPU of each worker, found by looking where fibers run.
std::vector<int> worker_cpus(heddle::runtime& rt) {
  std::vector<int> cpus;
  for (int os = 0; os < 4096 && cpus.size() < rt.workers(); os++) {
    try {
      cpus.push_back(rt.spawn({.cpu = os}, [] { return heddle::this_fiber::cpu(); }).join());
    } catch (const std::invalid_argument&) {
    }
  }
  return cpus;
}

}  // namespace

TEST_CASE("claim: what waits behind a fiber that never suspends is taken over, from list, slot and inbox") {
  heddle::runtime rt(quiet());
  if (alone(rt)) return;
  const watchdog dog(rt);
  for (int round = 0; round < rounds(200, 20'000); round++) {
    // By the list: spawned, then the spawner hogs.
    rt.run([] {
      std::atomic<int> ran{0};
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 10; i++) all.push_back(heddle::spawn([&] { ran++; }));
      hog_until([&] { return ran == 10; });
      for (auto& f : all) f.join();
    });
    // By the slot: woken, then the waker hogs.
    rt.run([] {
      heddle::counting_semaphore<> go(0), waits(0);
      std::atomic<bool> ran{false};
      auto wakee = heddle::spawn([&] {
        waits.release();
        go.acquire();
        ran = true;
      });
      waits.acquire();
      go.release();
      hog_until([&] { return ran.load(); });
      wakee.join();
    });
    // By the inbox: sent from outside to any worker, while hogs hold all but one.
    std::atomic<int> hogs{0}, ran{0};
    std::vector<heddle::fiber<void>> all;
    for (size_t i = 1; i < rt.workers(); i++)
      all.push_back(rt.spawn([&] {
        hogs++;
        hog_until([&] { return ran == 5; });
      }));
    hog_until([&] { return hogs == static_cast<int>(rt.workers()) - 1; });
    for (int i = 0; i < 5; i++) all.push_back(rt.spawn([&] { ran++; }));
    for (auto& f : all) f.join();
  }
}

TEST_CASE("claim: timers behind a fiber that never suspends fire elsewhere") {
  heddle::runtime rt(quiet());
  if (alone(rt)) return;
  const watchdog dog(rt);
  for (int round = 0; round < rounds(20, 1000); round++)
    rt.run([] {
      std::atomic<int> woke{0};
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 5; i++)
        all.push_back(heddle::spawn([&, i] {
          heddle::this_fiber::sleep_for(std::chrono::microseconds(200 * i));
          woke++;
        }));
      heddle::this_fiber::yield();
      hog_until([&] { return woke == 5; });
      for (auto& f : all) f.join();
    });
}

// It counts as progress for thieves and monitor, so the worker itself must give away what waits. The slot too: it used to be
// kept for a next switch that never came.
TEST_CASE("claim: a fiber that operates without ever suspending does not starve what it woke or spawned") {
  heddle::runtime rt(quiet());
  if (alone(rt)) return;
  const watchdog dog(rt);
  for (int round = 0; round < rounds(50, 5000); round++)
    rt.run([] {
      heddle::counting_semaphore<> go(0), waits(0), none(0);
      std::atomic<bool> woken_ran{false}, spawned_ran{false};
      auto wakee = heddle::spawn([&] {
        waits.release();
        go.acquire();
        woken_ran = true;
      });
      waits.acquire();
      go.release();
      hog_until([&] { return none.try_acquire() || woken_ran; });
      auto spawned = heddle::spawn([&] { spawned_ran = true; });
      hog_until([&] { return none.try_acquire() || spawned_ran; });
      wakee.join();
      spawned.join();
    });
}

TEST_CASE("claim: hogs, yielders, sleepers and spawners mixed, pinned and free: each runs once") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  const std::vector<int> cpus = worker_cpus(rt);
  REQUIRE(cpus.size() == rt.workers());
  rng random(heddle_test::seed());
  for (int round = 0; round < rounds(10, 500); round++) {
    constexpr int count = 400;
    std::unique_ptr<std::atomic<int>[]> runs(new std::atomic<int>[2 * count]());
    std::atomic<int> strayed{0};
    heddle::counting_semaphore<> shared(2);
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < count; i++) {
      const int pin = random.below(3) == 0 ? cpus[random.below(cpus.size())] : -1;
      const auto kind = random.below(5);
      const auto amount = static_cast<int>(random.below(50));
      all.push_back(rt.spawn({.cpu = pin}, [&, i, pin, kind, amount] {
        const auto here = [&] { strayed += pin >= 0 && heddle::this_fiber::cpu() != pin; };
        here();
        switch (kind) {
          case 0: {
            const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(amount * 4);
            hog_until([&] { return std::chrono::steady_clock::now() >= until; });
            break;
          }
          case 1:
            for (int k = 0; k < amount; k++) {
              heddle::this_fiber::yield();
              here();
            }
            break;
          case 2:
            heddle::this_fiber::sleep_for(std::chrono::microseconds(amount * 5));
            here();
            break;
          case 3:
            heddle::spawn([&, i] { runs[static_cast<size_t>(count + i)]++; }).join();
            here();
            break;
          default:
            for (int k = 0; k < amount; k++) {
              shared.acquire();
              here();
              shared.release();
            }
        }
        if (kind != 3) runs[static_cast<size_t>(count + i)]++;
        runs[static_cast<size_t>(i)]++;
      }));
    }
    for (auto& f : all) f.join();
    int wrong = 0;
    for (size_t i = 0; i < 2 * count; i++) wrong += runs[i] != 1;
    CHECK(wrong == 0);
    CHECK(strayed == 0);
    CHECK(rt.stats().fibers_live == 0);
  }
}

// The monitor empties the inbox of a worker that stands still. What may run only there used to come back in reverse.
TEST_CASE("claim: pinned fibers that wait behind a hog are run in the order in which they were sent, each producer's") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  const int cpu = worker_cpus(rt).front();
  for (int round = 0; round < rounds(20, 1000); round++) {
    std::atomic<bool> hogs{false}, over{false};
    auto hog = rt.spawn({.cpu = cpu}, [&] {
      hogs = true;
      hog_until([&] { return over.load(); });
    });
    hog_until([&] { return hogs.load(); });
    constexpr int producers = 3, each = 30;
    std::vector<int> order[producers];
    std::vector<heddle::fiber<void>> sent[producers];
    std::vector<std::thread> threads;
    for (int p = 0; p < producers; p++)
      threads.emplace_back([&, p] {
        for (int n = 0; n < each; n++) {
          sent[p].push_back(rt.spawn({.cpu = cpu}, [&order, p, n] { order[p].push_back(n); }));
          if (n % 10 == 0) std::this_thread::sleep_for(300us);  // so that the monitor comes by in between
        }
      });
    for (auto& t : threads) t.join();
    std::this_thread::sleep_for(std::chrono::microseconds(round % 4 * 400));
    over = true;
    hog.join();
    for (auto& list : sent)
      for (auto& f : list) f.join();
    for (const auto& seen : order) {
      REQUIRE(seen.size() == each);
      for (int n = 0; n < each; n++) CHECK(seen[static_cast<size_t>(n)] == n);
    }
  }
}

TEST_CASE("claim: unfinished fibers survive a storm of claims while everybody yields") {
  // claim_after_ns=0: every unanswered look becomes a claim at once.
  heddle::runtime rt({.settings = "claim_after_ns=0,rescue_ns=10000", .read_environment = false});
  const watchdog dog(rt);
  std::atomic<int64_t> steps{0};
  const int each = rounds(2000, 200'000);
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 30; i++)
    all.push_back(rt.spawn([&, i] {
      for (int k = 0; k < each; k++) {
        if ((i + k) % 64 == 0)
          heddle::this_fiber::sleep_for(5us);
        else
          heddle::this_fiber::yield();
        steps++;
      }
    }));
  for (auto& f : all) f.join();
  CHECK(steps == int64_t{30} * each);
}

TEST_CASE("claim: a fiber that yields alone is not taken for a stuck one") {
  heddle::runtime rt({.workers = 1, .settings = "rescue_ns=10000", .read_environment = false});
  const watchdog dog(rt);
  rt.run([] {
    for (int i = 0; i < 200'000; i++) heddle::this_fiber::yield();
  });
  CHECK(rt.stats().counters["rescues"] == 0);
}
