// What may be concluded from runs: tests that are exact for any number of runs, and the estimates that belong to them.
//
// Blocks. `compare` runs every case once per block, so what drifts (frequency, neighbours) is shared by the runs of a
// block and cancels in their log ratio. If a case changes nothing, each log ratio is as likely to be its own negative:
// flipping signs is all the model there is. The statistic is the sum of signed mid-ranks (Wilcoxon's), because one
// disturbed block must not decide, and because the Hodges-Lehmann estimate and interval are those of this very test.
//
// Nothing here is an approximation: the distribution of a rank statistic, ties and zeros included, is counted by
// dynamic programming over doubled mid-ranks, which are integers. The one exception, tail_outside() on many blocks,
// draws its permutations from a seed and says so there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace heddle::bench::lab {

// Below six blocks the smallest two-sided p of a sign-flip test is 2/2^5 = 0.0625: nothing could ever be told apart.
inline constexpr int blocks_min = 6;
inline constexpr double significance_level = 0.05;

struct interval {
  double low = 0;
  double high = 0;
};

// The location of one sample, or the shift between two: the null hypothesis's p, the estimate, its 95 % interval.
struct shift {
  double p = 1;
  double estimate = 0;
  interval range;
};

// Two-sided p of "the log ratios are symmetric about `centre`".
double sign_flip_p(std::span<const double> log_ratios, double centre = 0);

// The sign-flip test with its Hodges-Lehmann estimate (median of the pairwise means) and interval (every centre the
// test does not reject). No value with fewer than blocks_min log ratios.
std::optional<shift> paired_shift(std::span<const double> log_ratios);

// Exact Mann-Whitney with mid-ranks on two samples without blocks; the shift is of `other` against `base`.
double mann_whitney_p(std::span<const double> base, std::span<const double> other, double moved_by = 0);
std::optional<shift> independent_shift(std::span<const double> base, std::span<const double> other);

// p-values corrected after Holm, in the order given: the chance of one false alarm among all of them stays below the
// level, and no independence is assumed (rows of one run never are independent).
std::vector<double> holm(std::span<const double> p);

// Tails are often in two modes, which shifts no median: how many of the runs lie outside the baseline's range?
struct outside {
  int count = 0;
  double p = 1;
};

// Exchanges the two cases within blocks: all 2^n ways up to 16 blocks; beyond that 100 000 drawn from the seed, with
// the observed one counted in, which keeps the level exact (p is at least 1/100001).
outside tail_outside_paired(std::span<const double> base, std::span<const double> other, uint64_t seed);

// Without blocks every order of the runs is equally likely.
outside tail_outside(std::span<const double> base, std::span<const double> other);

// For tables: the mean, and the standard deviation (n-1) in percent of it.
struct spread {
  double mean = 0;
  double std_pct = 0;
};
spread spread_of(std::span<const double> values);

}  // namespace heddle::bench::lab
