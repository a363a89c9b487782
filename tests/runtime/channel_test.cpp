// Channels between fibers and plain threads: every value once, in each producer's order, whatever closes when.
#include "heddle/channel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "tests/runtime/watchdog.h"

using namespace std::chrono_literals;
using heddle_test::await_dump;
using heddle_test::quiet;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

struct item {
  uint32_t producer, number;
};

// Counts its instances; moved-from ones are empty but alive.
struct counted {
  static inline std::atomic<int> alive{0};
  std::unique_ptr<item> what;

  explicit counted(item i) : what(std::make_unique<item>(i)) { alive++; }
  counted(counted&& other) noexcept : what(std::move(other.what)) { alive++; }
  counted& operator=(counted&&) noexcept = default;
  ~counted() { alive--; }
};

item value_of(const item& i) { return i; }
item value_of(const counted& c) { return *c.what; }

// `producers` push `each` numbered values, `consumers` pop until it is closed; on both sides the last one is a plain thread.
// Consumer k of the result: what it saw, in order.
template <class T>
std::vector<std::vector<item>> run_through(heddle::runtime& rt, size_t capacity, int producers, int consumers,
                                           uint32_t each) {
  heddle::channel<T> c(capacity);
  std::vector<std::vector<item>> seen(static_cast<size_t>(consumers));
  const auto produce = [&](uint32_t p) {
    for (uint32_t n = 0; n < each; n++) {
      T value(item{p, n});
      if constexpr (std::is_same_v<T, counted>) {
        if (n % 3 == 0) {
          if (c.push_for(value, 1h)) continue;
        } else if (c.push(std::move(value))) {
          continue;
        }
      } else if (n % 3 == 1 ? c.push_for(value, 1h) : c.push(value)) {
        continue;
      }
      return;
    }
  };
  const auto consume = [&](int k) {
    auto& mine = seen[static_cast<size_t>(k)];
    for (uint32_t n = 0;; n++) {
      std::optional<T> value = n % 3 ? c.pop() : c.pop_for(1h);
      if (!value) return;
      mine.push_back(value_of(*value));
    }
  };
  std::vector<heddle::fiber<void>> makers, takers;
  for (int k = 0; k + 1 < consumers; k++) takers.push_back(rt.spawn([&, k] { consume(k); }));
  for (int p = 0; p + 1 < producers; p++) makers.push_back(rt.spawn([&, p] { produce(static_cast<uint32_t>(p)); }));
  std::thread maker([&] { produce(static_cast<uint32_t>(producers - 1)); });
  std::thread taker([&] { consume(consumers - 1); });
  for (auto& f : makers) f.join();
  maker.join();
  c.close();
  for (auto& f : takers) f.join();
  taker.join();
  return seen;
}

void check_complete(const std::vector<std::vector<item>>& seen, int producers, uint32_t each) {
  std::vector<std::vector<int>> times(static_cast<size_t>(producers), std::vector<int>(each, 0));
  size_t disordered = 0, wrong = 0;
  for (const auto& one : seen) {
    std::vector<int64_t> last(static_cast<size_t>(producers), -1);
    for (const item& i : one) {
      if (i.producer >= static_cast<uint32_t>(producers) || i.number >= each) {
        wrong++;
        continue;
      }
      times[i.producer][i.number]++;
      if (last[i.producer] >= i.number) disordered++;
      last[i.producer] = i.number;
    }
  }
  for (const auto& of_producer : times)
    for (int n : of_producer) wrong += n != 1;
  CHECK(wrong == 0);
  CHECK(disordered == 0);
}

}  // namespace

TEST_CASE("bug report 12: a small channel under load loses, doubles and reorders nothing") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  const auto each = static_cast<uint32_t>(rounds(4000, 2'000'000));
  for (size_t capacity : {size_t{1}, size_t{3}, size_t{64}}) {
    check_complete(run_through<item>(rt, capacity, 8, 8, each), 8, each);
    check_complete(run_through<item>(rt, capacity, 2, 2, each), 2, each);
  }
}

TEST_CASE("bug report 12: the same with values that must be destroyed, each as often as it was made") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  const auto each = static_cast<uint32_t>(rounds(2000, 500'000));
  for (size_t capacity : {size_t{1}, size_t{5}}) {
    check_complete(run_through<counted>(rt, capacity, 6, 6, each), 6, each);
    CHECK(counted::alive == 0);
  }
}

TEST_CASE("channel: one consumer sees each producer's values in order, also of plain threads") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::channel<item> c(2);
  const auto each = static_cast<uint32_t>(rounds(3000, 300'000));
  std::vector<std::thread> threads;
  for (uint32_t p = 0; p < 3; p++)
    threads.emplace_back([&c, p, each] {
      for (uint32_t n = 0; n < each; n++) c.push({p, n});
    });
  auto consumer = rt.spawn([&] {
    std::vector<std::vector<item>> seen(1);
    for (uint32_t n = 0; n < 3 * each; n++) seen[0].push_back(*c.pop());
    return seen;
  });
  const auto seen = consumer.join();
  for (auto& t : threads) t.join();
  check_complete(seen, 3, each);
}

TEST_CASE("channel: closing lets the rest drain, wakes everybody, and says which values were not sent") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  for (int round = 0; round < rounds(200, 20'000); round++) {
    heddle::channel<counted> c(2);
    std::atomic<int> sent{0}, kept{0}, received{0};
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 4; i++) {
      all.push_back(rt.spawn([&] {
        for (uint32_t n = 0;; n++) {
          counted value({0, n});
          if (!c.push_for(value, 1h)) {
            if (value.what && value.what->number == n) kept++;  // not sent: still ours
            return;
          }
          sent++;
        }
      }));
      all.push_back(rt.spawn([&] {
        while (c.pop()) received++;
      }));
    }
    std::thread closer([&] {
      while (sent < round % 50) std::this_thread::yield();
      c.close();
    });
    closer.join();
    for (auto& f : all) f.join();
    CHECK(kept == 4);
    CHECK(sent == received);
    CHECK_FALSE(c.try_push(counted({1, 1})));
    CHECK_FALSE(c.try_pop());
  }
  CHECK(counted::alive == 0);
}

TEST_CASE("channel: a closed one gives what it held, then nothing") {
  heddle::channel<std::string> c(3);
  CHECK(c.push("a"));
  CHECK(c.try_push("b"));
  c.close();
  c.close();
  CHECK_FALSE(c.push("c"));
  CHECK(c.pop() == "a");
  CHECK(c.try_pop() == "b");
  CHECK_FALSE(c.pop());
  CHECK(c.closed());
  {
    heddle::channel<counted> unread(4);
    unread.push(counted({0, 0}));
    unread.push(counted({0, 1}));
  }
  CHECK(counted::alive == 0);
  CHECK_THROWS_AS(heddle::channel<int>(0), std::invalid_argument);
}

TEST_CASE("channel: timed calls give up on full and empty channels, and keep the value") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::channel<std::string> c(1);
  const auto both = [&] {
    CHECK_FALSE(c.pop_for(1ms));
    std::string first = "first", second = "second";
    CHECK(c.push_for(first, 1h));
    CHECK_FALSE(c.push_for(second, 1ms));
    CHECK(second == "second");
    CHECK_FALSE(c.push_for(second, 0s));
    CHECK(c.pop_for(0s) == "first");
  };
  both();
  rt.run(both);
}

TEST_CASE("channel: timed pushes and pops that race with their timeouts lose and double nothing") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::channel<counted> c(2);
  std::atomic<int64_t> sent{0}, received{0};
  const int each = rounds(2000, 200'000);
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 6; i++) {
    all.push_back(rt.spawn([&, i] {
      for (int k = 0; k < each; k++) {
        counted value({0, 1});
        if (c.push_for(value, std::chrono::microseconds((i + k) % 20)))
          sent++;
        else if (!value.what)
          sent += 1'000'000'000;  // lost
      }
    }));
    all.push_back(rt.spawn([&, i] {
      for (int k = 0; k < each; k++)
        if (auto value = c.pop_for(std::chrono::microseconds((i + 3 * k) % 20))) received += value->what->number;
    }));
  }
  for (auto& f : all) f.join();
  while (auto value = c.try_pop()) received += value->what->number;
  CHECK(sent == received);
  CHECK(counted::alive == 0);
}
