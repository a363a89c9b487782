#include "bench_apps/common/histogram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/seed.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

TEST_CASE("histogram: empty statistics are nothing, not zero") {
  const histogram h;
  CHECK(h.samples() == 0);
  CHECK_FALSE(h.mean_ns());
  CHECK_FALSE(h.stddev_ns());
  CHECK_FALSE(h.min_ns());
  CHECK_FALSE(h.max_ns());
  CHECK_FALSE(h.percentile_ns(50));
  CHECK(h.buckets().empty());
}

TEST_CASE("histogram: zeros are samples") {
  histogram h;
  for (int i = 0; i < 99; i++) h.record(0ns);
  h.record(1s);
  CHECK(h.samples() == 100);
  CHECK(h.percentile_ns(50) == 0.0);
  CHECK(h.percentile_ns(99) == 0.0);
  CHECK(h.percentile_ns(99.5).value() == doctest::Approx(1e9).epsilon(1.0 / 256));
}

TEST_CASE("histogram: a bucket is at most 1/256 wide and every value lies in its own") {
  heddle::core::rng random(heddle_test::seed());
  for (int i = 0; i < 100'000; i++) {
    const int64_t v = static_cast<int64_t>(random.next() >> (26 + random.below(38)));
    histogram h;
    h.record(nanos{v});
    const auto buckets = h.buckets();
    REQUIRE(buckets.size() == 1);
    REQUIRE(buckets[0].upper_ns >= v);
    REQUIRE(static_cast<double>(buckets[0].upper_ns - v) <= static_cast<double>(v) / 256);
    REQUIRE(h.percentile_ns(50) == static_cast<double>(v));  // clamped to [min, max]
  }
}

TEST_CASE("histogram: percentiles agree with the sorted samples within a bucket, and are ordered") {
  heddle::core::rng random(heddle_test::seed());
  for (const size_t n : {1u, 2u, 7u, 100u, 1000u, 10'000u}) {
    histogram h;
    std::vector<int64_t> all;
    for (size_t i = 0; i < n; i++) {
      all.push_back(static_cast<int64_t>(random.next() >> (30 + random.below(34))));
      h.record(nanos{all.back()});
    }
    std::ranges::sort(all);
    double before = 0;
    for (const double p : {1.0, 20.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 100.0}) {
      CAPTURE(n);
      CAPTURE(p);
      const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(p * static_cast<double>(n) / 100 - 1e-9)));
      const double exact = static_cast<double>(all[rank - 1]);
      const double found = h.percentile_ns(p).value();
      CHECK(std::fabs(found - exact) <= exact / 256 + 0.5);
      CHECK(found >= before);
      CHECK(found >= static_cast<double>(all.front()));
      CHECK(found <= static_cast<double>(all.back()));
      before = found;
    }
  }
}

TEST_CASE("histogram: merging equals recording into one") {
  heddle::core::rng random(heddle_test::seed());
  histogram parts[3], whole;
  for (int i = 0; i < 3000; i++) {
    const nanos v{static_cast<int64_t>(random.below(1'000'000'000))};
    parts[i % 3].record(v);
    whole.record(v);
  }
  histogram merged;
  for (const histogram& p : parts) merged.merge(p);
  merged.merge(histogram());
  CHECK(merged.samples() == whole.samples());
  CHECK(merged.min_ns() == whole.min_ns());
  CHECK(merged.max_ns() == whole.max_ns());
  CHECK(merged.mean_ns().value() == doctest::Approx(whole.mean_ns().value()));
  CHECK(merged.stddev_ns().value() == doctest::Approx(whole.stddev_ns().value()));
  CHECK(merged.buckets().size() == whole.buckets().size());
  CHECK(merged.percentile_ns(99) == whole.percentile_ns(99));
}

TEST_CASE("histogram: mean and deviation are of the samples, not of the buckets") {
  histogram h;
  for (const int64_t v : {1'000'001, 1'000'003}) h.record(nanos{v});
  CHECK(h.mean_ns() == 1'000'002.0);
  CHECK(h.stddev_ns().value() == doctest::Approx(1.0));
}

TEST_CASE("histogram: what is out of range is counted and said") {
  histogram h;
  h.record(400s);
  h.record(-5ns);
  CHECK(h.samples() == 2);
  CHECK(h.clamped() == 2);
  CHECK(h.min_ns() == 0);
  CHECK(h.max_ns() == nanos{400s}.count());
}

TEST_CASE("histogram: a percentile is trusted with ten samples beyond it") {
  histogram h;
  for (int i = 0; i < 9999; i++) h.record(1us);
  CHECK_FALSE(h.trusted(99.9));
  CHECK(h.trusted(99));
  h.record(1us);
  CHECK(h.trusted(99.9));
}
