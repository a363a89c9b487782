#include "balancer/account.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/seed.h"

namespace {
using namespace heddle::core;

// A worker that runs fibers in turn, and what each was charged beside what it took.
struct worker {
  explicit worker(accounting_t mode, size_t fibers)
      : window(mode, nanos{10'000}), ran(fibers), charged(fibers), suspect(fibers) {}

  void run(size_t fiber, nanos took) {
    if (suspect[fiber]) close();
    now += took;
    ran[fiber] += took;
    alone = window.empty() && suspect[fiber];
    if (window.collect(fiber) || alone) close();
  }
  void close() {
    if (window.empty()) return;
    clock_reads++;
    window.close(now - last, alone, [&](size_t fiber, nanos share, bool marked) {
      charged[fiber] += share;
      suspect[fiber] = marked;
    });
    last = now;
    alone = false;
  }
  nanos total_charged() const {
    nanos sum{0};
    for (nanos c : charged) sum += c;
    return sum;
  }

  account_window<size_t> window;
  std::vector<nanos> ran, charged;
  std::vector<bool> suspect;
  nanos now{0}, last{0};
  bool alone = false;
  int clock_reads = 0;
};

double error(const worker& w, size_t fiber) {
  return std::abs(double((w.charged[fiber] - w.ran[fiber]).count())) / double(w.ran[fiber].count());
}
}  // namespace

TEST_CASE("account: one 100 us fiber among 1000 tiny ones is charged within 5 % of exact, and so are they") {
  rng random(heddle_test::seed());
  constexpr size_t tiny = 1000, rounds = 400;
  worker w(accounting_t::window, tiny + 1);
  for (size_t round = 0; round < rounds; round++)
    for (size_t f = 0; f <= tiny; f++)
      w.run(f, f == 500 ? nanos{100'000} : nanos{40 + static_cast<int64_t>(random.below(21))});
  w.close();
  CHECK(error(w, 500) < 0.05);
  double worst = 0;
  for (size_t f = 0; f <= tiny; f++) worst = std::max(worst, error(w, f));
  CHECK(worst < 0.05);
  // Far fewer clock reads than switches: one per window and two around the hog.
  CHECK(w.clock_reads < static_cast<int>(rounds * (tiny / 64 + 5)));
}

TEST_CASE("account: no time is lost or invented") {
  rng random(heddle_test::seed());
  for (accounting_t mode : {accounting_t::window, accounting_t::exact}) {
    worker w(mode, 50);
    for (int i = 0; i < 20'000; i++)
      w.run(random.below(50), random.below(200) == 0 ? nanos{static_cast<int64_t>(random.below(1'000'000))}
                                                     : nanos{static_cast<int64_t>(random.below(300))});
    w.close();
    CHECK(w.total_charged() + w.window.policy().withheld() + w.window.policy().foreign() == w.now);
  }
}

TEST_CASE("account: exact reads the clock at every switch") {
  worker w(accounting_t::exact, 3);
  for (int i = 0; i < 300; i++) w.run(size_t(i % 3), nanos{50 + i % 3 * 1000});
  CHECK(w.clock_reads == 300);
  for (size_t f = 0; f < 3; f++) CHECK(w.charged[f] == w.ran[f]);
}

TEST_CASE(
    "account: mean segments of 500 ns and more are timed one by one; short ones share, but no longer than a tick") {
  worker slow(accounting_t::window, 2), quick(accounting_t::window, 2), middling(accounting_t::window, 2);
  for (int i = 0; i < 1280; i++) {
    slow.run(size_t(i % 2), nanos{500});
    quick.run(size_t(i % 2), nanos{50});
    middling.run(size_t(i % 2), nanos{400});
  }
  CHECK(slow.clock_reads == 1280);
  CHECK(quick.window.policy().window() == 64);
  CHECK(quick.clock_reads <= 1280 / 64 + 1);
  CHECK(middling.window.policy().window() == 25);
}

TEST_CASE("account: everybody in an over-long window is suspect, until timed alone") {
  worker w(accounting_t::window, 64);
  for (int i = 0; i < 64 * 10; i++) w.run(size_t(i % 64), nanos{50});
  w.close();
  for (size_t f = 0; f < 64; f++) w.run(f, f == 10 ? nanos{50'000} : nanos{50});
  CHECK(w.suspect[10]);
  CHECK(w.suspect[11]);
  CHECK(w.charged[11] < nanos{700});  // the excess is withheld, not shared
  CHECK(w.window.policy().withheld() > nanos{45'000});
  w.run(11, nanos{50});
  CHECK_FALSE(w.suspect[11]);
  w.run(10, nanos{50'000});
  CHECK(w.suspect[10]);
  CHECK(w.window.policy().withheld() == nanos{0});
  CHECK(error(w, 10) < 0.01);
  w.run(10, nanos{50});
  CHECK_FALSE(w.suspect[10]);
}

TEST_CASE("account: an excess that no fiber repeats is charged to nobody") {
  worker w(accounting_t::window, 64);
  for (int i = 0; i < 64 * 10; i++) w.run(size_t(i % 64), nanos{50});
  w.close();
  for (int interruption = 0; interruption < 2; interruption++) {
    for (size_t f = 0; f < 64; f++) w.run(f, f == 10 && interruption < 2 ? nanos{50'000} : nanos{50});
    for (int i = 0; i < 64 * 3; i++) w.run(size_t(i % 64), nanos{50});
  }
  w.close();
  CHECK(w.window.policy().foreign() > nanos{45'000});
  CHECK(w.charged[9] < nanos{64 * 50});
}
