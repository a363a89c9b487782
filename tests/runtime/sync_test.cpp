// The primitives from fibers and plain threads mixed: exclusion, order, nothing lost, timed waits that end once.
#include "heddle/sync.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <mutex>
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

// body(i) on `fibers` fibers and on two plain threads (i from `fibers` on), all at once.
template <class Body>
void mixed(heddle::runtime& rt, int fibers, Body&& body) {
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < fibers; i++) all.push_back(rt.spawn([&body, i] { body(i); }));
  std::thread one([&] { body(fibers); }), two([&] { body(fibers + 1); });
  for (auto& f : all) f.join();
  one.join();
  two.join();
}

}  // namespace

TEST_CASE("mutex: fibers and plain threads never overlap, whoever suspends inside") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::mutex m;
  std::atomic<int> inside{0}, overlaps{0};
  int64_t count = 0;
  const int each = rounds(2000, 200'000);
  mixed(rt, 16, [&](int i) {
    for (int k = 0; k < each; k++) {
      std::lock_guard guard(m);
      if (inside.fetch_add(1) != 0) overlaps++;
      count++;
      if ((k + i) % 16 == 0) heddle::this_fiber::yield();
      inside.fetch_sub(1);
    }
  });
  CHECK(overlaps == 0);
  CHECK(count == int64_t{18} * each);
}

TEST_CASE("mutex: a running fiber may barge in once; then the waiter is handed the lock") {
  heddle::runtime rt(quiet(1));  // one worker: no chance involved
  const watchdog dog(rt);
  int taken_past_the_waiter = 0;
  rt.run([&] {
    heddle::mutex m;
    bool waiter_had_it = false;
    m.lock();
    auto waiter = heddle::spawn([&] {
      m.lock();
      waiter_had_it = true;
      m.unlock();
    });
    heddle::this_fiber::yield();  // it waits now
    while (!waiter_had_it) {
      m.unlock();
      m.lock();
      if (!waiter_had_it) taken_past_the_waiter++;
      heddle::this_fiber::yield();
    }
    m.unlock();
    waiter.join();
  });
  CHECK(taken_past_the_waiter <= 1);
}

TEST_CASE("mutex: waiters get it in the order in which they came") {
  heddle::runtime rt(quiet(1));
  const watchdog dog(rt);
  std::vector<int> order;
  rt.run([&] {
    heddle::mutex m;
    m.lock();
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 20; i++) {
      all.push_back(heddle::spawn([&, i] {
        std::lock_guard guard(m);
        order.push_back(i);
      }));
      heddle::this_fiber::yield();
    }
    m.unlock();
    for (auto& f : all) f.join();
  });
  REQUIRE(order.size() == 20);
  for (int i = 0; i < 20; i++) CHECK(order[static_cast<size_t>(i)] == i);
}

// A waiter that was woken, lost the lock to a barger and was then refused by its runtime's shutdown used to take the wake-up with
// it: whoever waited behind it waited for ever.
TEST_CASE("mutex: a woken waiter that shutdown refuses passes its wake-up on") {
  auto stops = std::make_unique<heddle::runtime>(quiet(1));
  heddle::runtime stays(quiet(1));
  const watchdog dog(stays);
  heddle::mutex m;
  heddle::counting_semaphore<> open(1'000'000);
  m.lock();
  auto first = stops->spawn([&] {
    m.lock();
    m.unlock();
  });
  await_dump(*stops, "waiting on mutex");
  auto second = stays.spawn([&] {
    m.lock();
    m.unlock();
  });
  await_dump(stays, "waiting on mutex");
  // Holds the only worker, so that the woken waiter does not run, until shutdown has begun.
  std::atomic<bool> hogs{false}, woken{false};
  stops
      ->spawn([&] {
        hogs = true;
        while (!woken) {
        }
        try {
          for (;;) open.acquire();
        } catch (const heddle::shutdown_error&) {
        }
      })
      .detach();
  while (!hogs) std::this_thread::yield();
  m.unlock();  // wakes `first`
  m.lock();    // and barges in
  woken = true;
  heddle::shutdown_report report;
  std::thread stopper([&] { report = stops->shutdown(60s); });
  while (stops->stats().counters["finished"] < 2) std::this_thread::yield();  // the hog, then `first`
  m.unlock();
  second.join();
  try {
    first.join();
  } catch (const heddle::shutdown_error&) {
  }
  stopper.join();
  CHECK(report.stuck.empty());
}

TEST_CASE("mutex: whoever owned it last may destroy it at once") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  struct counted {
    heddle::mutex m;
    int users;
  };
  for (int round = 0; round < rounds(300, 30'000); round++) {
    auto* shared = new counted{.users = 4};
    const auto leave = [shared] {
      std::unique_lock guard(shared->m);
      const bool last = --shared->users == 0;
      guard.unlock();
      if (last) delete shared;
    };
    for (int i = 0; i < 3; i++) rt.spawn(leave).detach();
    leave();
  }
  while (rt.stats().fibers_live > 0) std::this_thread::sleep_for(100us);
}

TEST_CASE("condition_variable: every item is consumed once, by fibers and plain threads") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::mutex m;
  heddle::condition_variable not_empty, not_full;
  std::vector<int> buffer;
  int64_t sum = 0, taken = 0, made = 0;
  const int64_t all = rounds(20'000, 2'000'000);
  mixed(rt, 12, [&](int i) {
    if (i % 2) {
      for (;;) {
        std::unique_lock guard(m);
        not_full.wait(guard, [&] { return buffer.size() < 8 || made == all; });
        if (made == all) break;
        buffer.push_back(static_cast<int>(++made));
        if (made == all) not_full.notify_all();
        guard.unlock();
        not_empty.notify_one();
      }
    } else {
      for (;;) {
        std::unique_lock guard(m);
        not_empty.wait(guard, [&] { return !buffer.empty() || taken == all; });
        if (taken == all) break;
        sum += buffer.back();
        buffer.pop_back();
        if (++taken == all) not_empty.notify_all();
        guard.unlock();
        not_full.notify_one();
      }
    }
  });
  CHECK(taken == all);
  CHECK(sum == all * (all + 1) / 2);
}

TEST_CASE("condition_variable: notify_all wakes all that wait, notify_one one") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::mutex m;
  heddle::condition_variable cv;
  int woken = 0, waiting = 0, generation = 0;
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < 50; i++)
    all.push_back(rt.spawn([&] {
      std::unique_lock guard(m);
      waiting++;
      cv.wait(guard);
      woken++;
      const int mine = generation;
      cv.wait(guard, [&] { return generation != mine; });
    }));
  const auto await = [&](const int& value, int wanted) {
    const auto there = [&] {
      const std::lock_guard guard(m);
      return value == wanted;
    };
    while (!there()) std::this_thread::sleep_for(100us);
  };
  await(waiting, 50);
  for (int i = 1; i <= 3; i++) {
    cv.notify_one();
    await(woken, i);
  }
  cv.notify_all();
  await(woken, 50);
  {
    std::lock_guard guard(m);
    generation++;
  }
  cv.notify_all();
  for (auto& f : all) f.join();
}

TEST_CASE("condition_variable: a wait for nothing ends as a timeout, not before its deadline, with the lock") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::mutex m;
  heddle::condition_variable cv;
  std::atomic<int> early{0}, unlocked{0};
  mixed(rt, 8, [&](int i) {
    for (int k = 0; k < 20; k++) {
      std::unique_lock guard(m);
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(i * 50 * (k % 3));
      if (cv.wait_until(guard, until) != std::cv_status::timeout || std::chrono::steady_clock::now() < until) early++;
      if (!guard.owns_lock() || m.try_lock()) unlocked++;
    }
  });
  CHECK(early == 0);
  CHECK(unlocked == 0);
}

TEST_CASE("semaphore: waiting fibers get permits in the order in which they came") {
  heddle::runtime rt(quiet(1));
  const watchdog dog(rt);
  std::vector<int> order;
  rt.run([&] {
    heddle::counting_semaphore<> s(0);
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 50; i++) {
      all.push_back(heddle::spawn([&, i] {
        s.acquire();
        order.push_back(i);
      }));
      heddle::this_fiber::yield();
    }
    for (int i = 0; i < 50; i++) {
      s.release();
      heddle::this_fiber::yield();
    }
    for (auto& f : all) f.join();
  });
  REQUIRE(order.size() == 50);
  for (int i = 0; i < 50; i++) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("semaphore: no permit is lost or made, timed and untimed, whoever takes part") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::counting_semaphore<> s(3);
  std::atomic<int> inside{0}, most{0};
  const int each = rounds(2000, 200'000);
  mixed(rt, 12, [&](int i) {
    for (int k = 0; k < each; k++) {
      switch ((i + k) % 4) {
        case 0:
          s.acquire();
          break;
        case 1:
          if (!s.try_acquire()) continue;
          break;
        default:
          if (!s.try_acquire_for(std::chrono::microseconds((i * 7 + k) % 30))) continue;
      }
      const int now = inside.fetch_add(1) + 1;
      if (now > most) most = now;
      if (k % 8 == 0) heddle::this_fiber::yield();
      inside.fetch_sub(1);
      s.release();
    }
  });
  CHECK(most <= 3);
  for (int i = 0; i < 3; i++) CHECK(s.try_acquire());
  CHECK_FALSE(s.try_acquire());
}

TEST_CASE("latch: opens for all at the last arrival, and whoever returns from wait may destroy it") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  for (int round = 0; round < rounds(500, 50'000); round++) {
    std::atomic<int> arrived{0}, early{0};
    auto done = std::make_unique<heddle::latch>(4);
    auto go = std::make_shared<heddle::latch>(1);
    heddle::latch* shared = done.get();
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 4; i++)
      all.push_back(rt.spawn([&, shared, go] {
        go->wait();
        arrived++;
        shared->count_down();
      }));
    go->count_down();
    done->wait();
    if (arrived != 4) early++;
    done.reset();
    for (auto& f : all) f.join();
    CHECK(early == 0);
  }
}

TEST_CASE("barrier: nobody passes early, the completion runs once per phase, some drop out") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  const int phases = rounds(300, 30'000);
  std::atomic<int> completions{0}, arrived{0}, wrong{0};
  struct counting {
    std::atomic<int>* runs;
    void operator()() const noexcept { (*runs)++; }
  };
  heddle::barrier<counting> b(10, counting{&completions});
  mixed(rt, 8, [&](int i) {
    const int mine = i == 0 ? phases / 2 : phases;
    for (int phase = 0; phase < mine; phase++) {
      arrived++;
      if (i == 0 && phase + 1 == mine) return b.arrive_and_drop();
      b.arrive_and_wait();
      if (completions <= phase) wrong++;
      const int least = 10 * std::min(phase + 1, phases / 2) + 9 * std::max(0, phase + 1 - phases / 2);
      if (arrived < least) wrong++;
    }
  });
  CHECK(wrong == 0);
  CHECK(completions == phases);
}

TEST_CASE("timed waits: durations beyond what nanoseconds can say are for ever, those before zero are over") {
  heddle::runtime rt(quiet());
  const watchdog dog(rt);
  heddle::counting_semaphore<> gate(0);
  heddle::mutex m;
  heddle::condition_variable cv;
  auto far = rt.spawn([&] { return gate.try_acquire_for(std::chrono::hours::max()); });
  auto farther = rt.spawn([&] { return gate.try_acquire_until(std::chrono::steady_clock::time_point::max()); });
  auto past = rt.spawn([&] {
    std::unique_lock guard(m);
    return !gate.try_acquire_for(std::chrono::hours::min()) &&
           !gate.try_acquire_until(std::chrono::steady_clock::time_point::min()) &&
           cv.wait_for(guard, -1h) == std::cv_status::timeout &&
           cv.wait_until(guard, std::chrono::system_clock::time_point::min()) == std::cv_status::timeout;
  });
  CHECK(past.join());
  await_dump(rt, "waiting on counting_semaphore", 2);
  gate.release(2);
  CHECK(far.join());
  CHECK(farther.join());

  auto sleeper = rt.spawn([] { heddle::this_fiber::sleep_for(std::chrono::hours::max()); });
  rt.run([] { heddle::this_fiber::sleep_for(std::chrono::hours::min()); });
  CHECK_FALSE(sleeper.join_until(std::chrono::steady_clock::time_point::min()));
  await_dump(rt, "waiting on sleep");
  CHECK(rt.shutdown(60s).stuck.empty());
  CHECK_THROWS_AS(sleeper.join(), heddle::shutdown_error);
}
