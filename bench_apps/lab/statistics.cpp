#include "bench_apps/lab/statistics.h"

#include <algorithm>
#include <boost/math/special_functions/binomial.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "bench_apps/common/statistics.h"
#include "runtime/base/check.h"
#include "runtime/base/rng.h"

namespace heddle::bench::lab {

namespace {

// Twice the mid-rank of every value, 2..2n: whole numbers even where values tie.
std::vector<int> doubled_ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<int> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) last++;
    for (size_t i = first; i <= last; i++) ranks[order[i]] = static_cast<int>(first + last + 2);
    first = last + 1;
  }
  return ranks;
}

// How likely each sum is when every rank is in or out with probability 1/2.
std::vector<double> sums_of_random_subset(const std::vector<int>& ranks) {
  std::vector<double> chance(1, 1.0);
  for (int rank : ranks) {
    std::vector<double> next(chance.size() + static_cast<size_t>(rank), 0.0);
    for (size_t sum = 0; sum < chance.size(); sum++) {
      next[sum] += chance[sum] / 2;
      next[sum + static_cast<size_t>(rank)] += chance[sum] / 2;
    }
    chance = std::move(next);
  }
  return chance;
}

// How likely each sum is when `chosen` of the ranks are drawn without replacement. Row j of the table holds the subsets
// of size j among the ranks seen so far, as numbers of ways; a double counts them to 1 part in 2^53.
std::vector<double> sums_of_random_choice(const std::vector<int>& ranks, size_t chosen) {
  const auto top = static_cast<size_t>(std::accumulate(ranks.begin(), ranks.end(), 0));
  std::vector<std::vector<double>> ways(chosen + 1, std::vector<double>(top + 1, 0.0));
  ways[0][0] = 1;
  for (size_t seen = 0; seen < ranks.size(); seen++) {
    const auto rank = static_cast<size_t>(ranks[seen]);
    for (size_t j = std::min(seen + 1, chosen); j > 0; j--)
      for (size_t sum = rank; sum <= top; sum++) ways[j][sum] += ways[j - 1][sum - rank];
  }
  const double all = std::accumulate(ways[chosen].begin(), ways[chosen].end(), 0.0);
  for (double& w : ways[chosen]) w /= all;
  return std::move(ways[chosen]);
}

// P(|sum - centre| >= |seen - centre|), all in doubled ranks; `centre2` is twice the centre so that it stays whole.
double two_sided(const std::vector<double>& chance, long seen, long centre2) {
  const long distance = std::labs(2 * seen - centre2);
  double p = 0;
  for (size_t sum = 0; sum < chance.size(); sum++)
    if (std::labs(2 * static_cast<long>(sum) - centre2) >= distance) p += chance[sum];
  return std::min(p, 1.0);
}

// Every centre that the test does not reject. Its p is constant between neighbouring candidates (the pairwise means or
// differences), rises up to their median and falls behind it, so each end is found by halving.
interval not_rejected(std::vector<double> candidates, const std::function<double(double)>& p_at) {
  const double centre = *median(candidates);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  const auto middle_at =
      static_cast<size_t>(std::lower_bound(candidates.begin(), candidates.end(), centre) - candidates.begin());
  const auto kept = [&](size_t gap) {
    return p_at(std::midpoint(candidates[gap], candidates[gap + 1])) > significance_level;
  };
  size_t low = 0;  // the first gap that is kept begins the interval
  for (size_t end = middle_at; low < end;) {
    const size_t middle = std::midpoint(low, end);
    if (kept(middle))
      end = middle;
    else
      low = middle + 1;
  }
  size_t high = candidates.size() - 1;  // the first gap behind the median that is not kept ends it
  for (size_t begin = middle_at; begin < high;) {
    const size_t middle = std::midpoint(begin, high);
    if (kept(middle))
      begin = middle + 1;
    else
      high = middle;
  }
  return {candidates[low], candidates[high]};
}

int outside_range(std::span<const double> base, std::span<const double> other) {
  const auto [low, high] = std::minmax_element(base.begin(), base.end());
  return static_cast<int>(std::count_if(other.begin(), other.end(), [&](double v) { return v < *low || v > *high; }));
}

}  // namespace

double sign_flip_p(std::span<const double> log_ratios, double centre) {
  std::vector<double> size(log_ratios.size());
  for (size_t i = 0; i < size.size(); i++) size[i] = std::fabs(log_ratios[i] - centre);
  const std::vector<int> ranks = doubled_ranks(size);
  // A zero keeps its rank but has no sign to flip (Pratt): it neither speaks for a difference nor hides that the others
  // are larger.
  std::vector<int> signed_ranks;
  long positive = 0, all = 0;
  for (size_t i = 0; i < size.size(); i++) {
    if (size[i] == 0) continue;
    signed_ranks.push_back(ranks[i]);
    all += ranks[i];
    if (log_ratios[i] > centre) positive += ranks[i];
  }
  return two_sided(sums_of_random_subset(signed_ranks), positive, all);
}

std::optional<shift> paired_shift(std::span<const double> log_ratios) {
  if (log_ratios.size() < static_cast<size_t>(blocks_min)) return std::nullopt;
  std::vector<double> means;
  for (size_t i = 0; i < log_ratios.size(); i++)
    for (size_t j = i; j < log_ratios.size(); j++) means.push_back(std::midpoint(log_ratios[i], log_ratios[j]));
  return shift{.p = sign_flip_p(log_ratios),
               .estimate = *median(means),
               .range = not_rejected(means, [&](double centre) { return sign_flip_p(log_ratios, centre); })};
}

double mann_whitney_p(std::span<const double> base, std::span<const double> other, double moved_by) {
  std::vector<double> all(base.begin(), base.end());
  for (double v : other) all.push_back(v - moved_by);
  const std::vector<int> ranks = doubled_ranks(all);
  const long seen = std::accumulate(ranks.begin() + static_cast<long>(base.size()), ranks.end(), 0L);
  const long centre2 =
      2 * static_cast<long>(other.size()) * static_cast<long>(all.size() + 1);  // of the doubled rank sum n2 (N + 1)
  return two_sided(sums_of_random_choice(ranks, other.size()), seen, centre2);
}

std::optional<shift> independent_shift(std::span<const double> base, std::span<const double> other) {
  // The smallest p is 2 / C(m+n, m): below the level from 4 and 4 runs on (or 3 and 5).
  const double orders = boost::math::binomial_coefficient<double>(static_cast<unsigned>(base.size() + other.size()),
                                                                  static_cast<unsigned>(other.size()));
  if (2 / orders > significance_level) return std::nullopt;
  std::vector<double> differences;
  for (double b : base)
    for (double o : other) differences.push_back(o - b);
  return shift{.p = mann_whitney_p(base, other),
               .estimate = *median(differences),
               .range = not_rejected(differences, [&](double by) { return mann_whitney_p(base, other, by); })};
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double floor = 0;  // a larger p never ends up below a smaller one
  for (size_t i = 0; i < order.size(); i++) {
    floor = std::max(floor, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    corrected[order[i]] = floor;
  }
  return corrected;
}

outside tail_outside_paired(std::span<const double> base, std::span<const double> other, uint64_t seed) {
  HEDDLE_ASSERT(base.size() == other.size());
  constexpr size_t enumerate_max = 16;
  constexpr int draws = 100'000;
  const int seen = outside_range(base, other);
  std::vector<double> left(base.begin(), base.end()), right(other.begin(), other.end());
  const auto as_extreme = [&](const auto& exchanged) {
    for (size_t i = 0; i < left.size(); i++) {
      const bool swap = exchanged(i);
      left[i] = swap ? other[i] : base[i];
      right[i] = swap ? base[i] : other[i];
    }
    return outside_range(left, right) >= seen;
  };
  if (base.size() <= enumerate_max) {
    const uint64_t ways = uint64_t{1} << base.size();
    uint64_t hits = 0;
    for (uint64_t way = 0; way < ways; way++)
      if (as_extreme([&](size_t i) { return (way >> i & 1) != 0; })) hits++;
    return {seen, static_cast<double>(hits) / static_cast<double>(ways)};
  }
  core::rng random(seed);
  int hits = 1;
  for (int draw = 0; draw < draws; draw++)
    if (as_extreme([&](size_t) { return random.below(2) != 0; })) hits++;
  return {seen, static_cast<double>(hits) / (draws + 1)};
}

outside tail_outside(std::span<const double> base, std::span<const double> other) {
  const int seen = outside_range(base, other);
  const auto n = static_cast<unsigned>(base.size()), m = static_cast<unsigned>(other.size());
  if (n < 2) return {seen, 1.0};
  // Among all orders, the baseline spans all but `out` of the n+m places in (out+1) positions; its ends are fixed then.
  using boost::math::binomial_coefficient;
  double p = 0;
  for (auto out = static_cast<unsigned>(seen); out <= m; out++)
    p += (out + 1) * binomial_coefficient<double>(n + m - out - 2, n - 2);
  return {seen, std::min(1.0, p / binomial_coefficient<double>(n + m, n))};
}

spread spread_of(std::span<const double> values) {
  return {.mean = mean(values).value_or(0), .std_pct = std_pct(values).value_or(0)};
}

}  // namespace heddle::bench::lab
