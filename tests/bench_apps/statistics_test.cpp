#include "bench_apps/lab/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <numeric>

#include "runtime/base/rng.h"
#include "tests/seed.h"

using namespace heddle::bench::lab;
using heddle::core::rng;

namespace {

double normal(rng& random) { return std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(2 * M_PI * random.unit()); }

// The log ratios of two cases whose blocks share a drift far larger than the noise of a run.
std::vector<double> log_ratios_under_drift(rng& random, int blocks, double effect) {
  std::vector<double> ratios;
  double drift = 0;
  for (int i = 0; i < blocks; i++) {
    drift += 0.3 * normal(random);
    const double base = std::exp(drift + 0.02 * normal(random));
    const double other = std::exp(drift + effect + 0.02 * normal(random));
    ratios.push_back(std::log(other / base));
  }
  return ratios;
}

// Sign flips counted one by one, from the definition.
double enumerated_sign_flip_p(const std::vector<double>& values) {
  const size_t n = values.size();
  std::vector<double> ranks(n);
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++) {
      const double a = std::fabs(values[i]), b = std::fabs(values[j]);
      ranks[i] += b < a ? 1 : (b == a ? 0.5 : 0);
    }
  for (double& r : ranks) r += 0.5;
  const auto sum = [&](auto sign) {
    double total = 0;
    for (size_t i = 0; i < n; i++) total += values[i] == 0 ? 0 : sign(i) * ranks[i];
    return std::fabs(total);
  };
  const double seen = sum([&](size_t i) { return values[i] > 0 ? 1.0 : -1.0; });
  int hits = 0;
  for (unsigned way = 0; way < 1u << n; way++)
    if (sum([&](size_t i) { return (way >> i & 1) != 0 ? 1.0 : -1.0; }) >= seen - 1e-9) hits++;
  return static_cast<double>(hits) / (1u << n);
}

double enumerated_mann_whitney_p(const std::vector<double>& base, const std::vector<double>& other) {
  std::vector<double> all = base;
  all.insert(all.end(), other.begin(), other.end());
  const auto wins = [&](unsigned chosen) {  // how often an element of the chosen group beats one of the rest
    double total = 0;
    for (size_t i = 0; i < all.size(); i++)
      for (size_t j = 0; j < all.size(); j++)
        if ((chosen >> i & 1) != 0 && (chosen >> j & 1) == 0)
          total += all[i] > all[j] ? 1 : (all[i] == all[j] ? 0.5 : 0);
    return std::fabs(total - static_cast<double>(base.size() * other.size()) / 2);
  };
  const unsigned observed = ((1u << other.size()) - 1) << base.size();
  int hits = 0, ways = 0;
  for (unsigned chosen = 0; chosen < 1u << all.size(); chosen++) {
    if (static_cast<size_t>(__builtin_popcount(chosen)) != other.size()) continue;
    ways++;
    if (wins(chosen) >= wins(observed) - 1e-9) hits++;
  }
  return static_cast<double>(hits) / ways;
}

// Is `hits` of `tries` what a chance of `p` gives? Two-sided, wrong once in 10 000 seeds.
bool plausible(int hits, int tries, double p) {
  const boost::math::binomial_distribution<> tosses(tries, p);
  return hits >= boost::math::quantile(tosses, 5e-5) && hits <= boost::math::quantile(complement(tosses, 5e-5));
}

}  // namespace

TEST_CASE("statistics: fewer than six blocks tell nothing apart") {
  CHECK_FALSE(paired_shift(std::vector<double>{1, 1.1, 1.2, 1.3, 1.4}));
  CHECK(paired_shift(std::vector<double>{1, 1.1, 1.2, 1.3, 1.4, 1.5}));
}

TEST_CASE("statistics: six blocks that all agree have p = 2/64 and the interval of all that was seen") {
  const auto s = paired_shift(std::vector<double>{0.03, 0.01, 0.02, 0.05, 0.04, 0.06});
  REQUIRE(s);
  CHECK(s->p == doctest::Approx(2.0 / 64));
  CHECK(s->estimate == doctest::Approx(0.035));
  CHECK(s->range.low == doctest::Approx(0.01));
  CHECK(s->range.high == doctest::Approx(0.06));
}

TEST_CASE("statistics: the sign-flip p equals counting every flip, ties and zeros included") {
  rng random(heddle_test::seed());
  for (int i = 0; i < 200; i++) {
    std::vector<double> values(1 + random.below(10));
    for (double& v : values) v = static_cast<double>(static_cast<int>(random.below(9)) - 4 + (i % 3));
    CAPTURE(values.size());
    CHECK(sign_flip_p(values) == doctest::Approx(enumerated_sign_flip_p(values)).epsilon(1e-9));
  }
}

TEST_CASE("statistics: the Mann-Whitney p equals counting every order, ties included") {
  rng random(heddle_test::seed());
  for (int i = 0; i < 100; i++) {
    std::vector<double> base(2 + random.below(4)), other(2 + random.below(4));
    for (double& v : base) v = static_cast<double>(random.below(6));
    for (double& v : other) v = static_cast<double>(random.below(6) + i % 3);
    CHECK(mann_whitney_p(base, other) == doctest::Approx(enumerated_mann_whitney_p(base, other)).epsilon(1e-9));
  }
}

TEST_CASE("statistics: identical runs are no difference") {
  const auto s = paired_shift(std::vector<double>(8, 0.0));
  REQUIRE(s);
  CHECK(s->p == 1);
  CHECK(s->estimate == 0);
  CHECK(s->range.low == 0);
  CHECK(s->range.high == 0);
}

TEST_CASE("statistics: without an effect the test errs as often as it says, under drift shared by blocks") {
  rng random(heddle_test::seed());
  for (int blocks : {6, 10, 25}) {
    constexpr int tries = 4000;
    int alarms = 0, missed = 0;
    for (int i = 0; i < tries; i++) {
      const auto s = paired_shift(log_ratios_under_drift(random, blocks, 0));
      alarms += s->p <= significance_level;
      missed += s->range.low > 0 || s->range.high < 0;
    }
    // The exact size: the largest attainable p not above the level.
    std::vector<double> ladder(static_cast<size_t>(blocks));
    std::iota(ladder.begin(), ladder.end(), 1.0);
    double size = sign_flip_p(ladder);
    for (size_t i = 0;; i++) {  // turning the smallest ranks over walks the attainable p upwards by one rank at a time
      std::vector<double> turned = ladder;
      size_t left = i + 1;
      for (size_t rank = turned.size(); rank > 0 && left > 0; rank--)
        if (rank <= left) turned[rank - 1] *= -1, left -= rank;
      const double p = sign_flip_p(turned);
      if (p > significance_level) break;
      size = p;
    }
    CAPTURE(blocks);
    CAPTURE(alarms);
    CAPTURE(size);
    CHECK(plausible(alarms, tries, size));
    CHECK(missed == alarms);  // the interval and the p are one test
  }
}

TEST_CASE(
    "statistics: a planted effect of 5 % is found through drift ten times as large, with the right size and sign") {
  rng random(heddle_test::seed());
  constexpr int tries = 500;
  int found = 0, covered = 0;
  for (int i = 0; i < tries; i++) {
    const double planted = std::log(i % 2 == 0 ? 1.05 : 0.95);
    const auto s = paired_shift(log_ratios_under_drift(random, 12, planted));
    found += s->p <= significance_level && (s->estimate > 0) == (planted > 0);
    covered += s->range.low <= planted && planted <= s->range.high;
    CHECK(s->range.low <= s->estimate);
    CHECK(s->estimate <= s->range.high);
  }
  CHECK(found > tries * 95 / 100);
  CHECK(covered >= boost::math::quantile(boost::math::binomial_distribution<>(tries, 0.95), 5e-5));
}

TEST_CASE("statistics: the same effect is lost when runs under drift are treated as independent") {
  rng random(heddle_test::seed());
  int found = 0;
  for (int i = 0; i < 100; i++) {
    std::vector<double> base, other;
    double drift = 0;
    for (int block = 0; block < 12; block++) {
      drift += 0.3 * normal(random);
      base.push_back(drift + 0.02 * normal(random));
      other.push_back(drift + std::log(1.05) + 0.02 * normal(random));
    }
    found += independent_shift(base, other)->p <= significance_level;
  }
  CHECK(found < 50);
}

TEST_CASE("statistics: Mann-Whitney errs as often as it says and finds a shift") {
  rng random(heddle_test::seed());
  constexpr int tries = 2000;
  int alarms = 0, found = 0;
  for (int i = 0; i < tries; i++) {
    std::vector<double> base(7), other(7);
    for (double& v : base) v = normal(random);
    for (double& v : other) v = normal(random);
    alarms += mann_whitney_p(base, other) <= significance_level;
    const auto s = independent_shift(base, other);
    CHECK((s->p <= significance_level) == (s->range.low > 0 || s->range.high < 0));
    for (double& v : other) v += 3;
    found += mann_whitney_p(base, other) <= significance_level;
  }
  CHECK(plausible(alarms, tries, 0.0379));  // 7 and 7: P(|U - 24.5| >= 16.5) = 0.0379, the next is 0.0530
  CHECK(found > tries * 95 / 100);
}

TEST_CASE("statistics: too few independent runs tell nothing apart") {
  CHECK_FALSE(independent_shift(std::vector<double>{1, 2, 3}, std::vector<double>{4, 5, 6}));
  CHECK(independent_shift(std::vector<double>{1, 2, 3, 4}, std::vector<double>{5, 6, 7, 8}));
}

TEST_CASE("statistics: Holm's correction keeps order, is never below the raw p and bounds false alarms in a family") {
  const std::vector<double> corrected = holm(std::vector<double>{0.04, 0.01, 0.03, 0.9});
  CHECK(corrected[1] == doctest::Approx(0.04));
  CHECK(corrected[2] == doctest::Approx(0.09));
  CHECK(corrected[0] == doctest::Approx(0.09));
  CHECK(corrected[3] == doctest::Approx(0.9));

  rng random(heddle_test::seed());
  constexpr int tries = 3000;
  int families_with_alarm = 0;
  for (int i = 0; i < tries; i++) {
    std::vector<double> p(6);
    for (double& v : p) v = random.unit();
    const auto c = holm(p);
    families_with_alarm += *std::min_element(c.begin(), c.end()) <= 0.05;
  }
  CHECK(plausible(families_with_alarm, tries, 1 - std::pow(1 - 0.05 / 6, 6)));
}

TEST_CASE("statistics: runs outside the baseline's range have their exact p") {
  const std::vector<double> base{1, 2, 3}, other{0, 4, 5};
  const outside seen = tail_outside(base, other);
  CHECK(seen.count == 3);
  CHECK(seen.p == doctest::Approx(4.0 / 20));  // the baseline adjacent: 4 of C(6,3) orders
  CHECK(tail_outside(base, std::vector<double>{1.5, 2, 2.5}).p == doctest::Approx(1));
  CHECK(tail_outside(std::vector<double>{1}, other).p == 1);
}

TEST_CASE("statistics: tails in a second mode are found within blocks where the median does not move") {
  rng random(heddle_test::seed());
  std::vector<double> base, other;
  for (int i = 0; i < 12; i++) {
    base.push_back(100 + normal(random));
    other.push_back(i % 4 != 0 ? 1000 + normal(random) : 100 + normal(random));
  }
  const outside seen = tail_outside_paired(base, other, heddle_test::seed());
  CHECK(seen.count >= 9);
  CHECK(seen.p <= 0.05);
}

TEST_CASE("statistics: the paired tail test never errs more often than its p says, counted or drawn") {
  rng random(heddle_test::seed());
  for (int blocks : {8, 18}) {
    const int tries = blocks == 8 ? 1000 : 40;
    int alarms = 0;
    for (int i = 0; i < tries; i++) {
      std::vector<double> base, other;
      for (int block = 0; block < blocks; block++) {
        const double drift = normal(random);
        base.push_back(drift + normal(random));
        other.push_back(drift + normal(random));
      }
      alarms += tail_outside_paired(base, other, random.next()).p <= 0.05;
    }
    CHECK(alarms <= boost::math::quantile(complement(boost::math::binomial_distribution<>(tries, 0.05), 5e-5)));
  }
}
