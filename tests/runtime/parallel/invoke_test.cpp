// Forked tasks: each runs once, may block anywhere, hides nothing behind a long one, and its parent returns after it. On real threads
// for the races, on virtual machines for the schedules.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/parallel.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using heddle::bulk;
using heddle::invoke;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

heddle::runtime_options on(std::string machine, uint64_t seed = 1, std::string settings = {}) {
  return {.machine = heddle::machine::named(std::move(machine)),
          .settings = std::move(settings),
          .seed = seed,
          .log = [](heddle::severity, std::string_view) {},
          .read_environment = false};
}

uint64_t fib(int n) {
  if (n < 2) return static_cast<uint64_t>(n);
  uint64_t a = 0, b = 0;
  invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

// A tree of forks of two to four branches, whose leaves do what `leaf` says. Returns the number of leaves.
template <class Leaf>
int tree(int depth, Leaf& leaf) {
  if (depth == 0) {
    leaf();
    return 1;
  }
  int n[4] = {};
  switch (depth % 3) {
    case 0:
      invoke([&] { n[0] = tree(depth - 1, leaf); }, [&] { n[1] = tree(depth - 1, leaf); });
      break;
    case 1:
      invoke([&] { n[0] = tree(depth - 1, leaf); }, [&] { n[1] = tree(depth - 1, leaf); },
             [&] { n[2] = tree(depth - 1, leaf); });
      break;
    default:
      bulk(4, [&](int i) { n[i] = tree(depth - 1, leaf); });
  }
  return std::accumulate(n, n + 4, 0);
}

// All that may block, in the leaves of a tree.
void block_everywhere(uint64_t seed) {
  heddle::core::rng random(seed);
  heddle::mutex m;
  heddle::channel<int> queue(2);
  heddle::counting_semaphore<> permits(1);
  std::atomic<int> step{0};
  int inside = 0, overlaps = 0, pushed = 0, popped = 0;
  auto leaf = [&] {
    const int mine = step++;
    switch (mine % 6) {
      case 0:
        heddle::this_fiber::sleep_for(std::chrono::microseconds(10 * (mine % 7)));
        break;
      case 1: {
        m.lock();
        overlaps += inside++ != 0;
        heddle::this_fiber::sleep_for(5us);
        inside--;
        m.unlock();
        break;
      }
      case 2:
        queue.push(mine);
        break;  // waits for a task that pops, wherever it is
      case 3:
        (void)queue.pop();
        break;
      case 4:
        permits.acquire();
        heddle::this_fiber::yield();
        permits.release();
        break;
      default:
        heddle::spawn([] { heddle::this_fiber::sleep_for(3us); }).join();
    }
    m.lock();
    pushed += mine % 6 == 2;
    popped += mine % 6 == 3;
    m.unlock();
  };
  const int leaves = tree(4, leaf);
  CHECK(leaves == step);
  CHECK(overlaps == 0);
  while (popped < pushed) popped += queue.pop().has_value();  // what the last pushes left
}

// The last thieves may be on their way out when the root has ended already.
void check_ended(heddle::runtime& rt) {
  while (rt.stats().fibers_live != 0) heddle::this_fiber::sleep_for(100us);
  auto stats = rt.stats();
  CHECK(stats.counters["spawned"] == stats.counters["finished"]);
  CHECK(stats.fibers_live == 0);
}

}  // namespace

TEST_CASE("invoke: the right sum on 1 and 2 workers, time after time") {
  for (size_t workers : {1, 2}) {
    heddle::runtime rt(quiet(workers));
    const watchdog dog(rt);
    for (int round = 0; round < rounds(30, 3000); round++) CHECK(rt.run([] { return fib(20); }) == 6765);
    check_ended(rt);
  }
}

TEST_CASE("invoke: many fork-joins at once, among fibers that yield and sleep") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  for (int round = 0; round < rounds(5, 500); round++) {
    std::vector<heddle::fiber<uint64_t>> sums;
    for (int i = 0; i < 20; i++)
      sums.push_back(rt.spawn([i] {
        for (int k = 0; k < i; k++) k % 5 ? heddle::this_fiber::yield() : heddle::this_fiber::sleep_for(20us);
        return fib(12 + i % 5);
      }));
    for (size_t i = 0; i < sums.size(); i++) {
      constexpr uint64_t expected[] = {144, 233, 377, 610, 987};
      CHECK(sums[i].join() == expected[i % 5]);
    }
  }
  check_ended(rt);
}

TEST_CASE("invoke: virtual machines of 1 to 64 cpus, and the same trace twice") {
  for (const char* machine : {"pu:1", "core:2 pu:1", "1x4x2", "2x6", "pack:4 [numa] core:16 pu:1"})
    for (const char* settings : {"default", "idle=park", "idle=poll", "k6.12"}) {
      CAPTURE(machine);
      CAPTURE(settings);
      const auto once = [&] {
        heddle::runtime rt(on(machine, 1, settings));
        const uint64_t sum = rt.run([] {
          auto leaf = [] { heddle::this_fiber::burn(2us); };
          return fib(8) + static_cast<uint64_t>(tree(5, leaf));
        });
        check_ended(rt);
        CHECK(sum == 21 + 288);
        return rt.stats().counters["vm_trace_hash"];
      };
      CHECK(once() == once());
    }
}

TEST_CASE("invoke: work is spread: n cpus need an nth of the time") {
  for (const char* machine : {"core:2 pu:1", "core:8 pu:1", "2x6"}) {
    CAPTURE(machine);
    heddle::runtime rt(on(machine));
    const auto cpus = static_cast<int>(rt.workers());
    const auto took = rt.run([&] {
      const auto began = heddle::this_fiber::now();
      bulk(16 * cpus, [](int) { heddle::this_fiber::burn(100us); });
      return heddle::this_fiber::now() - began;
    });
    CHECK(took >= 1600us);
    CHECK(took < 2100us);
  }
}

TEST_CASE("invoke: every leaf may block, with one worker too") {
  for (const char* machine : {"pu:1", "core:2 pu:1", "2x4"})
    for (uint64_t seed = 0; seed < 20; seed++) {
      CAPTURE(machine);
      CAPTURE(seed);
      heddle::runtime rt(on(machine, seed));
      rt.run([&] { block_everywhere(seed); });
      check_ended(rt);
    }
  for (size_t workers : {1, 2}) {
    heddle::runtime rt(quiet(workers));
    const watchdog dog(rt);
    for (int round = 0; round < rounds(10, 1000); round++)
      rt.run([&] { block_everywhere(heddle_test::seed() + static_cast<uint64_t>(round)); });
    check_ended(rt);
  }
}

TEST_CASE("invoke: tasks may wait for each other, whatever the order in which they begin") {
  for (const char* machine : {"pu:1", "core:2 pu:1"}) {
    heddle::runtime rt(on(machine));
    rt.run([] {
      for (int waits = 0; waits < 4; waits++) {
        heddle::latch others(3);
        const auto part = [&](int i) { i == waits ? others.wait() : others.count_down(); };
        bulk(4, part);
        heddle::latch more(3);
        const auto call = [&](int i) { i == waits ? more.wait() : more.count_down(); };
        invoke([&] { call(0); }, [&] { call(1); }, [&] { call(2); }, [&] { call(3); });
      }
    });
  }
}

TEST_CASE("invoke: the first exception is rethrown, after all have ended") {
  for (size_t workers : {1, 2}) {
    heddle::runtime rt(quiet(workers));
    const watchdog dog(rt);
    rt.run([] {
      for (int thrower = 0; thrower < 3; thrower++) {
        std::atomic<int> ended{0};
        const auto part = [&](int i) {
          if (i == 1) heddle::this_fiber::sleep_for(100us);  // time to be stolen
          ended++;
          if (i == thrower) throw std::runtime_error("of " + std::to_string(i));
        };
        CHECK_THROWS_WITH(invoke([&] { part(0); }, [&] { part(1); }, [&] { part(2); }),
                          ("of " + std::to_string(thrower)).c_str());
        CHECK(ended == 3);
        ended = 0;
        CHECK_THROWS_AS(bulk(3, part), std::runtime_error);
        CHECK(ended == 3);
      }
      // Of two, the one that comes first; neither is lost on the way.
      CHECK_THROWS_AS(invoke([] { throw 1; }, [] { throw 2; }), int);
    });
    check_ended(rt);
  }
}

TEST_CASE("invoke: a task that was taken is finished before its parent's frame goes, also at shutdown") {
  heddle::runtime rt(on("core:2 pu:1"));
  bool inner = false;
  auto f = rt.spawn([&] {
    int local = 0;
    try {
      invoke([] { heddle::this_fiber::burn(1ms); },
             [&] {
               try {
                 heddle::this_fiber::sleep_for(1h);
               } catch (const heddle::shutdown_error&) {
                 heddle::this_fiber::burn(1ms);
                 local = 1;
                 throw;
               }
             });
    } catch (const heddle::shutdown_error&) {
      inner = local == 1;
    }
  });
  heddle::this_fiber::sleep_for(5ms);
  CHECK(rt.shutdown(1s).stuck.empty());
  f.join();
  CHECK(inner);
}

// The owner neither forks nor joins while it computes: what it has pending must be taken without its help.
TEST_CASE("invoke: an idle cpu does not wait beside a task, however long its parent computes") {
  for (const char* settings : {"default", "idle=park", "idle=poll"})
    for (const char* machine : {"core:2 pu:1", "2x6"}) {
      CAPTURE(settings);
      CAPTURE(machine);
      heddle::runtime rt(on(machine, 1, settings));
      rt.run([] {
        for (int late = 0; late < 3; late++) {
          std::chrono::nanoseconds began{};
          const auto forked_at = heddle::this_fiber::now();
          // Nested, so that the inner ones are the owner's alone when the outermost is taken.
          invoke([&] { invoke([] { heddle::this_fiber::burn(10ms); }, [&] { began = heddle::this_fiber::now(); }); },
                 [&] { heddle::this_fiber::burn(late * 1ms); });
          CHECK(began - forked_at < 1ms * late + 100us);
          heddle::this_fiber::sleep_for(late * 1ms);
        }
      });
    }
  heddle::runtime rt(quiet(2));
  if (rt.workers() < 2) return;
  const watchdog dog(rt);
  for (int round = 0; round < rounds(200, 20'000); round++)
    rt.run([&] {
      std::atomic<int> ran{0};
      const auto hog = [&] {
        while (ran != 2) {
        }
      };
      invoke([&] { invoke(hog, [&] { ran++; }); }, [&] { ran++; });
    });
  CHECK(rt.stats().counters["tasks_taken_over"] > 0);
}

TEST_CASE("invoke: more pending tasks than a deque holds become fibers") {
  heddle::runtime rt({.workers = 2, .stack_bytes = 4 << 20, .read_environment = false});
  const watchdog dog(rt);
  std::atomic<int> ran{0};
  struct nest {
    static void down(int depth, std::atomic<int>& ran) {
      if (depth == 0) return;
      invoke([&] { down(depth - 1, ran); }, [&] { ran++; });
    }
  };
  rt.run([&] { nest::down(5000, ran); });
  CHECK(ran == 5000);
  check_ended(rt);
}

TEST_CASE("invoke: a plain thread names the runtime, or is told to") {
  heddle::runtime rt(quiet(1));
  int a = 0, b = 0;
  invoke(rt, [&] { a = 1; }, [&] { b = 2; });
  CHECK(a + b == 3);
  bool ran = false;
  CHECK_THROWS_AS(invoke([&] { ran = true; }, [] {}), std::logic_error);
  CHECK_FALSE(ran);
}

TEST_CASE("invoke: thieves look near first: fewer tasks cross a node than with random victims") {
  const auto remote = [](const char* victims) {
    heddle::runtime rt(on("pack:4 [numa] core:24 pu:2", 1, victims));
    std::atomic<uint64_t> crossed{0};
    rt.run([&] {
      auto leaf = [] { heddle::this_fiber::burn(20us); };
      struct walk {
        static void down(int depth, std::atomic<uint64_t>& far, const decltype(leaf)& l) {
          if (depth == 0) return l();
          const int home = heddle::this_fiber::cpu() / 48;
          invoke([&] { down(depth - 1, far, l); },
                 [&] {
                   far += heddle::this_fiber::cpu() / 48 != home;
                   down(depth - 1, far, l);
                 });
        }
      };
      walk::down(13, crossed, leaf);
    });
    return crossed.load();
  };
  const uint64_t near = remote("victims=distance"), anywhere = remote("victims=random");
  CAPTURE(near);
  CAPTURE(anywhere);
  CHECK(near > 0);
  CHECK(near < anywhere);
}
