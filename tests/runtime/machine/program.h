// A program that uses everything once, and what must hold after any run of it on a virtual machine.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "affinity/placement.h"
#include "heddle/heddle.h"

namespace heddle_test {

using namespace std::chrono_literals;

inline heddle::runtime_options on(std::string machine, uint64_t seed = 1, std::string settings = {}) {
  return {.machine = heddle::machine::named(std::move(machine)),
          .settings = std::move(settings),
          .seed = seed,
          .log = [](heddle::severity, std::string_view) {},
          .read_environment = false};
}

// Something of everything: joins, yields, mutex and condition variable, semaphores, channel, barrier, latch, timers, timed waits,
// exceptions. Returns a sum that any order of events must give.
inline long everything(int tasks) {
  heddle::mutex m;
  heddle::condition_variable cv;
  heddle::counting_semaphore<> permits(2);
  heddle::channel<int> queue(3);
  heddle::barrier<> round(tasks);
  heddle::latch started(tasks);
  int turn = 0;
  long total = 0;
  std::vector<heddle::fiber<long>> fibers;
  for (int i = 0; i < tasks; i++)
    fibers.push_back(heddle::spawn([&, i]() -> long {
      started.count_down();
      started.wait();
      long mine = 0;
      for (int k = 0; k < 3; k++) {
        permits.acquire();
        heddle::this_fiber::burn(std::chrono::nanoseconds(100 * (i % 7)));
        permits.release();
        round.arrive_and_wait();
        mine++;
      }
      {
        std::unique_lock lock(m);
        cv.wait(lock, [&] { return turn == i; });
        turn++;
        cv.notify_all();
      }
      heddle::this_fiber::sleep_for(std::chrono::microseconds(i % 5));
      heddle::counting_semaphore<> nobody(0);
      if (nobody.try_acquire_for(2us)) return -1'000'000;
      queue.push(i);
      try {
        errno = i;
        heddle::spawn([] { throw std::runtime_error("passed on"); }).join();
      } catch (const std::runtime_error&) {
        heddle::this_fiber::yield();  // others catch meanwhile, on this cpu and on others
        try {
          throw;
        } catch (const std::runtime_error& again) {
          mine += std::string(again.what()) == "passed on";
        }
      }
      return mine;
    }));
  auto consumer = heddle::spawn([&] {
    long sum = 0;
    for (int i = 0; i < tasks; i++) sum += *queue.pop();
    return sum;
  });
  for (auto& f : fibers) total += f.join();
  return total + consumer.join();
}
inline long everything_sum(int tasks) { return 4L * tasks + tasks * (tasks - 1L) / 2; }

struct outcome {
  long sum;
  uint64_t hash, events, now;
  bool operator==(const outcome&) const = default;
};

// Runs it and checks what must hold after any run: no fiber lost or run twice.
inline outcome run_everything(const heddle::runtime_options& options, int tasks) {
  heddle::runtime rt(options);
  const long sum = rt.run([tasks] { return everything(tasks); });
  auto stats = rt.stats();
  CHECK(stats.counters["spawned"] == stats.counters["finished"]);
  CHECK(stats.fibers_live == 0);
  uint64_t placed = 0;
  for (size_t i = 0; i < heddle::core::wake_reason_count; i++)
    placed += stats.counters[std::string(heddle::core::to_string(static_cast<heddle::core::wake_reason>(i)))];
  // To another cpu one comes through an inbox, or follows one's waker.
  CHECK(stats.counters["migrations"] <= stats.counters["inbox_taken"] + placed);
  return {sum, stats.counters["vm_trace_hash"], stats.counters["vm_events"], stats.counters["vm_now_ns"]};
}

}  // namespace heddle_test
