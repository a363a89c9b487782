// Failure classes of balance and stealing (policy reference, section 10: F01, F02, F04, F16, F17, F19, F21 to F24, T4): the form that
// has the fault shows it, the fixed form does not.
#include <memory>

#include "tests/runtime/failure.h"

using namespace heddle_test;

namespace {

struct spread {
  std::vector<int> turns;  // by CPU
  counts counters;
  uint64_t failed_before = 0;  // balance passes that moved nothing before the first turn on CPU 1
  int fibers_seen_on = 0;
};

struct crowd {
  int home = 0, count = 2;
  std::chrono::nanoseconds lasts{10ms};
  bool heavy = false;  // one of nice -10 stays on CPU 0
  std::string cpus = {};
};

// Hogs that begin on one CPU.
spread hogs_from(heddle::machine machine, const std::string& settings, const crowd& who) {
  heddle::runtime_options options = described("host", settings);
  options.machine = std::move(machine);
  options.cpus = who.cpus;
  heddle::runtime rt(std::move(options));
  spread out;
  out.turns.resize(64);
  rt.run([&] {
    bool stop = false, seen = false;
    std::vector<heddle::fiber<void>> all;
    if (who.heavy) all.push_back(heddle::spawn({.cpu = 0, .nice = -10}, hog{.stop = &stop}));
    heddle::spawn({.cpu = who.home}, [&] {
      for (int i = 0; i < who.count; i++)
        all.push_back(heddle::spawn([&] {
          while (!stop) {
            heddle::this_fiber::burn(10us);
            const int cpu = heddle::this_fiber::cpu();
            if (cpu == 1 && !std::exchange(seen, true)) out.failed_before = rt.stats().counters["lb_failed"];
            out.turns[static_cast<size_t>(cpu)]++;
            heddle::this_fiber::yield();
          }
        }));
    }).join();
    heddle::this_fiber::sleep_for(who.lasts);
    stop = true;
    join_all(all);
  });
  out.counters = rt.stats().counters;
  return out;
}

spread hogs_on(const std::string& machine, const std::string& settings, const crowd& who) {
  return hogs_from(heddle::machine::synthetic(machine), settings, who);
}

// The share of all CPUs' time that four wakers of 256 sleepers without work leave to searches for work.
double searching_in_a_storm(const std::string& settings) {
  heddle::runtime rt(described("pack:1 core:8 pu:2", with("wake_chain=off,wake_defer=off,announce_ns=0", settings)));
  std::chrono::nanoseconds took{};
  rt.run([&] {
    constexpr int wakers = 4, each = 64;
    bool stop = false;
    std::vector<std::unique_ptr<heddle::counting_semaphore<>>> go;
    std::vector<heddle::fiber<void>> all, waking;
    for (int i = 0; i < wakers * each; i++) {
      heddle::counting_semaphore<>& mine = *go.emplace_back(std::make_unique<heddle::counting_semaphore<>>(0));
      all.push_back(heddle::spawn([&] {
        while (!stop) mine.acquire();
      }));
    }
    const auto began = heddle::this_fiber::now();
    for (int w = 0; w < wakers; w++)
      waking.push_back(heddle::spawn({.cpu = w * 4}, [&, w] {
        for (int i = 0; i < 200 * each; i++) go[static_cast<size_t>(w * each + i % each)]->release();
      }));
    join_all(waking);
    took = heddle::this_fiber::now() - began;
    stop = true;
    for (auto& g : go) g->release();
    join_all(all);
  });
  return static_cast<double>(rt.stats().counters["newidle_ns"]) / (static_cast<double>(took.count()) * 16);
}

// CPU 1 idles briefly and often; on every 50th time CPU 0, which never idles, has work to give. How much of it CPU 1 found.
uint64_t rare_finds(const std::string& settings) {
  heddle::runtime rt(
      described("pack:1 core:2 pu:1", with("wake_chain=off,wake_defer=off,lb=off,ilb=off,stall_rescue=off,"
                                           "ni_overload_gate=off,announce_ns=0,migration_cost_ns=10000",
                                           settings)));
  uint64_t found = 0;
  rt.run([&] {
    constexpr int rounds = 6000, late = 3000;
    bool stop = false;
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 3; i++) all.push_back(heddle::spawn({.cpu = 0}, hog{.segment = 5us, .stop = &stop}));
    all.push_back(heddle::spawn({.cpu = 0}, [&] {
      for (int i = 0; i < rounds / 50; i++) {
        heddle::this_fiber::sleep_for(50 * 70us);
        heddle::spawn([&, i] {
          bool there = false;
          for (int k = 0; k < 20; k++) {
            heddle::this_fiber::burn(5us);
            there |= heddle::this_fiber::cpu() == 1;
            heddle::this_fiber::yield();
          }
          found += i >= late / 50 && there;
        }).detach();
      }
    }));
    heddle::spawn({.cpu = 1}, [&] {
      for (int i = 0; i < rounds; i++) {
        heddle::this_fiber::burn(60us);
        heddle::this_fiber::sleep_for(8us);
      }
    }).join();
    stop = true;
    join_all(all);
  });
  return found;
}

}  // namespace

TEST_CASE("F01: one heavy fiber does not hide the idle CPUs beside it, except from averages (3.x)") {
  const auto beside = [](const std::string& form) {
    const spread s =
        hogs_on("pack:2 core:4 pu:1", with(balance_only, "prefer_sibling=off,load_metric=instant,lb_form=" + form),
                {.home = 4, .count = 8, .lasts = 20ms, .heavy = true});
    return sum(s.turns, 0, 4);
  };
  CHECK(beside("v310") == 0);
  CHECK(beside("v419") > 1000);
  CHECK(beside("v55") > 1000);
}

TEST_CASE("F02, F04: balance crosses to a node two hops away, and to CPUs that were away for a while") {
  const auto file = heddle::machine::xml(HEDDLE_SOURCE_DIR "/tests/data/nodes_two_hops_apart.xml");
  const spread two = hogs_from(file, balance_only, {.home = 2, .count = 8, .lasts = 20ms, .cpus = "2-5"});
  for (size_t cpu = 2; cpu < 6; cpu++) CHECK(two.turns[cpu] > 1500);
  for (const char* cpus : {"0-2,4-7", "0-7"}) {
    const spread s = hogs_from(heddle::machine::synthetic("pack:2 [numa] core:4 pu:1"), balance_only,
                               {.home = 0, .count = 14, .lasts = 20ms, .cpus = cpus});
    CHECK((s.turns[3] > 1500) == (std::string(cpus) == "0-7"));
    for (size_t cpu : {0, 1, 2, 4, 5, 6, 7}) CHECK(s.turns[cpu] > 1500);
  }
}

TEST_CASE("F16: a storm of wake-ups does not spend its time on searches, unless nothing gates them") {
  CHECK(searching_in_a_storm("ni_gate=none,ni_domain_cost=off,ni_overload_gate=off,ni_random=off") > 0.2);
  CHECK(searching_in_a_storm("ni_gate=domain_cost,ni_random=off") < 0.05);
  CHECK(searching_in_a_storm("ni_gate=migration_cost,ni_random=off") < 0.05);
}

TEST_CASE("F17: rare finds that are worth it are made where searches are rare, and lost to dice without ni_rate") {
  CHECK(rare_finds("ni_random=off") > 40);  // of 60
  CHECK(rare_finds("ni_random=on,ni_rate=off") < 5);
  CHECK(rare_finds("ni_random=on,ni_rate=on") > 40);
}

TEST_CASE("F19: three fibers on two CPUs are served alike, unless nobody balances") {
  const auto service = [](const std::string& settings, uint64_t& migrations) {
    heddle::runtime rt(described("pack:1 core:2 pu:1", settings));
    std::vector<int> served(3);
    rt.run([&] {
      bool stop = false;
      std::vector<heddle::fiber<void>> all;
      for (size_t i = 0; i < 3; i++)
        all.push_back(heddle::spawn([&, i] {
          while (!stop) {
            heddle::this_fiber::burn(10us);
            served[i]++;
            heddle::this_fiber::yield();
          }
        }));
      heddle::this_fiber::sleep_for(60ms);
      stop = true;
      join_all(all);
    });
    migrations = rt.stats().counters["migrations"];
    const auto [least, most] = std::minmax_element(served.begin(), served.end());
    return static_cast<double>(*most) / *least;
  };
  uint64_t migrations = 0;
  for (const std::string settings : {"default", "k6.12"}) {
    CAPTURE(settings);
    CHECK(service(settings, migrations) < 1.2);
    CHECK(migrations < 60'000 / 310);  // one per busy interval of the level: 2 x 10 us x 16, less a tick
  }
  CHECK(service("lb=off", migrations) > 1.9);
}

TEST_CASE("F21, T4: hot fibers move after cache_nice_tries failures, not before; cold ones at once") {
  const auto failures = [](const std::string& settings) {
    const spread s = hogs_on("pack:1 core:2 pu:1", with(balance_only, settings), {.count = 2});
    CHECK(s.turns[1] > 400);
    return s.failed_before;
  };
  const uint64_t cold = failures("migration_cost_ns=0"), hot = failures("migration_cost_ns=-1"),
                 very = failures("migration_cost_ns=-1,cache_nice_tries_llc=6");
  CHECK(cold <= 1);
  CHECK(hot >= 2);
  CHECK(hot < very);
  CHECK(very >= 7);
}

TEST_CASE("F22: the running fiber of a full cache goes to the idle one at its next yield, if it may be pushed") {
  const auto beyond = [](const std::string& settings) {
    return hogs_on("pack:2 core:2 pu:1", with(balance_only, settings), {.count = 2, .lasts = 20ms});
  };
  spread pushed = beyond("active_push=on");
  CHECK(pushed.counters["moved_by_push"] == 1);
  CHECK(sum(pushed.turns, 2, 4) > 1500);
  CHECK(pushed.counters["lb_failed"] >= 4);  // cache_nice_tries + 3
  CHECK(sum(beyond("active_push=off").turns, 2, 4) == 0);
}

TEST_CASE("F23: who idles by turns does not steal the other's fiber back and forth") {
  for (const std::string settings : {"default", "ws_plain", "k6.12", "ni_gate=none,ni_domain_cost=off,ni_random=off"}) {
    CAPTURE(settings);
    heddle::runtime rt(described("pack:1 core:2 pu:1", settings));
    rt.run([] {
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 2; i++)
        all.push_back(heddle::spawn([i] {
          if (i == 1) heddle::this_fiber::sleep_for(30us);
          for (int k = 0; k < 500; k++) {
            heddle::this_fiber::burn(20us);
            heddle::this_fiber::yield();
            heddle::this_fiber::burn(10us);
            heddle::this_fiber::sleep_for(30us);
          }
        }));
      join_all(all);
    });
    CHECK(rt.stats().counters["migrations"] <= 4);
  }
}

TEST_CASE("F24, loop_break: of many thieves of one victim each takes little at a time") {
  const auto per_pull = [](const std::string& settings) {
    spread s = hogs_on("pack:1 core:33 pu:1", with(balance_only, settings), {.count = 200, .lasts = 3ms});
    counts& c = s.counters;
    const uint64_t pulls = c["llc_idle_passes"] - c["llc_idle_balanced"] - c["llc_idle_failed"];
    return static_cast<double>(c["llc_idle_gained"]) / static_cast<double>(pulls);
  };
  CHECK(per_pull("loop_break=4") <= 4);
  CHECK(per_pull("loop_break=100,nr_migrate=10") <= 10);
  CHECK(per_pull("loop_break=100,nr_migrate=100") > 30);
}
