// The runtime as a value: several at once, made and destroyed, shut down, refusing bad options.
#include "heddle/runtime.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.h"

using namespace std::chrono_literals;

namespace {
heddle::runtime_options quiet(size_t workers = 0) { return {.workers = workers, .read_environment = false}; }

size_t entries(const char* folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}
size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t n = 0;
  for (std::string line; std::getline(maps, line);) n++;
  return n;
}
}  // namespace

TEST_CASE("runtime: made and destroyed 200 times leaves no thread, mapping or descriptor") {
  {
    heddle::runtime warm(quiet());
    warm.run([] {});
  }
  const size_t threads = entries("/proc/self/task"), files = entries("/proc/self/fd"), maps = mappings();
  for (int i = 0; i < 200; i++) {
    heddle::runtime rt(quiet());
    CHECK(rt.run([] { return heddle::spawn([] { return 1; }).join(); }) == 1);
  }
  CHECK(entries("/proc/self/task") == threads);
  CHECK(entries("/proc/self/fd") == files);
  CHECK(mappings() <= maps + 20);  // the allocator may keep a few arenas
}

TEST_CASE("runtime: several are alive at once and wake each other's fibers") {
  heddle::runtime a(quiet()), b(quiet());
  heddle::counting_semaphore<> ping(0), pong(0);
  auto fa = a.spawn([&] {
    for (int i = 0; i < 2000; i++) {
      ping.release();
      pong.acquire();
    }
  });
  auto fb = b.spawn([&] {
    for (int i = 0; i < 2000; i++) {
      ping.acquire();
      pong.release();
    }
  });
  fa.join();
  fb.join();
}

TEST_CASE("runtime: shutdown cancels every kind of wait, and each fiber ends") {
  heddle::runtime rt(quiet());
  heddle::counting_semaphore<> never_released(0);
  heddle::mutex held, cv_mutex;
  heddle::condition_variable cv;
  heddle::latch closed(1);
  heddle::barrier<> wide(2);
  heddle::channel<int> empty(1), full(1);
  full.push(1);
  held.lock();
  std::atomic<int> thrown{0};
  const auto waits = [&](auto&& body) {
    rt.spawn([&thrown, body] {
        try {
          body();
        } catch (const heddle::shutdown_error&) {
          thrown++;
          throw;
        }
      }).detach();
  };
  waits([&] { never_released.acquire(); });
  waits([&] { held.lock(); });
  waits([&] {
    std::unique_lock lock(cv_mutex);
    cv.wait(lock);
  });
  waits([&] {
    std::unique_lock lock(cv_mutex);
    cv.wait_for(lock, 1h);
  });
  waits([&] { closed.wait(); });
  waits([&] { wide.arrive_and_wait(); });
  waits([&] { empty.pop(); });
  waits([&] { full.push(2); });
  waits([&] { heddle::this_fiber::sleep_for(1h); });
  waits([&] { never_released.try_acquire_for(1h); });
  waits([&] {
    auto child = heddle::spawn([&] { never_released.acquire(); });
    child.join();
  });
  std::this_thread::sleep_for(20ms);
  const auto report = rt.shutdown(10s);
  CHECK(report.stuck.empty());
  CHECK(thrown == 11);
  CHECK_THROWS_AS((void)rt.spawn([] {}), heddle::shutdown_error);
  held.unlock();
}

TEST_CASE("runtime: a fiber that never ends is reported by name at the deadline") {
  static std::atomic<bool> leave{false};
  auto rt = std::make_unique<heddle::runtime>(quiet());
  rt->spawn({.name = "endless"}, [] {
      while (!leave.load()) {
      }
    }).detach();
  std::this_thread::sleep_for(5ms);
  const auto report = rt->shutdown(20ms);
  REQUIRE(report.stuck.size() == 1);
  CHECK(report.stuck[0].name == "endless");
  CHECK(report.stuck[0].state.find("running") == 0);
  leave = true;
}

TEST_CASE("bug report 6: wake-ups that race with shutdown hang nothing and lose nobody") {
  for (int round = 0; round < 500; round++) {
    heddle::channel<int> work(4);
    std::atomic<int> ended{0};
    heddle::runtime rt(quiet());
    for (int i = 0; i < 8; i++)
      rt.spawn([&] {
          try {
            while (work.pop()) {
            }
          } catch (const heddle::shutdown_error&) {
          }
          ended++;
        }).detach();
    std::thread feeder([&] {
      for (int i = 0; i < 50 && work.try_push(i); i++) std::this_thread::yield();
    });
    if (round % 3) std::this_thread::sleep_for(std::chrono::microseconds(round % 7 * 20));
    const auto report = rt.shutdown(10s);
    feeder.join();
    CHECK(report.stuck.empty());
    CHECK(ended == 8);
  }
}

TEST_CASE("runtime: bad options are refused in one line that says what would do") {
  const auto message = [](heddle::runtime_options o) -> std::string {
    try {
      heddle::runtime rt(std::move(o));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({.machine = heddle::machine::synthetic("pack:x"), .read_environment = false}).find("pack:x") !=
        std::string::npos);
  CHECK(message({.cpus = "banana", .read_environment = false}).find("banana") != std::string::npos);
  CHECK(message({.workers = 100'000, .read_environment = false}).find("100000") != std::string::npos);
  CHECK(message({.settings = "no_such_setting", .read_environment = false}).find("no_such_setting") !=
        std::string::npos);
  for (const size_t bytes : {size_t{1}, size_t{4096}, static_cast<size_t>(-1)})
    CHECK(message({.stack_bytes = bytes, .read_environment = false}).find("stack_bytes") != std::string::npos);
  for (const char* text : {"pack:x", "banana"})
    CHECK(message({.cpus = text, .read_environment = false}).find('\n') == std::string::npos);
}

TEST_CASE("runtime: set changes what may change while it runs, and refuses the rest") {
  heddle::runtime rt(quiet());
  rt.set("NO_WAKE_AFFINE");
  CHECK_THROWS_AS(rt.set("accounting=exact"), std::invalid_argument);
  CHECK_THROWS_AS(rt.set("wake_afine=on"), std::invalid_argument);
  CHECK(rt.run([] { return heddle::spawn([] { return 2; }).join(); }) == 2);
}

TEST_CASE("runtime: a stack size among the options is a setting like the others") {
  heddle::runtime rt({.stack_bytes = 128 * 1024, .read_environment = false});
  rt.set("NO_WAKE_AFFINE");  // and does not ask to change the stacks back
  CHECK_THROWS_AS(rt.set("stack_bytes=65536"), std::invalid_argument);
}

TEST_CASE("runtime: a fiber cannot shut its own runtime down, nor be pinned to a cpu that cannot be") {
  heddle::runtime rt(quiet());
  rt.run([&] { CHECK_THROWS_AS(rt.shutdown(std::chrono::seconds(1)), std::logic_error); });
  CHECK_THROWS_AS(rt.spawn({.cpu = -2}, [] {}), std::invalid_argument);
  CHECK(rt.run([] { return 1; }) == 1);
}

TEST_CASE("runtime: dump names every fiber and what it waits for") {
  heddle::runtime rt(quiet());
  heddle::counting_semaphore<> gate(0);
  auto f = rt.spawn({.name = "waiter"}, [&] { gate.acquire(); });
  std::string text;
  for (int i = 0; i < 1000 && text.find("counting_semaphore") == std::string::npos; i++) {
    std::this_thread::sleep_for(1ms);
    std::ostringstream out;
    rt.dump(out);
    text = out.str();
  }
  CHECK(text.find("'waiter' waiting on counting_semaphore") != std::string::npos);
  gate.release();
  f.join();
}
