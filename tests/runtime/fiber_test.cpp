// Fibers through the public API: results, exceptions, detach, join from everywhere, names, locals, stop.
#include "heddle/fiber.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.h"

using namespace std::chrono_literals;

namespace {
heddle::runtime_options quiet(size_t workers = 0) { return {.workers = workers, .read_environment = false}; }

// glibc declares the address of errno constant, so a compiler keeps it over a suspension, after which the fiber may be on
// another thread: read it through a call.
[[gnu::noinline]] int errno_now() {
  asm volatile("");
  return errno;
}
[[gnu::noinline]] void set_errno(int value) {
  asm volatile("");
  errno = value;
}
}  // namespace

TEST_CASE("fiber: join returns the result, moved once") {
  heddle::runtime rt(quiet());
  auto f = rt.spawn([](std::string a, int b) { return a + std::to_string(b); }, std::string("x"), 7);
  CHECK(f.joinable());
  CHECK(f.join() == "x7");
  CHECK_FALSE(f.joinable());
  CHECK_THROWS_AS(f.join(), std::logic_error);
  auto p = rt.spawn([] { return std::make_unique<int>(5); });
  CHECK(*p.join() == 5);
  int target = 3;
  int& back = rt.spawn([&]() -> int& { return target; }).join();
  CHECK(&back == &target);
}

TEST_CASE("fiber: an exception reaches the joiner, in a fiber and in a plain thread") {
  heddle::runtime rt(quiet());
  CHECK_THROWS_WITH_AS(rt.spawn([] { throw std::runtime_error("inside"); }).join(), "inside", std::runtime_error);
  rt.run([] {
    auto child = heddle::spawn([]() -> int { throw 42; });
    bool caught = false;
    try {
      child.join();
    } catch (int e) {
      caught = e == 42;
    }
    CHECK(caught);
  });
}

TEST_CASE("fiber: thousands spawned from one fiber all run, on any number of workers") {
  for (size_t workers : {size_t{1}, size_t{0}}) {
    heddle::runtime rt(quiet(workers));
    std::atomic<int> ran{0};
    rt.run([&] {
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < 5000; i++)
        all.push_back(heddle::spawn([&] {
          heddle::this_fiber::yield();
          ran++;
        }));
      for (auto& f : all) f.join();
    });
    CHECK(ran == 5000);
    CHECK(rt.stats().fibers_live == 0);
  }
}

TEST_CASE("fiber: spawn outside of a fiber says what to use instead") {
  CHECK_THROWS_AS((void)heddle::spawn([] {}), std::logic_error);
  CHECK(heddle::this_fiber::cpu() == -1);
  CHECK(heddle::this_fiber::id() == 0);
}

TEST_CASE("fiber: name, id, cpu and a pinned fiber's cpu") {
  heddle::runtime rt(quiet());
  rt.spawn({.name = "parser"}, [] {
      CHECK(heddle::this_fiber::name() == "parser");
      CHECK(heddle::this_fiber::id() != 0);
    }).join();
  const int here = rt.spawn([] { return heddle::this_fiber::cpu(); }).join();
  CHECK(here >= 0);
  for (int i = 0; i < 100; i++)
    CHECK(rt.spawn({.cpu = here}, [] {
              heddle::this_fiber::sleep_for(10us);
              heddle::this_fiber::yield();
              return heddle::this_fiber::cpu();
            }).join() == here);
  CHECK_THROWS_AS((void)rt.spawn({.cpu = 100'000}, [] {}), std::invalid_argument);
}

TEST_CASE("fiber: destroyed while joinable it requests stop and joins") {
  heddle::runtime rt(quiet());
  std::atomic<bool> stopped{false};
  {
    auto f = rt.spawn([&] {
      while (!heddle::this_fiber::stop_requested()) heddle::this_fiber::sleep_for(100us);
      stopped = true;
    });
  }
  CHECK(stopped);
}

TEST_CASE("fiber: join_until gives up in time and can be repeated") {
  heddle::runtime rt(quiet());
  heddle::counting_semaphore<> go(0);
  auto f = rt.spawn([&] {
    go.acquire();
    return 9;
  });
  CHECK_FALSE(f.join_until(std::chrono::steady_clock::now() + 2ms));
  rt.run([&] {
    CHECK_FALSE(f.join_until(std::chrono::steady_clock::now() + 2ms));
    go.release();
    CHECK(f.join_until(std::chrono::steady_clock::now() + 60s));
  });
  CHECK(f.join() == 9);
}

TEST_CASE("fiber: errno belongs to the fiber") {
  heddle::runtime rt(quiet());
  rt.run([] {
    auto other = heddle::spawn([] {
      for (int i = 0; i < 1000; i++) {
        set_errno(77);
        heddle::this_fiber::yield();
      }
    });
    set_errno(5);
    bool kept = true;
    for (int i = 0; i < 1000; i++) {
      heddle::this_fiber::yield();
      kept = kept && errno_now() == 5;
    }
    CHECK(kept);
    other.join();
  });
}

TEST_CASE("bug report 11: exception state is the fiber's, over suspensions in catch blocks and destructors") {
  struct yielding_destructor {
    int expected;
    bool* right;
    ~yielding_destructor() {
      *right = *right && std::uncaught_exceptions() == expected;
      heddle::this_fiber::yield();
      *right = *right && std::uncaught_exceptions() == expected;
    }
  };
  heddle::runtime rt(quiet());
  std::atomic<int> wrong{0};
  rt.run([&] {
    std::vector<heddle::fiber<void>> all;
    for (int i = 0; i < 64; i++)
      all.push_back(heddle::spawn([&wrong, i] {
        for (int round = 0; round < 200; round++) {
          bool right = true;
          try {
            try {
              yielding_destructor unwinding{1, &right};
              throw int(i);
            } catch (int& e) {
              heddle::this_fiber::yield();
              right = right && e == i && std::current_exception() != nullptr;
              throw;
            }
          } catch (int& e) {
            heddle::this_fiber::yield();
            right = right && e == i && std::uncaught_exceptions() == 0;
          }
          right = right && std::current_exception() == nullptr;
          if (!right) wrong++;
        }
      }));
    for (auto& f : all) f.join();
  });
  CHECK(wrong == 0);
}

TEST_CASE("fiber_local: one value per fiber, destroyed at its end") {
  static std::atomic<int> alive{0};
  struct counted {
    int value = 0;
    counted() { alive++; }
    ~counted() { alive--; }
  };
  heddle::fiber_local<counted> mine;
  heddle::runtime rt(quiet());
  rt.run([&] {
    std::vector<heddle::fiber<int>> all;
    for (int i = 0; i < 50; i++)
      all.push_back(heddle::spawn([&, i] {
        mine->value = i;
        heddle::this_fiber::yield();
        return mine->value;
      }));
    for (int i = 0; i < 50; i++) CHECK(all[static_cast<size_t>(i)].join() == i);
  });
  CHECK(alive == 0);
}
