// The virtual machine: the runtime's own code on cpus that are only described. Everything here is exact: times are virtual, and a
// failure repeats by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.h"
#include "tests/runtime/machine/program.h"

using namespace std::chrono_literals;

using namespace heddle_test;

TEST_CASE("virtual: every primitive on 1 to 64 cpus, and the same trace twice") {
  for (const char* machine :
       {"pu:1", "core:2 pu:1", "core:1 pu:2", "1x4x2", "2x4", "2x6", "2n40", "pack:4 [numa] core:8 pu:2"}) {
    CAPTURE(machine);
    for (const char* settings : {"default", "k6.12", "idle=park", "idle=poll"}) {
      CAPTURE(settings);
      const outcome first = run_everything(on(machine, 1, settings), 40);
      CHECK(first.sum == everything_sum(40));
      CHECK(first == run_everything(on(machine, 1, settings), 40));
    }
  }
}

TEST_CASE("virtual: time is the machine's, and passes by what is done") {
  heddle::runtime rt(on("pu:1", 1, "vm_working_set_bytes=0"));
  const auto before = heddle::this_fiber::now();
  heddle::this_fiber::sleep_for(1h);  // this thread's sleep lets the clock run
  CHECK(heddle::this_fiber::now() - before == 1h);
  rt.run([] {
    const auto began = heddle::this_fiber::now();
    heddle::this_fiber::burn(3ms);
    CHECK(heddle::this_fiber::now() - began == 3ms);
    heddle::this_fiber::burn_until(began + 5ms);
    CHECK(heddle::this_fiber::now() - began == 5ms);
    heddle::this_fiber::sleep_for(1ms);
    CHECK(heddle::this_fiber::now() - began >= 6ms);
    CHECK(heddle::this_fiber::now() - began < 6ms + 100us);
  });
}

TEST_CASE("virtual: no cpu idles beside a queue: equal work on n cpus takes an nth of the time") {
  for (const char* machine : {"core:4 pu:1", "2x6", "pack:4 [numa] core:16 pu:1"}) {
    CAPTURE(machine);
    heddle::runtime rt(on(machine));
    const auto cpus = static_cast<int>(rt.workers());
    const auto took = rt.run([cpus] {
      const auto began = heddle::this_fiber::now();
      std::vector<heddle::fiber<void>> fibers;
      for (int i = 0; i < 8 * cpus; i++)
        fibers.push_back(heddle::spawn([] {
          for (int k = 0; k < 100; k++) {
            heddle::this_fiber::burn(20us);
            heddle::this_fiber::yield();
          }
        }));
      for (auto& f : fibers) f.join();
      return heddle::this_fiber::now() - began;
    });
    CHECK(took >= 16ms);
    CHECK(took < 20ms);
  }
}

TEST_CASE("virtual: 4096 cpus start, run a fiber each and stop") {
  heddle::runtime rt(on("n4096"));
  CHECK(rt.workers() == 4096);
  std::atomic<int> ran{0};
  rt.run([&] {
    std::vector<heddle::fiber<void>> fibers;
    for (int i = 0; i < 4096; i++)
      fibers.push_back(heddle::spawn([&] {
        heddle::this_fiber::burn(100us);
        ran++;
      }));
    for (auto& f : fibers) f.join();
  });
  CHECK(ran == 4096);
}

TEST_CASE("virtual: a deadlock ends with the list of who waits on what, not with a hang") {
  std::string said;
  auto options = on("1x4x2");
  options.log = [&](heddle::severity, std::string_view line) { (said += line) += '\n'; };
  for (const char* idle : {"idle=adaptive", "idle=poll", "idle=park"}) {
    CAPTURE(idle);
    said.clear();
    options.settings = idle;
    heddle::runtime rt(options);
    heddle::mutex a, b;
    auto first = rt.spawn({.name = "philosopher"}, [&] {
      std::lock_guard fork(a);
      heddle::this_fiber::sleep_for(1ms);
      std::lock_guard other(b);
    });
    auto second = rt.spawn([&] {
      std::lock_guard fork(b);
      heddle::this_fiber::sleep_for(1ms);
      std::lock_guard other(a);
    });
    CHECK_THROWS_AS(first.join(), heddle::shutdown_error);
    CHECK_THROWS_AS(second.join(), heddle::shutdown_error);
    CHECK(said.find("'philosopher' waits on mutex") != std::string::npos);
  }
  // Nobody but this thread waits.
  heddle::runtime rt(options);
  heddle::counting_semaphore<> never_released(0);
  CHECK_THROWS_AS(never_released.acquire(), heddle::shutdown_error);
  CHECK_FALSE(never_released.try_acquire_for(1s));
  CHECK(rt.run([] { return 1; }) == 1);
}

TEST_CASE("virtual: shutdown ends timed and untimed waits, and names who burns on") {
  heddle::runtime rt(on("2x4"));
  heddle::counting_semaphore<> never_released(0);
  std::atomic<int> ended{0};
  for (int i = 0; i < 20; i++)
    rt.spawn([&, i] {
        try {
          i % 2 ? never_released.acquire() : heddle::this_fiber::sleep_for(1h);
        } catch (const heddle::shutdown_error&) {
          ended++;
        }
      }).detach();
  heddle::this_fiber::sleep_for(1ms);
  rt.spawn({.name = "endless"}, [] {
      for (;;) heddle::this_fiber::burn(1ms);
    }).detach();
  const auto report = rt.shutdown(1s);
  CHECK(ended == 20);
  REQUIRE(report.stuck.size() == 1);
  CHECK(report.stuck[0].name == "endless");
}

TEST_CASE("virtual: a machine belongs to the thread that made it, and a thread drives one at a time") {
  heddle::runtime rt(on("2x4"));
  auto f = rt.spawn([] { return 1; });
  std::thread([&] {
    CHECK_THROWS_AS(static_cast<void>(rt.spawn([] {})), std::logic_error);
    CHECK_THROWS_AS(f.join(), std::logic_error);
    heddle::runtime own(on("2x4"));
    CHECK(own.run([] { return 2; }) == 2);
  }).join();
  CHECK_THROWS_AS(heddle::runtime(on("2x4")), std::invalid_argument);
  CHECK(f.join() == 1);
  rt.run([] { CHECK_THROWS_AS(heddle::runtime(on("2x4")), std::invalid_argument); });
}

TEST_CASE("virtual: a runtime on the host works beside one that is virtual") {
  heddle::runtime simulated(on("2x4"));
  heddle::runtime real({.workers = 2, .read_environment = false});
  CHECK(real.run([] { return heddle::spawn([] { return 5; }).join(); }) == 5);
  CHECK(simulated.run([] { return everything(10); }) == everything_sum(10));
}
