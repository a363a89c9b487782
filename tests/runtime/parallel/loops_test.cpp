// Loops, reductions, sort, groups and graphs over forked tasks.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/parallel.h"
#include "heddle/task_group.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

using namespace std::chrono_literals;
using heddle::core::rng;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

heddle::runtime_options on(std::string machine, uint64_t seed = 1) {
  return {.machine = heddle::machine::named(std::move(machine)),
          .seed = seed,
          .log = [](heddle::severity, std::string_view) {},
          .read_environment = false};
}

// On real threads and on a virtual machine, with one cpu and with more.
template <class Body>
void everywhere(Body&& body) {
  for (const char* machine : {"pu:1", "2x4"}) {
    CAPTURE(machine);
    heddle::runtime rt(on(machine));
    rt.run(body);
    while (rt.stats().fibers_live != 0) heddle::this_fiber::sleep_for(100us);
  }
  for (size_t workers : {1, 2}) {
    CAPTURE(workers);
    heddle::runtime rt(quiet(workers));
    const watchdog dog(rt);
    for (int round = 0; round < rounds(3, 300); round++) rt.run(body);
  }
}

}  // namespace

TEST_CASE("parallel_for: each index once, in pieces of the grain") {
  everywhere([] {
    for (int n : {0, 1, 2, 7, 100, 1000})
      for (size_t grain : {0, 1, 3, 100, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        std::atomic<int> pieces{0}, longest{0};
        heddle::parallel_for(0, n, grain, [&](int from, int to) {
          pieces++;
          int most = longest;
          while (most < to - from && !longest.compare_exchange_weak(most, to - from)) {
          }
          for (int i = from; i < to; i++) seen[static_cast<size_t>(i)]++;
        });
        CHECK(std::all_of(seen.begin(), seen.end(), [](auto& s) { return s == 1; }));
        if (grain) CHECK(longest <= static_cast<int>(grain));
        if (grain == 1) CHECK(pieces == n);
      }
    std::vector<int> values(1000, 1);
    heddle::parallel_for_each(values, [](int& v) { v++; });
    heddle::parallel_for_each(values, 10, [](int& v) { v *= 2; });
    CHECK(std::all_of(values.begin(), values.end(), [](int v) { return v == 4; }));
    heddle::parallel_for(-5, 5, [&](int i) { values[static_cast<size_t>(i + 5)] = i; });
    CHECK(values[0] == -5);
  });
}

TEST_CASE("parallel_for: bodies may block, and wait for each other across pieces") {
  everywhere([] {
    heddle::latch all(50);
    heddle::mutex m;
    int sum = 0;
    heddle::parallel_for(0, 50, size_t{1}, [&](int i) {
      heddle::this_fiber::sleep_for(std::chrono::microseconds(i % 3));
      all.arrive_and_wait();
      std::lock_guard guard(m);
      sum += i;
    });
    CHECK(sum == 1225);
  });
}

TEST_CASE("parallel_for: a range is halved for who asks, and nearly not at all for nobody") {
  heddle::runtime rt(quiet(1));
  rt.run([] { heddle::parallel_for(0, 100, [](int) {}); });
  const auto before = rt.stats().counters["spawned"];
  rt.run([] { heddle::parallel_for(0, 1'000'000, size_t{1}, [](int) {}); });
  CHECK(rt.stats().counters["spawned"] - before <= 2);
  for (const char* machine : {"core:8 pu:1", "2x6"}) {
    heddle::runtime many(on(machine));
    const auto cpus = static_cast<int>(many.workers());
    const auto took = many.run([&] {
      const auto began = heddle::this_fiber::now();
      heddle::parallel_for(0, 160 * cpus, [](int) { heddle::this_fiber::burn(10us); });
      return heddle::this_fiber::now() - began;
    });
    CHECK(took >= 1600us);
    CHECK(took < 2200us);  // virtual: stealing and the refill of caches have their price
  }
}

TEST_CASE("parallel_for: an exception and a stop request end it early") {
  everywhere([] {
    std::atomic<int> ran{0};
    CHECK_THROWS_WITH(heddle::parallel_for(0, 100'000, size_t{1},
                                           [&](int i) {
                                             ran++;
                                             if (i == 10) throw std::runtime_error("ten");
                                           }),
                      "ten");
    CHECK(ran < 100'000);
    ran = 0;
    std::stop_source stop;
    heddle::parallel_for(
        0, 100'000, size_t{1},
        [&](int) {
          if (++ran == 10) stop.request_stop();
        },
        stop.get_token());
    CHECK(ran >= 10);
    CHECK(ran < 100'000);
  });
}

TEST_CASE("parallel_reduce: in the order of the indices, for what does not commute") {
  everywhere([] {
    std::string expected = ">";
    for (int i = 0; i < 500; i++) expected += std::to_string(i);
    const auto text = [](int i) {
      if (i % 50 == 0) heddle::this_fiber::sleep_for(10us);
      return std::to_string(i);
    };
    for (size_t grain : {0, 1, 7, 1000})
      CHECK(heddle::parallel_reduce(0, 500, grain, std::string(">"), std::plus<>(), text) == expected);
    CHECK(heddle::parallel_reduce(0, 0, 42, std::plus<>(), [](int) { return 1; }) == 42);
    CHECK(heddle::parallel_reduce(0, 1'000'000, int64_t{0}, std::plus<>(), [](int i) { return int64_t{i}; }) ==
          499'999'500'000);
    CHECK_THROWS_AS(
        heddle::parallel_reduce(0, 100, size_t{1}, 0, std::plus<>(), [](int i) { return i == 50 ? throw 1 : i; }), int);
  });
}

TEST_CASE("parallel_sort: sorted, whatever lies in it") {
  rng random(heddle_test::seed());
  for (size_t n : {0, 1, 2, 3000, 50'000})
    for (uint64_t kinds : {1, 2, 100, 1'000'000'000}) {
      std::vector<uint64_t> values(n);
      for (auto& v : values) v = random.below(kinds);
      auto expected = values;
      std::sort(expected.begin(), expected.end());
      heddle::runtime rt(quiet(2));
      heddle::parallel_sort(rt, values);
      CHECK(values == expected);
      heddle::parallel_sort(rt, values.begin(), values.end(), std::greater<>());  // sorted the other way round
      CHECK(std::is_sorted(values.begin(), values.end(), std::greater<>()));
    }
}

TEST_CASE("task_group: from fibers, from tasks, from plain threads; again and again") {
  everywhere([] {
    std::atomic<int> ran{0};
    heddle::task_group group;
    group.wait();
    for (int round = 1; round <= 3; round++) {
      for (int i = 0; i < 100; i++)
        group.run([&, i] {
          if (i % 10 == 0) heddle::this_fiber::sleep_for(5us);
          if (i % 20 == 0) group.run([&] { ran++; });
          ran++;
        });
      group.wait();
      CHECK(ran == round * 105);
    }
    struct large {
      char bytes[200] = {};
    };
    group.run([&, big = large{}] { ran += big.bytes[0] + 1; });
    group.run([&ran, owned = std::make_unique<int>(1)] { ran += *owned; });
  });
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  for (int round = 0; round < rounds(10, 1000); round++) {
    std::atomic<int> ran{0};
    heddle::task_group group(rt);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; i++) group.run([&] { ran++; });
      });
    for (auto& t : threads) t.join();
    group.wait();
    CHECK(ran == 3000);
  }
}

TEST_CASE("task_group: tasks wait for each other, with one worker too; the first exception comes out of wait") {
  everywhere([] {
    heddle::task_group group;
    heddle::channel<int> queue(1);
    int sum = 0;
    group.run([&] {
      for (int i = 0; i < 100; i++) sum += *queue.pop();
    });
    for (int i = 0; i < 100; i++) group.run([&, i] { queue.push(i); });
    group.wait();
    CHECK(sum == 4950);
    std::atomic<int> ended{0};
    for (int i = 0; i < 10; i++)
      group.run([&, i] {
        ended++;
        if (i == 3) throw std::runtime_error("three");
      });
    CHECK_THROWS_WITH(group.wait(), "three");
    CHECK(ended == 10);
    group.wait();
  });
  CHECK_THROWS_AS(heddle::task_group(), std::logic_error);
}

TEST_CASE("graph: each node once a run, after all that precede it; circles are refused") {
  everywhere([] {
    constexpr size_t layers = 6, width = 5;
    heddle::graph g;
    std::atomic<int> clock{0};
    std::vector<int> at(layers * width);
    std::vector<heddle::graph::node*> nodes;
    for (size_t i = 0; i < layers * width; i++)
      nodes.push_back(&g.add([&, i] {
        if (i % 4 == 0) heddle::this_fiber::sleep_for(3us);
        at[i] = ++clock;
      }));
    for (size_t i = 0; i + width < nodes.size(); i++)
      for (size_t k = 0; k < width; k += 2) nodes[i]->precede(*nodes[(i / width + 1) * width + (i + k) % width]);
    for (int run = 1; run <= 3; run++) {
      g.run();
      CHECK(clock == run * static_cast<int>(nodes.size()));
      for (size_t i = 0; i + width < nodes.size(); i++)
        for (size_t k = 0; k < width; k += 2) CHECK(at[i] < at[(i / width + 1) * width + (i + k) % width]);
    }
    nodes.back()->precede(*nodes.front());
    CHECK_THROWS_AS(g.run(), std::logic_error);
    heddle::graph failing;
    bool after = false;
    auto& first = failing.add([] { throw 1; });
    first.precede(failing.add([&] { after = true; }));
    CHECK_THROWS_AS(failing.run(), int);
    CHECK_FALSE(after);
  });
}
