// Weighted orders, nice values, the idle class and slices, on described machines: times are exact.
#include <doctest/doctest.h>

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

constexpr const char* one_cpu = "pack:1 core:1 pu:1";

// Fibers of these nice values that always want to run and yield every 10 us: how often each ran in 20 ms.
std::vector<int> turns(const std::string& settings, const std::vector<int>& nice) {
  heddle::runtime rt(on(one_cpu, settings));
  return rt.run([&] {
    std::vector<int> count(nice.size());
    bool stop = false;
    std::vector<heddle::fiber<void>> all;
    for (size_t i = 0; i < nice.size(); i++)
      all.push_back(heddle::spawn({.nice = nice[i]}, [&, i] {
        while (!stop) {
          count[i]++;
          heddle::this_fiber::burn(10us);
          heddle::this_fiber::yield();
        }
      }));
    heddle::this_fiber::sleep_for(20ms);
    stop = true;
    for (auto& f : all) f.join();
    return count;
  });
}

double share(const std::vector<int>& count, size_t i) {
  int total = 0;
  for (int c : count) total += c;
  return static_cast<double>(count[i]) / total;
}

}  // namespace

TEST_CASE("pick_order: fifo gives turns, the weighted orders give service by weight") {
  const std::vector<int> nice{0, 5, -5};  // 1024, 336, 3125
  const std::vector<int> fifo = turns("accounting=exact", nice);
  for (size_t i = 0; i < 3; i++) CHECK(share(fifo, i) == doctest::Approx(1.0 / 3).epsilon(0.05));
  for (const char* order : {"pick_order=vruntime,accounting=exact", "pick_order=eevdf,accounting=exact"}) {
    CAPTURE(order);
    const std::vector<int> fair = turns(order, nice);
    CHECK(share(fair, 0) == doctest::Approx(1024.0 / 4485).epsilon(0.1));
    CHECK(share(fair, 1) == doctest::Approx(336.0 / 4485).epsilon(0.15));
    CHECK(share(fair, 2) == doctest::Approx(3125.0 / 4485).epsilon(0.1));
  }
}

TEST_CASE("INV-PK4, idle_class: idle-class fibers run where nothing else does, and are told to make room") {
  for (const char* settings : {"", "pick_order=vruntime", "pick_order=eevdf", "pick_slot=off"})
    for (bool honoured : {true, false}) {
      CAPTURE(settings);
      CAPTURE(honoured);
      heddle::runtime rt(
          on(one_cpu, std::string("idle_class=") + (honoured ? "on" : "off") + (*settings ? "," : "") + settings));
      rt.run([&] {
        int idle_ran = 0, idle_while_busy = 0;
        bool busy = false, stop = false;
        auto idle = heddle::spawn({.idle = true}, [&] {
          while (!stop) {
            idle_ran++;
            idle_while_busy += busy;
            heddle::this_fiber::burn(5us);
            heddle::this_fiber::yield();
          }
        });
        heddle::this_fiber::sleep_for(100us);
        CHECK(idle_ran > 5);  // nobody else wants the cpu
        busy = true;
        for (int i = 0; i < 100; i++) {
          heddle::this_fiber::burn(5us);
          heddle::this_fiber::yield();
        }
        busy = false;
        stop = true;
        idle.join();
        if (honoured) CHECK(idle_while_busy == 0);
        if (!honoured && *settings == 0) CHECK(idle_while_busy > 50);
      });
    }
}

TEST_CASE("should_yield: an idle-class fiber is told when another waits, a hog when its slice is used up") {
  for (bool hint : {true, false}) {
    CAPTURE(hint);
    heddle::runtime rt(on(one_cpu, std::string("preempt_hint=") + (hint ? "on" : "off")));
    rt.run([&] {
      bool told = false;
      auto idle = heddle::spawn({.idle = true}, [&] {
        for (int i = 0; i < 1000 && !told; i++) {
          heddle::this_fiber::burn(1us);
          told = heddle::this_fiber::should_yield();
        }
      });
      heddle::this_fiber::sleep_for(50us);
      idle.join();
      CHECK(told == hint);
    });
    rt.run([&] {
      int asked = 0;
      bool told = false;
      auto hog = heddle::spawn([&] {
        for (; asked < 1000 && !told; asked++) {
          heddle::this_fiber::burn(1us);
          told = heddle::this_fiber::should_yield();
        }
      });
      auto other = heddle::spawn([] {});
      hog.join();
      other.join();
      CHECK(told == hint);
      if (hint) CHECK(asked >= 9);  // base_slice_ns
    });
  }
}

TEST_CASE("slot_inherit: a pair that wakes each other shares one slice, then the list has its turn") {
  // How many rounds a pair makes before a fiber in the list runs. lifo_max would end it: it is out of the way here.
  const auto rounds = [](const char* settings) {
    heddle::runtime rt(on(one_cpu, std::string("lifo_max=1000000,") + settings));
    return rt.run([&] {
      heddle::counting_semaphore<> ping(0), pong(0);
      int count = 0, seen = 0;
      constexpr int most = 2000;
      auto a = heddle::spawn([&] {
        for (int i = 0; i < most; i++) {
          ping.release();
          pong.acquire();
        }
      });
      auto b = heddle::spawn([&] {
        for (int i = 0; i < most; i++) {
          ping.acquire();
          count++;
          heddle::this_fiber::burn(1us);
          pong.release();
        }
      });
      auto waits = heddle::spawn([&] { seen = count; });
      waits.join();
      a.join();
      b.join();
      return seen;
    });
  };
  const int one_slice = rounds("slot_inherit=on,base_slice_ns=20us");
  const int two_slices = rounds("slot_inherit=on,base_slice_ns=200us");
  CHECK(one_slice < 100);
  CHECK(two_slices > one_slice);
  CHECK(rounds("slot_inherit=off") > two_slices);
}

TEST_CASE("nice: out of range is refused, with what would be accepted") {
  heddle::runtime rt(on(one_cpu));
  rt.run([] {
    CHECK_THROWS_WITH_AS((void)heddle::spawn({.nice = 20}, [] {}), "heddle::fiber_options::nice: 20 is not -20..19",
                         std::invalid_argument);
  });
}

TEST_CASE("pick_order: everything holds under every preset's order, with stealing between CPUs") {
  for (const char* preset : {"k3.9", "k4.19", "k6.12", "k7.0", "default", "ws_plain"}) {
    CAPTURE(preset);
    heddle::runtime rt(on("pack:2 core:2 pu:2", preset));
    const int total = rt.run([] {
      heddle::mutex m;
      int sum = 0;
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 200; i++)
        all.push_back(heddle::spawn({.nice = i % 11 - 5, .idle = i % 13 == 0}, [&, i] {
          for (int k = 0; k < 5; k++) {
            heddle::this_fiber::burn(std::chrono::microseconds(1 + i % 7));
            if (i % 3 == 0) heddle::this_fiber::sleep_for(3us);
            heddle::this_fiber::yield();
            std::lock_guard guard(m);
            sum++;
          }
        }));
      for (auto& f : all) f.join();
      return sum;
    });
    CHECK(total == 1000);
  }
}
