// What may happen on a virtual machine: each fault and each spread is seen, and nothing is lost by it.
#include <doctest/doctest.h>

#include <system_error>

#include "tests/runtime/machine/program.h"

using namespace heddle_test;
using heddle::spawn;
namespace this_fiber = heddle::this_fiber;

namespace {

// Wakes a parked cpu 50 times, a millisecond apart; the time and the counters.
heddle::runtime_stats wakes(const std::string& settings, std::chrono::nanoseconds& took) {
  heddle::runtime rt(on("core:2 pu:1", 1, "idle=park," + settings));
  took = rt.run([] {
    const auto began = this_fiber::now();
    heddle::counting_semaphore<> there(0), back(0);
    auto partner = spawn({.cpu = 1}, [&] {
      for (int i = 0; i < 50; i++) there.acquire(), back.release();
    });
    spawn({.cpu = 0}, [&] {
      for (int i = 0; i < 50; i++) {
        this_fiber::burn(1ms);
        there.release();
        back.acquire();
      }
    }).join();
    partner.join();
    return this_fiber::now() - began;
  });
  return rt.stats();
}

std::chrono::nanoseconds work(const std::string& settings, uint64_t seed = 1) {
  heddle::runtime rt(on("pu:1", seed, "vm_working_set_bytes=0," + settings));
  return rt.run([] {
    const auto began = this_fiber::now();
    for (int i = 0; i < 100; i++) this_fiber::burn(1ms);
    return this_fiber::now() - began;
  });
}

}  // namespace

TEST_CASE("faults: late unparks and spurious wake-ups cost time and parks, and nothing else") {
  std::chrono::nanoseconds plain, late, spurious;
  auto calm = wakes("default", plain);
  wakes("fault_late_ns=1ms", late);
  auto restless = wakes("fault_spurious_pct=100", spurious);
  CHECK(late > plain + 10ms);
  CHECK(restless.counters["parks"] > 2 * calm.counters["parks"]);
}

TEST_CASE("faults: what waits behind a cpu that stands still is rescued") {
  const std::string stuck = "explore=on,fault_stuck_ns=20ms";
  uint64_t rescues = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    heddle::runtime rt(on("2x4", seed, stuck));
    CHECK(rt.run([] { return everything(20); }) == everything_sum(20));
    auto stats = rt.stats();
    rescues += stats.counters["rescues"] + stats.counters["claims"];
  }
  CHECK(rescues > 0);
}

TEST_CASE("faults: a stack that cannot be had is an error of that spawn alone") {
  heddle::runtime rt(on("2x4", 1, "fault_stack=2"));
  const int refused = rt.run([] {
    int failed = 0;
    std::vector<heddle::fiber<int>> all;
    for (int i = 0; i < 200; i++) {
      try {
        all.push_back(spawn([i] { return i; }));
      } catch (const std::system_error& e) {
        CHECK(e.code() == std::errc::not_enough_memory);
        failed++;
      }
    }
    int ran = 0;
    for (auto& f : all) ran += f.join() >= 0;
    CHECK(ran + failed == 200);
    return failed;
  });
  CHECK(refused == 1);
  auto stats = rt.stats();
  CHECK(stats.counters["spawned"] == stats.counters["finished"]);
}

TEST_CASE("faults: a carrier that cannot be started leaves nothing behind") {
  for (int which : {1, 3, 8})
    CHECK_THROWS_AS(heddle::runtime(on("2x4", 1, "fault_carrier=" + std::to_string(which))), std::system_error);
  heddle::runtime rt(on("2x4", 1, "fault_carrier=9"));  // there is no ninth
  CHECK(rt.run([] { return everything(8); }) == everything_sum(8));
}

TEST_CASE("faults: daemons and spread work take the time they say") {
  CHECK(work("default") == 100ms);
  const auto noisy = work("noise=kworkers");
  CHECK(noisy > 100ms + 10 * 20us);  // 100 ms of work meet 10 to 25 daemons of 20 to 50 us
  CHECK(noisy < 100ms + 26 * 50us);
  std::chrono::nanoseconds sum{0};
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const auto one = work("burn_spread_pct=50", seed);
    CHECK(one != 100ms);
    sum += one;
  }
  CHECK(sum / 20 > 97ms);  // the mean of what is drawn is what was asked: 2000 draws, 1.1 % standard error
  CHECK(sum / 20 < 103ms);
}

TEST_CASE("faults: explore runs cpus in another order than time does") {
  const outcome by_time = run_everything(on("2x4", 1), 12);
  const outcome drawn = run_everything(on("2x4", 1, "explore=on"), 12);
  CHECK(drawn.sum == by_time.sum);
  CHECK(drawn.hash != by_time.hash);
}
