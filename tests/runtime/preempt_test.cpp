// preempt=on (virtual machine): work is stopped at ticks and by wake-ups, for whoever has the better claim, and loses nothing by it.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "heddle/heddle.h"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

heddle::runtime machine_of(const std::string& cpus, const std::string& settings) {
  return heddle::runtime(
      {.machine = heddle::machine::synthetic(cpus), .settings = settings, .read_environment = false});
}

// How late a sleeper comes back beside one that works for 50 ms at a time.
nanoseconds latest(const std::string& settings) {
  heddle::runtime rt = machine_of("core:1 pu:1", settings);
  return rt.run([] {
    bool stop = false;
    auto working = heddle::spawn([&] {
      while (!stop) {
        heddle::this_fiber::burn(50ms);
        heddle::this_fiber::yield();
      }
    });
    nanoseconds most{0};
    for (int i = 0; i < 10; i++) {
      const auto until = heddle::this_fiber::now() + 7ms;
      heddle::this_fiber::sleep_for(7ms);
      most = std::max(most, heddle::this_fiber::now() - until);
    }
    stop = true;
    working.join();
    return most;
  });
}

// From a wake-up on one cpu until the wakee runs on another, where somebody works.
nanoseconds wake_latency(const std::string& settings) {
  heddle::runtime rt = machine_of("core:2 pu:1", settings);
  return rt.run([] {
    heddle::counting_semaphore<> go(0);
    nanoseconds began{0}, ran{0};
    auto wakee = heddle::spawn({.cpu = 1}, [&] {
      go.acquire();
      ran = heddle::this_fiber::now();
    });
    heddle::this_fiber::sleep_for(1ms);
    auto working = heddle::spawn({.cpu = 1}, [] { heddle::this_fiber::burn(20ms); });
    heddle::this_fiber::sleep_for(2ms);
    auto waker = heddle::spawn({.cpu = 0}, [&] {
      began = heddle::this_fiber::now();
      go.release();
    });
    waker.join();
    wakee.join();
    working.join();
    return ran - began;
  });
}

}  // namespace

TEST_CASE("preempt: a tick stops who works past its slice, in every order") {
  for (const std::string order : {"fifo", "vruntime", "eevdf"}) {
    CAPTURE(order);
    const std::string common = "pick_order=" + order + ",tick_ns=100000,base_slice_ns=1000000";
    CHECK(latest(common + ",preempt=off") > 30ms);
    CHECK(latest(common + ",preempt=on") < 3ms);
    CHECK(latest(common + ",preempt=on,NO_PREEMPT_HINT") > 30ms);
  }
}

TEST_CASE("preempt: a wakee with the better claim interrupts, vm_resched_ns after its wake-up") {
  const std::string common = "pick_order=vruntime,tick_ns=10000000";
  CHECK(wake_latency(common + ",preempt=off") > 15ms);
  const nanoseconds soon = wake_latency(common + ",preempt=on");
  const nanoseconds later = wake_latency(common + ",preempt=on,vm_resched_ns=500000");
  CHECK(soon < 20us);
  CHECK(later - soon > 480us);
  CHECK(later - soon < 520us);
}

TEST_CASE("preempt: work that was stopped goes on where it was, and a spin by the clock ends on time") {
  for (const char* settings : {"preempt=on,pick_order=eevdf", "preempt=on", "preempt=off"}) {
    CAPTURE(settings);
    heddle::runtime rt = machine_of("core:1 pu:1", settings);
    rt.run([] {
      const auto began = heddle::this_fiber::now();
      auto other = heddle::spawn([] { heddle::this_fiber::burn(10ms); });
      heddle::this_fiber::burn(10ms);
      other.join();
      const auto took = heddle::this_fiber::now() - began;
      CHECK(took >= 20ms);
      CHECK(took < 22ms);
      auto beside = heddle::spawn([] { heddle::this_fiber::burn(4ms); });
      const auto until = heddle::this_fiber::now() + 9ms;
      heddle::this_fiber::burn_until(until);
      CHECK(heddle::this_fiber::now() >= until);
      CHECK(heddle::this_fiber::now() < until + 2ms);
      beside.join();
    });
  }
}
