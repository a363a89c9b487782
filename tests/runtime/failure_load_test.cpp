// Failure classes of the load signal (policy reference, section 10: F10, F12, F13, F15, T6): the form that has the fault shows it,
// the fixed form does not.
#include "tests/runtime/failure.h"

using namespace heddle_test;

namespace {

struct burst_run {
  std::vector<int> ran = std::vector<int>(8);  // wakees by CPU
  uint64_t bursts = 0;                         // placements that compared the load of now
};

// 64 fibers, eight per CPU, that slept for 100 half-lives and are woken by one on CPU 0.
burst_run wake_sleepers(const std::string& settings) {
  heddle::runtime rt(described("pack:1 core:8 pu:1", with(placement_only, settings)));
  burst_run out;
  rt.run([&] {
    heddle::counting_semaphore<> go(0);
    std::vector<heddle::fiber<void>> all;
    for (int cpu = 0; cpu < 8; cpu++)
      heddle::spawn({.cpu = cpu}, [&] {
        for (int i = 0; i < 8; i++)
          all.push_back(heddle::spawn([&] {
            go.acquire();
            out.ran[static_cast<size_t>(heddle::this_fiber::cpu())]++;
            heddle::this_fiber::burn(50us);
          }));
      }).join();
    heddle::this_fiber::sleep_for(27ms);
    heddle::spawn({.cpu = 0}, [&] { go.release(64); }).join();
    join_all(all);
  });
  out.bursts = rt.stats().counters["burst"];
  return out;
}

int widest(const std::vector<int>& ran) {
  return *std::max_element(ran.begin(), ran.end()) - *std::min_element(ran.begin(), ran.end());
}

// On how many CPUs seven sleepers of CPU 0 run that are woken by one, at once after a full load and 10 ms of idling later.
std::vector<size_t> herds_after_load(const std::string& settings) {
  heddle::runtime rt(described("pack:1 core:8 pu:1", with("wake_chain=off,newidle=off,wake_defer=off", settings)));
  std::vector<size_t> distinct;
  rt.run([&] {
    for (bool loaded : {true, false}) {
      bool stop = false;
      std::vector<heddle::fiber<void>> hogs, all;
      heddle::counting_semaphore<> go(0);
      std::set<int> ran;
      heddle::spawn({.cpu = 0}, [&] {
        for (int i = 0; i < 7; i++)
          all.push_back(heddle::spawn([&] {
            go.acquire();
            ran.insert(heddle::this_fiber::cpu());
            heddle::this_fiber::burn(300us);
          }));
      }).join();
      if (loaded)
        for (int cpu = 0; cpu < 8; cpu++) hogs.push_back(heddle::spawn({.cpu = cpu}, hog{.stop = &stop}));
      heddle::this_fiber::sleep_for(10ms);
      stop = true;
      join_all(hogs);
      heddle::spawn({.cpu = 0}, [&] {
        heddle::this_fiber::burn(10us);  // until the others have found nothing and say that they idle
        go.release(7);
        heddle::this_fiber::burn(100us);
      }).join();
      join_all(all);
      distinct.push_back(ran.size());
    }
  });
  return distinct;
}

}  // namespace

TEST_CASE("F10, blocked_decay: the load of a parked CPU decays for its readers, unless nobody ages it") {
  const auto left = [](const std::string& settings) {
    heddle::runtime rt(described("pack:1 core:4 pu:1", with("wake_chain=off,newidle=off", settings)));
    int64_t full = 0, later = 0;
    rt.run([&] {
      heddle::spawn({.cpu = 1}, [&] {
        for (int i = 0; i < 1000; i++) {
          heddle::this_fiber::burn(10us);
          heddle::this_fiber::yield();
        }
        full = load_of_cpu(rt, 1);
      }).join();
      // Work elsewhere, for four half-lives: somebody has ticks.
      heddle::spawn({.cpu = 3}, [&] {
        for (int i = 0; i < 105; i++) {
          heddle::this_fiber::burn(10us);
          heddle::this_fiber::yield();
        }
        later = load_of_cpu(rt, 1);
      }).join();
    });
    CHECK(full > 1000);
    return later;
  };
  CHECK(left("blocked_decay=reader") < 102);
  CHECK(left("blocked_decay=ilb") < 102);
  CHECK(left("blocked_decay=ilb,ilb=off") > 1000);
}

TEST_CASE(
    "F12: long sleepers pile up on their waker by decayed loads; not by the load of now, or where idle CPUs are "
    "found") {
  const std::string decayed = "load_metric=runnable_load,wa_form=v39,wake_wide=off,sis=off";
  CHECK(widest(wake_sleepers(decayed).ran) > 30);
  CHECK(widest(wake_sleepers(decayed + ",wa_burst_ns=1s").ran) <= 2);
  CHECK(widest(wake_sleepers("").ran) < 12);
}

TEST_CASE("T6: the larger the threshold, the more wake-ups compare the load of now") {
  uint64_t before = 0;
  for (const char* threshold : {"0", "1us", "5us", "1s"}) {
    const uint64_t bursts =
        wake_sleepers(std::string("load_metric=runnable_load,wa_form=v39,wake_wide=off,sis=off,wa_burst_ns=") +
                      threshold)
            .bursts;
    CHECK(bursts >= before);
    before = bursts;
  }
  CHECK(before > 50);
}

TEST_CASE("F13: a budget from before the CPUs emptied lets wakees pile up, until the next balance; none does not") {
  const std::vector<size_t> stale = herds_after_load("sis_limit=util");
  CHECK(stale[0] < 4);
  CHECK(stale[1] == 7);
  CHECK(herds_after_load("sis_limit=none") == std::vector<size_t>{7, 7});
}

TEST_CASE("F15: a storm of new fibers does not weigh on its CPU for longer than it lasts") {
  heddle::runtime rt(described("pack:1 core:4 pu:1", "wake_chain=off"));
  rt.run([&] {
    int64_t then = 0;
    heddle::spawn({.cpu = 0}, [&] {
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 10'000; i++) {
        all.push_back(heddle::spawn([] { heddle::this_fiber::burn(200ns); }));
        if (i % 10 == 9) heddle::this_fiber::yield();
      }
      then = load_of_cpu(rt, 0);
      join_all(all);
    }).join();
    CHECK(then < 11 * 1024);  // never more than eleven at a time
    const int64_t after = load_of_cpu(rt, 0);
    heddle::this_fiber::sleep_for(262us);  // a half-life
    CHECK(load_of_cpu(rt, 0) <= after / 2 + 2);
  });
}
