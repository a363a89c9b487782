// Failure classes of wake-ups (policy reference, section 10: F06 to F09, F14, F25, F26, F28): the form that has the fault shows it,
// the fixed form does not.
#include <memory>

#include "tests/runtime/failure.h"

using namespace heddle_test;

namespace {

// Wakers pinned to `wakers` wake one sleeper each at one instant; where the sleepers ran. All of them slept on `slept_on`.
std::vector<int> simultaneous(const std::string& machine, const std::string& settings, const std::vector<int>& wakers,
                              int slept_on) {
  heddle::runtime rt(described(machine, with(placement_only, settings)));
  return rt.run([&] {
    const size_t count = wakers.size();
    std::vector<int> ran(count, -1);
    std::vector<heddle::fiber<void>> sleepers, waking;
    std::vector<std::unique_ptr<heddle::counting_semaphore<>>> go;
    for (size_t i = 0; i < count; i++) go.push_back(std::make_unique<heddle::counting_semaphore<>>(0));
    heddle::spawn({.cpu = slept_on}, [&] {
      for (size_t i = 0; i < count; i++)
        sleepers.push_back(heddle::spawn([&, i] {
          go[i]->acquire();
          ran[i] = heddle::this_fiber::cpu();
          heddle::this_fiber::burn(200us);
        }));
    }).join();
    const auto at = heddle::this_fiber::now() + 2ms;
    for (size_t i = 0; i < count; i++)
      waking.push_back(heddle::spawn({.cpu = wakers[i]}, [&, i] {
        heddle::this_fiber::sleep_for(at - heddle::this_fiber::now() - 100us);
        heddle::this_fiber::burn_until(at);
        go[i]->release();
        heddle::this_fiber::burn(100us);
      }));
    join_all(waking);
    join_all(sleepers);
    return ran;
  });
}

struct barrier_rounds {
  int moves = 0;    // a fiber went on elsewhere than before
  int crowded = 0;  // rounds in which two fibers shared a CPU
};

// As many fibers as CPUs meet at a barrier, again and again; the first rounds do not count.
barrier_rounds meet(const std::string& settings) {
  heddle::runtime rt(described("pack:1 core:8 pu:1", settings));
  return rt.run([&] {
    constexpr size_t rounds = 60, early = 20;
    heddle::barrier meeting(8);
    std::vector<std::vector<int>> cpu(rounds, std::vector<int>(8));
    std::vector<heddle::fiber<void>> all;
    for (size_t i = 0; i < 8; i++)
      all.push_back(heddle::spawn([&, i] {
        for (size_t r = 0; r < rounds; r++) {
          meeting.arrive_and_wait();
          heddle::this_fiber::burn(20us);
          cpu[r][i] = heddle::this_fiber::cpu();
        }
      }));
    join_all(all);
    barrier_rounds out;
    for (size_t r = early; r < rounds; r++) {
      out.crowded += std::set<int>(cpu[r].begin(), cpu[r].end()).size() < 8;
      for (size_t i = 0; i < 8; i++) out.moves += cpu[r][i] != cpu[r - 1][i];
    }
    return out;
  });
}

// 100 wake-ups of one fiber by wakers pinned to these CPUs in turn; how often it changed its CPU. A daemon on each CPU of `daemons`
// sleeps 40 us of 100.
int hops(const std::string& settings, const std::vector<int>& wakers, int home, const std::vector<int>& daemons = {}) {
  heddle::runtime rt(described("pack:2 core:4 pu:1", with(placement_only, settings)));
  return rt.run([&] {
    constexpr int rounds = 100;
    bool stop = false;
    int changed = 0;
    heddle::counting_semaphore<> go(0);
    std::vector<heddle::fiber<void>> sleeper, background, waking;
    for (int cpu : daemons)
      background.push_back(heddle::spawn({.cpu = cpu}, [&] {
        while (!stop) {
          heddle::this_fiber::burn(60us);
          heddle::this_fiber::sleep_for(40us);
        }
      }));
    heddle::spawn({.cpu = home}, [&] {
      sleeper.push_back(heddle::spawn([&] {
        int last = heddle::this_fiber::cpu();
        for (int r = 0; r < rounds; r++) {
          go.acquire();
          changed += r > 0 && heddle::this_fiber::cpu() != last;
          last = heddle::this_fiber::cpu();
          heddle::this_fiber::burn(5us);
        }
      }));
    }).join();
    const auto began = heddle::this_fiber::now() + 2ms;
    for (size_t k = 0; k < wakers.size(); k++)
      waking.push_back(heddle::spawn({.cpu = wakers[k]}, [&, k] {
        for (int r = static_cast<int>(k); r < rounds; r += static_cast<int>(wakers.size())) {
          // Out of step with the daemons: half of the time the CPU idles.
          const auto at = began + r * 197us;
          if (at > heddle::this_fiber::now()) heddle::this_fiber::sleep_for(at - heddle::this_fiber::now());
          go.release();
          heddle::this_fiber::burn(20us);
        }
      }));
    join_all(waking);
    stop = true;
    join_all(sleeper);
    join_all(background);
    return changed;
  });
}

struct pairs_run {
  std::chrono::nanoseconds took{};
  counts counters;
};

// Pairs that wake each other 200 times. `hogs`: a fiber that never sleeps on every CPU beside them.
pairs_run pairs(const std::string& machine, const std::string& settings, int count, bool hogs = false) {
  heddle::runtime rt(described(machine, settings));
  pairs_run out;
  rt.run([&] {
    bool stop = false;
    std::vector<heddle::fiber<void>> background, all;
    if (hogs)
      for (int cpu = 0; cpu < static_cast<int>(rt.workers()); cpu++)
        background.push_back(heddle::spawn({.cpu = cpu}, hog{.segment = 20us, .stop = &stop}));
    heddle::this_fiber::sleep_for(2ms);
    const auto began = heddle::this_fiber::now();
    struct channels {
      heddle::counting_semaphore<> ping{0}, pong{0};
    };
    std::vector<std::unique_ptr<channels>> between;
    for (int i = 0; i < count; i++) {
      channels& c = *between.emplace_back(std::make_unique<channels>());
      all.push_back(heddle::spawn([&c] {
        for (int k = 0; k < 200; k++) {
          heddle::this_fiber::burn(3us);
          c.ping.release();
          c.pong.acquire();
        }
      }));
      all.push_back(heddle::spawn([&c] {
        for (int k = 0; k < 200; k++) {
          c.ping.acquire();
          heddle::this_fiber::burn(3us);
          c.pong.release();
        }
      }));
    }
    join_all(all);
    out.took = heddle::this_fiber::now() - began;
    stop = true;
    join_all(background);
  });
  out.counters = rt.stats().counters;
  return out;
}

// Writes to the shared line of an LLC per tick, by a CPU that works and sleeps by turns, faster than it ticks.
double writes_per_tick(const std::string& settings) {
  heddle::runtime rt(described("pack:1 core:4 pu:1", with("announce_ns=0,wake_chain=off,newidle=off", settings)));
  heddle::core::scheduler& s = heddle::detail::scheduler_of(rt);
  uint64_t writes = 0;
  constexpr int rounds = 1000;
  std::chrono::nanoseconds took{};
  rt.run([&] {
    heddle::spawn({.cpu = 2}, [&] {
      const auto began = heddle::this_fiber::now();
      const uint64_t before = s.workers[2]->marks->shared_writes();
      for (int i = 0; i < rounds; i++) {
        heddle::this_fiber::burn(2us);
        heddle::this_fiber::sleep_for(2us);
      }
      writes = s.workers[2]->marks->shared_writes() - before;
      took = heddle::this_fiber::now() - began;
    }).join();
  });
  return static_cast<double>(writes) / (static_cast<double>(took.count()) / 10'000);  // tick_ns
}

}  // namespace

TEST_CASE("F06: wakers of one instant take a core each while cores idle, unless cores are not looked for") {
  const auto cores = [](const char* settings) {
    std::set<int> distinct;
    for (int cpu : simultaneous("pack:1 core:8 pu:2", settings, {0, 2, 4, 6}, 15)) distinct.insert(cpu / 2);
    return distinct;
  };
  CHECK(cores("") == std::set<int>{4, 5, 6, 7});
  const std::set<int> beside_wakers = cores("sis_idle_core=off");
  CHECK(std::any_of(beside_wakers.begin(), beside_wakers.end(), [](int core) { return core < 4; }));
}

TEST_CASE("F07: fibers that meet at a barrier have a CPU each and keep it, if idle CPUs are looked for") {
  for (const char* settings : {"wake_defer=off", "k4.19", "k6.12", "k7.0"}) {
    CAPTURE(settings);
    const barrier_rounds r = meet(settings);
    CHECK(r.moves == 0);
    CHECK(r.crowded == 0);
  }
  CHECK(meet(with(placement_only, "sis=target_only")).crowded == 40);
}

TEST_CASE("F08: an idle CPU keeps its fiber whoever wakes it and wherever, except where loads alone decide (3.9)") {
  for (const std::string settings : {"", "wa_idle_prev=off", "sis=v49", "sis=v310"}) {
    CAPTURE(settings);
    CHECK(hops(settings, {4, 5, 6}, 1) == 0);
    CHECK(hops(settings, {0, 2, 3}, 1) == 0);
  }
  CHECK(hops("wa_form=v39", {4, 5, 6}, 1) > 30);
}

TEST_CASE("F09: a mutex that is handed on all the time moves nobody where the wakee is deferred, else one at most") {
  constexpr uint64_t hand_offs = 800;
  const auto migrations = [](const std::string& settings) {
    heddle::runtime rt(described("pack:1 core:4 pu:1", settings));
    rt.run([] {
      heddle::mutex m;
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 4; i++)
        all.push_back(heddle::spawn([&] {
          for (uint64_t k = 0; k < hand_offs / 4; k++) {
            std::lock_guard guard(m);
            heddle::this_fiber::burn(2us);
          }
        }));
      join_all(all);
    });
    return rt.stats().counters["migrations"];
  };
  CHECK(migrations("wake_chain=off") <= 4);  // where they begin
  CHECK(migrations("default") <= hand_offs);
  const uint64_t placed = migrations("wake_defer=off");
  CHECK(placed > hand_offs / 4);
  CHECK(placed <= hand_offs);
}

TEST_CASE("F14: blocked load on an idle CPU drives few to another cache, except before 5.11") {
  const std::vector<int> daemons{1, 2, 3, 5, 6, 7};
  const int kept = hops("", {0, 4}, 6, daemons), driven = hops("wa_idle_prev=off", {0, 4}, 6, daemons);
  CAPTURE(kept);
  CAPTURE(driven);
  CHECK(driven > 2 * kept);
  CHECK(driven > 40);
}

TEST_CASE("F25: a wake-up looks at no more CPUs than its budget, and stays in its cache while that has room") {
  const auto probes = [](const std::string& limit) {
    counts c =
        pairs("pack:1 core:40 pu:2",
              with("wake_defer=off,wake_chain=off,newidle=off,idle_mask=off,balance_unit_ns=1000", limit), 8, true)
            .counters;
    CHECK(c["wake_miss"] > 3000);  // everybody has a hog
    return static_cast<double>(c["probes"]) / static_cast<double>(c["wake_miss"]);
  };
  CHECK(probes("sis_limit=none") > 70);
  CHECK(probes("sis_limit=prop") < 35);
  CHECK(probes("sis_limit=util") < 10);
  for (int clients : {1, 2, 4, 8}) {
    counts c = pairs("pack:2 core:10 pu:2", "wake_defer=off", clients).counters;
    CHECK(c["migrations_node"] + c["migrations_machine"] == 0);
    CHECK(c["woken_node"] + c["woken_machine"] == 0);
  }
}

TEST_CASE("F26: in small caches pairs do not leapfrog, and looking for the idler cache does not slow them") {
  pairs_run mainline = pairs("pack:2 core:4 pu:1", "k5.12", 2), idler = pairs("pack:2 core:4 pu:1", "k5.12_idler", 2);
  CHECK(mainline.counters["migrations"] < 20);  // of 800 wake-ups
  CHECK(idler.counters["migrations"] < 20);
  CHECK(idler.took < mainline.took * 105 / 100);
}

TEST_CASE(
    "F28, T5: a CPU that works and sleeps by turns leaves its cache's shared line alone, except with exact marks") {
  CHECK(writes_per_tick("") <= 2);
  CHECK(writes_per_tick("busy_mark=exact,nr_busy_mode=exact") > 5);
}
