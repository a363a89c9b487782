// Settings that only the mechanism can show: for each a history that differs between its values, on described machines.
#include "affinity/topology.h"
#include "tests/runtime/failure.h"

using namespace heddle_test;

namespace {

struct seen {
  int cpu = -1;
  std::chrono::nanoseconds after{};  // the wake-up
};

// A wakee in its waker's slot while another CPU idles. The waker goes on for 100 us, in steps of 2 us or in one go.
seen slot_of_a_waker(const std::string& setting, bool lively) {
  heddle::runtime rt(
      described("pack:1 core:2 pu:1", "tick_ns=100ms,idle=poll,lb=off,newidle=off,defer_max_ns=1s," + setting));
  seen out;
  rt.run([&] {
    heddle::counting_semaphore<> go(0), aside(1);
    std::chrono::nanoseconds woken{};
    std::vector<heddle::fiber<void>> wakee;
    heddle::spawn({.cpu = 0}, [&] {
      wakee.push_back(heddle::spawn([&] {
        go.acquire();
        out = {heddle::this_fiber::cpu(), heddle::this_fiber::now() - woken};
      }));
      heddle::this_fiber::sleep_for(1ms);
      woken = heddle::this_fiber::now();
      go.release();
      if (!lively) heddle::this_fiber::burn(100us);
      for (int i = 0; lively && i < 50; i++) {
        heddle::this_fiber::burn(2us);
        aside.acquire();
        aside.release();
      }
    }).join();
    join_all(wakee);
  });
  return out;
}

// Of the times that a sleeper preempted a hog, how often that hog went on right after it. Three hogs share the CPU.
double resumed_after_preemption(const std::string& setting) {
  heddle::runtime rt(described("pack:1 core:1 pu:1", "pick_order=vruntime," + setting));
  return rt.run([] {
    bool stop = false;
    std::vector<int> order;  // who ran, one entry per turn; 9: the sleeper
    const auto note = [&](int who) {
      if (order.empty() || order.back() != who) order.push_back(who);
    };
    std::vector<heddle::fiber<void>> all;
    for (int who = 0; who < 3; who++)
      all.push_back(heddle::spawn([&, who] {
        while (!stop) {
          note(who);
          heddle::this_fiber::burn(1us);
          if (heddle::this_fiber::should_yield()) heddle::this_fiber::yield();
        }
      }));
    auto sleeper = heddle::spawn([&] {
      for (int i = 0; i < 200; i++) {
        heddle::this_fiber::sleep_for(53us);
        note(9);
        heddle::this_fiber::burn(2us);
      }
    });
    sleeper.join();
    stop = true;
    join_all(all);
    int preempted = 0, resumed = 0;
    for (size_t i = 1; i + 1 < order.size(); i++) {
      if (order[i] != 9) continue;
      preempted++;
      resumed += order[i - 1] == order[i + 1];
    }
    return static_cast<double>(resumed) / preempted;
  });
}

// Whether the wakee of a waker on CPU 0 leaves an idle CPU of another cache for its waker's.
enum class relation { wait_hands_over_mutex, channel_push, semaphore_release };
bool pulled_by(relation how, const std::string& setting) {
  heddle::runtime rt(described("pack:2 core:2 pu:1", with(placement_only, setting)));
  int ran = -1;
  rt.run([&] {
    heddle::mutex m;
    heddle::condition_variable cv;
    heddle::channel<int> c(4);
    heddle::counting_semaphore<> s(0);
    bool done = false;
    std::vector<heddle::fiber<void>> wakee;
    auto waker = heddle::spawn({.cpu = 0}, [&] {
      std::unique_lock held(m);
      heddle::this_fiber::sleep_for(1ms);
      if (how == relation::channel_push) c.push(1);
      if (how == relation::semaphore_release) s.release();
      if (how == relation::wait_hands_over_mutex) cv.wait(held, [&] { return done; });
      heddle::this_fiber::burn(50us);
    });
    heddle::spawn({.cpu = 2}, [&] {
      wakee.push_back(heddle::spawn([&] {
        if (how == relation::channel_push) (void)c.pop();
        if (how == relation::semaphore_release) s.acquire();
        std::unique_lock<heddle::mutex> lock(m, std::defer_lock);
        if (how == relation::wait_hands_over_mutex) lock.lock();
        ran = heddle::this_fiber::cpu();
        done = true;
        cv.notify_one();
      }));
    }).join();
    join_all(wakee);
    waker.join();
  });
  return ran < 2;
}

// CPUs on which children of a fiber on CPU 0 begin, all others idling.
std::set<int> birthplaces(const std::string& setting) {
  heddle::runtime rt(described("pack:1 core:4 pu:1", with(placement_only, setting)));
  return rt.run([] {
    std::set<int> out;
    heddle::spawn({.cpu = 0}, [&] {
      std::vector<heddle::fiber<void>> all;
      heddle::this_fiber::burn(20us);
      for (int i = 0; i < 3; i++) all.push_back(heddle::spawn([&] { out.insert(heddle::this_fiber::cpu()); }));
      join_all(all);
    }).join();
    return out;
  });
}

// A fiber that worked hard on a slow CPU and slept for long: the capacity of the CPU it is woken on.
int capacity_after_sleep(const std::string& setting) {
  heddle::runtime rt(described("hybrid", with(placement_only, setting)));
  const heddle::core::topology& cpus = heddle::detail::scheduler_of(rt).cpus;
  int slow = 0;
  for (size_t i = 0; i < cpus.cpu_count(); i++)
    if (cpus.cpus[i].capacity < cpus.cpus[static_cast<size_t>(slow)].capacity) slow = static_cast<int>(i);
  const int os_id = cpus.cpus[static_cast<size_t>(slow)].os_id;
  int ran = -1;
  rt.run([&] {
    heddle::counting_semaphore<> go(0);
    std::vector<heddle::fiber<void>> sleeper;
    heddle::spawn({.cpu = os_id}, [&] {
      sleeper.push_back(heddle::spawn([&] {
        for (int i = 0; i < 500; i++) {
          heddle::this_fiber::burn(10us);
          heddle::this_fiber::yield();
        }
        go.acquire();
        ran = heddle::this_fiber::cpu();
      }));
    }).join();
    auto waker = heddle::spawn([&] {
      heddle::this_fiber::sleep_for(30ms);
      go.release();
      heddle::this_fiber::burn(20us);
    });
    waker.join();
    join_all(sleeper);
  });
  return cpus.at(cpus.find_os(ran)).capacity;
}

// A bit of everything; what the virtual machine made of it, as a number.
uint64_t trace(const std::string& setting) {
  heddle::runtime rt(described("pack:1 core:2 pu:2", setting));
  rt.run([] {
    heddle::counting_semaphore<> s(0);
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 6; i++)
      all.push_back(heddle::spawn([&, i] {
        for (int k = 0; k < 60; k++) {
          heddle::this_fiber::burn(std::chrono::microseconds(k % 20 == 0 ? 1500 : i + 2 * (k % 4)));
          if (k % 3 == i % 3) s.release();
          if (k % 5 == 0) heddle::this_fiber::sleep_for(std::chrono::microseconds(10 * i + 30 * (k % 5 == 0)));
          if (k % 7 == 0 && i % 2 == 0) (void)s.try_acquire_for(20us);
          heddle::this_fiber::yield();
        }
      }));
    heddle::counting_semaphore<> ping(0), pong(0);
    all.push_back(heddle::spawn([&] {
      for (int k = 0; k < 60; k++) {
        heddle::this_fiber::burn(5us);
        ping.release();
        pong.acquire();
      }
    }));
    all.push_back(heddle::spawn([&] {
      for (int k = 0; k < 60; k++) {
        ping.acquire();
        pong.release();
      }
    }));
    join_all(all);
  });
  return rt.stats().counters["vm_trace_hash"];
}

}  // namespace

TEST_CASE("slot_stealable: never, from a worker that stood still, or at the next scheduling point") {
  CHECK(slot_of_a_waker("slot_stealable=no", true).cpu == 0);
  CHECK(slot_of_a_waker("slot_stealable=no", false).cpu == 0);
  CHECK(slot_of_a_waker("slot_stealable=after_delay", true).cpu == 0);
  CHECK(slot_of_a_waker("slot_stealable=after_delay", false).cpu == 1);
  CHECK(slot_of_a_waker("slot_stealable=yes", false).cpu == 1);
  const seen at_once = slot_of_a_waker("slot_stealable=yes", true);
  CHECK(at_once.cpu == 1);
  CHECK(at_once.after < 20us);
}

TEST_CASE("last_buddy: who made room for a wakee goes on right after it") {
  const double on = resumed_after_preemption("last_buddy=on"), off = resumed_after_preemption("last_buddy=off");
  CAPTURE(on);
  CAPTURE(off);
  CHECK(on > 0.8);
  CHECK(off < 0.65);  // one of three, and the one that had run least
}

TEST_CASE("sync_hint: who is about to block, by structure or by what the kernel takes for it") {
  CHECK(pulled_by(relation::wait_hands_over_mutex, "sync_hint=structural"));
  CHECK_FALSE(pulled_by(relation::wait_hands_over_mutex, "sync_hint=structural,wa_sync=off"));
  CHECK_FALSE(pulled_by(relation::wait_hands_over_mutex, "sync_hint=kernel"));
  CHECK_FALSE(pulled_by(relation::channel_push, "sync_hint=structural"));
  CHECK(pulled_by(relation::channel_push, "sync_hint=kernel"));
  for (const std::string hint : {"sync_hint=structural", "sync_hint=kernel"})
    CHECK_FALSE(pulled_by(relation::semaphore_release, hint));
}

TEST_CASE("fork_path: a new fiber begins beside its parent, or where there is most room") {
  CHECK(birthplaces("fork_path=local") == std::set<int>{0});
  CHECK(birthplaces("fork_path=slow") == std::set<int>{1, 2, 3});
}

TEST_CASE("util_est: what was busy before it slept is woken on a CPU that is large enough") {
  CHECK(capacity_after_sleep("util_est=on") == 1024);
  CHECK(capacity_after_sleep("util_est=off") < 1024);
}

TEST_CASE("mechanism: other values are other histories") {
  const std::pair<const char*, std::vector<const char*>> rows[] = {
      {"accounting", {"exact", "off"}},   {"idle", {"poll", "adaptive", "park"}}, {"spin_ns", {"50us", "5us"}},
      {"announce_ns", {"2us", "20us"}},   {"wake_defer", {"on", "off"}},          {"wake_chain", {"on", "off"}},
      {"defer_max_ns", {"100us", "1us"}}, {"claim_after_ns", {"5us", "200us"}},   {"rescue_ns", {"1ms", "20us"}},
      {"monitor", {"on", "off"}},         {"stall_rescue", {"on", "off"}},
  };
  for (const auto& [name, values] : rows) {
    std::set<uint64_t> outcomes;
    for (const char* value : values) outcomes.insert(trace(std::string(name) + "=" + value));
    const std::string which = name;
    CAPTURE(which);
    CHECK(outcomes.size() == values.size());
  }
}
