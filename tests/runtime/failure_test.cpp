// Failure classes of the policy reference (section 10) that need a whole runtime, on described machines: the form that has the
// fault shows it, the fixed form does not. wake_chain=off leaves moving to policy alone, as the kernel does.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "heddle/heddle.h"

using namespace std::chrono_literals;

namespace {

heddle::runtime_options on(std::string machine, std::string settings = {}) {
  return {.machine = heddle::machine::named(std::move(machine)),
          .settings = std::move(settings),
          .log = [](heddle::severity, std::string_view) {},
          .read_environment = false};
}

constexpr const char* placement_only = "wake_chain=off,newidle=off,lb=off,ilb=off,wake_defer=off,sis_limit=none";

// One waker on CPU 0 wakes `count` sleepers back to back while all other CPUs idle. Where each ran.
std::vector<int> herd(const std::string& machine, const std::string& settings, int count) {
  heddle::runtime rt(on(machine, std::string(placement_only) + settings));
  return rt.run([&] {
    std::vector<int> ran(static_cast<size_t>(count), -1);
    heddle::counting_semaphore<> go(0);
    std::vector<heddle::fiber<void>> sleepers;
    for (int i = 0; i < count; i++)
      sleepers.push_back(heddle::spawn([&, i] {
        go.acquire();
        ran[static_cast<size_t>(i)] = heddle::this_fiber::cpu();
        heddle::this_fiber::burn(200us);
      }));
    heddle::spawn({.cpu = 0}, [&] {
      heddle::this_fiber::sleep_for(1ms);
      go.release(count);
      heddle::this_fiber::burn(100us);
    }).join();
    for (auto& f : sleepers) f.join();
    return ran;
  });
}

// Hogs that all begin on CPU 0; how many resumptions were on another CPU than before.
uint64_t migrations_of_hogs(const std::string& machine, const std::string& settings, int hogs,
                            bool first_sleep = false) {
  heddle::runtime rt(on(machine, settings));
  rt.run([&] {
    if (first_sleep) heddle::this_fiber::sleep_for(5ms);  // the others park meanwhile
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < hogs; i++)
      all.push_back(heddle::spawn([] {
        for (int k = 0; k < 400; k++) {
          heddle::this_fiber::burn(10us);
          heddle::this_fiber::yield();
        }
      }));
    for (auto& f : all) f.join();
  });
  return rt.stats().counters["migrations"];
}

}  // namespace

TEST_CASE("F05: a herd of wake-ups by one waker has as many CPUs") {
  for (const char* machine : {"pack:1 core:8 pu:1", "pack:1 core:4 pu:2"}) {
    const std::vector<int> ran = herd(machine, "", 7);
    const std::set<int> distinct(ran.begin(), ran.end());
    CHECK(distinct.size() == 7);
    CHECK(distinct.count(0) == 0);
  }
}

TEST_CASE("F03: wake-ups stay in their LLC while another one idles, unless they may look beyond") {
  const auto beyond = [](const char* settings) {
    int count = 0;
    for (int cpu : herd("pack:2 core:4 pu:1", settings, 7)) count += cpu >= 4;
    return count;
  };
  CHECK(beyond("") == 0);
  CHECK(beyond(",sis_extend=all") == 4);
  CHECK(beyond(",balance_wake=after_miss,wake_idle_levels=all") == 4);
}

TEST_CASE("F18: two CPUs and two fibers: nothing moves once each has one") {
  for (const char* settings : {"default", "k3.9", "k4.19", "k6.12", "k7.0"}) {
    CAPTURE(settings);
    CHECK(migrations_of_hogs("pack:1 core:2 pu:1", settings, 2) <= 8);
  }
}

TEST_CASE("lb: an idle CPU's balance moves what wake_chain leaves alone, in every form") {
  const std::string alone = "wake_chain=off,newidle=off,idle=poll,ilb=off,";
  for (const char* form : {"lb_form=v310", "lb_form=v419", "lb_form=v55"}) {
    CAPTURE(form);
    CHECK(migrations_of_hogs("pack:1 core:4 pu:1", alone + form, 8) >= 3);
  }
  CHECK(migrations_of_hogs("pack:1 core:4 pu:1", alone + "lb=off", 8) == 0);
}

TEST_CASE("ilb: a busy CPU's tick wakes a parked one to balance for all") {
  const std::string alone = "wake_chain=off,newidle=off,spin_ns=10us,";
  CHECK(migrations_of_hogs("pack:1 core:4 pu:1", alone + "ilb=on", 8, true) >= 3);
  CHECK(migrations_of_hogs("pack:1 core:4 pu:1", alone + "ilb=off", 8, true) == 0);
}

TEST_CASE("F20: beside pinned fibers the free ones move") {
  for (const char* settings : {"default", "k4.19", "k6.12"}) {
    CAPTURE(settings);
    heddle::runtime rt(on("pack:1 core:2 pu:1", settings));
    rt.run([] {
      bool stop = false;
      int there = 0, turns = 0;
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 4; i++)
        all.push_back(heddle::spawn({.cpu = 0}, [&] {
          while (!stop) {
            heddle::this_fiber::burn(10us);
            heddle::this_fiber::yield();
          }
        }));
      for (int i = 0; i < 2; i++)
        all.push_back(heddle::spawn([&] {
          while (!stop) {
            heddle::this_fiber::burn(10us);
            turns++;
            there += heddle::this_fiber::cpu() == 1;
            heddle::this_fiber::yield();
          }
        }));
      heddle::this_fiber::sleep_for(40ms);
      stop = true;
      for (auto& f : all) f.join();
      CHECK(there > turns / 2);
    });
  }
}

TEST_CASE("F27: to a normal wakee a CPU with idle-class fibers only is free, unless idle_class_free says no") {
  for (bool counts : {true, false}) {
    heddle::runtime rt(on("pack:1 core:4 pu:1",
                          std::string("wake_defer=off,sis_limit=none,idle_class_free=") + (counts ? "on" : "off")));
    const auto worst = rt.run([&] {
      bool stop = false;
      std::vector<heddle::fiber<void>> hogs;
      for (int cpu = 0; cpu < 4; cpu++)
        hogs.push_back(heddle::spawn({.cpu = cpu, .idle = true}, [&] {
          while (!stop) {
            heddle::this_fiber::burn(5us);
            heddle::this_fiber::yield();
          }
        }));
      heddle::this_fiber::sleep_for(1ms);
      heddle::counting_semaphore<> go(0), done(0);
      std::chrono::nanoseconds longest{0};
      heddle::this_fiber::sleep_for(1ms);
      auto wakee = heddle::spawn([&] {
        for (int i = 0; i < 50; i++) {
          go.acquire();
          done.release();
        }
      });
      for (int i = 0; i < 50; i++) {
        heddle::this_fiber::sleep_for(20us);
        const auto began = heddle::this_fiber::now();
        go.release();
        done.acquire();
        longest = std::max(longest, heddle::this_fiber::now() - began);
      }
      stop = true;
      wakee.join();
      for (auto& f : hogs) f.join();
      return longest;
    });
    CHECK(worst < 40us);  // a few segments of the hogs
    auto counters = rt.stats().counters;
    if (counts) CHECK(counters["wake_target"] + counters["wake_prev"] > counters["wake_miss"]);
    if (!counts) CHECK(counters["wake_miss"] > 40);
  }
}
