#include "bench_apps/lab/comparison.h"

#include <algorithm>
#include <cmath>

#include "bench_apps/common/print.h"

namespace heddle::bench::lab {

namespace {

constexpr std::string_view compared_statistics[] = {"p50", "p90", "p99", "p99.9"};

// Values of both sides where both have one: a block in which one side measured nothing says nothing about the other.
struct pairs {
  std::vector<double> base, other;
};

pairs pair_up(const series& base, const series& other) {
  pairs p;
  for (size_t i = 0; i < std::min(base.values.size(), other.values.size()); i++) {
    if (!base.values[i] || !other.values[i]) continue;
    p.base.push_back(*base.values[i]);
    p.other.push_back(*other.values[i]);
  }
  return p;
}

std::vector<double> present(const series& s) {
  std::vector<double> values;
  for (const auto& v : s.values)
    if (v) values.push_back(*v);
  return values;
}

bool all_positive(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
}

double to_pct(double log_ratio) { return 100 * std::expm1(log_ratio); }

std::optional<shift> shift_between(const pairs& p, pairing how) {
  if (!all_positive(p.base) || !all_positive(p.other)) return {};  // no ratio to speak of
  std::vector<double> base, other, ratios;
  for (double v : p.base) base.push_back(std::log(v));
  for (double v : p.other) other.push_back(std::log(v));
  if (how == pairing::none) return independent_shift(base, other);
  for (size_t i = 0; i < base.size(); i++) ratios.push_back(other[i] - base[i]);
  return paired_shift(ratios);
}

verdict judge(const comparison_row& row, direction better) {
  if (!row.p || !row.difference_pct) return verdict::unknown;
  if (*row.p > significance_level) return verdict::same;
  return (*row.difference_pct < 0) == (better == direction::lower) ? verdict::better : verdict::worse;
}

struct judged {
  comparison_row row;
  direction better;
};

judged make_row(const compared_case& c, const series& base, const series& other, const pairs& p, pairing how) {
  comparison_row row{.metric = base.name(),
                     .case_name = c.name,
                     .vary = c.vary,
                     .primary = base.primary,
                     .trusted = base.trusted && other.trusted,
                     .base = spread_of(p.base),
                     .other = spread_of(p.other),
                     .n = std::min(p.base.size(), p.other.size())};
  if (const auto s = shift_between(p, how)) {
    row.raw_p = row.p = s->p;
    row.difference_pct = to_pct(s->estimate);
    row.interval_pct = {to_pct(s->range.low), to_pct(s->range.high)};
  } else if (row.base.mean > 0) {
    row.difference_pct = 100 * (row.other.mean / row.base.mean - 1);  // what was seen, without a claim
  }
  return {row, base.better};
}

void correct(std::vector<judged>& rows) {
  std::vector<size_t> family;
  std::vector<double> p;
  for (size_t i = 0; i < rows.size(); i++) {
    if (rows[i].row.primary || !rows[i].row.raw_p) continue;
    family.push_back(i);
    p.push_back(*rows[i].row.raw_p);
  }
  const std::vector<double> corrected = holm(p);
  for (size_t i = 0; i < family.size(); i++) rows[family[i]].row.p = corrected[i];
}

const compared_case* baseline_of(const std::vector<compared_case>& cases, const std::string& vary) {
  const auto at = std::ranges::find(cases, vary, &compared_case::vary);
  return at == cases.end() ? nullptr : &*at;
}

std::string_view statistic_of(const metric& m, size_t i) { return m.is_distribution() ? compared_statistics[i] : ""; }

nlohmann::ordered_json number(std::optional<double> v) {
  if (!v || !std::isfinite(*v)) return nullptr;
  return *v;
}

}  // namespace

std::string_view name_of(verdict v) {
  constexpr std::string_view names[] = {"better", "worse", "~", "n/a"};
  return names[static_cast<size_t>(v)];
}

std::vector<series> series_of(const std::vector<run_result>& runs, std::string_view primary) {
  std::vector<series> all;
  if (runs.empty()) return all;
  for (const metric& m : runs.front().metrics) {
    if (m.detail) continue;
    for (size_t i = 0; i < (m.is_distribution() ? std::size(compared_statistics) : 1); i++) {
      const std::string_view statistic = statistic_of(m, i);
      series s{.metric = m.name,
               .statistic = std::string(statistic),
               .better = m.better,
               .primary = m.name == primary && (statistic.empty() || statistic == "p50")};
      for (const run_result& run : runs) {
        const metric* here = run.find(m.name);
        s.values.push_back(here ? here->figure(statistic.empty() ? "p50" : statistic) : std::nullopt);
        if (here && here->is_distribution() && here->samples().samples() > 0)
          s.trusted &= here->samples().trusted(std::stod(std::string(statistic.substr(1))));
      }
      all.push_back(std::move(s));
    }
  }
  series cost{.metric = "cpu_us_per_op", .statistic = "", .better = direction::lower};
  for (const run_result& run : runs) cost.values.push_back(simulated(run) ? std::nullopt : run.spent.cpu_us_per_op);
  all.push_back(std::move(cost));
  std::stable_partition(all.begin(), all.end(), [](const series& s) { return s.primary; });
  return all;
}

comparison compare_cases(const std::vector<compared_case>& cases, pairing how, uint64_t seed) {
  std::vector<judged> rows;
  comparison result;
  for (const compared_case& c : cases) {
    const compared_case* base = baseline_of(cases, c.vary);
    if (base == &c) continue;
    for (const series& b : base->figures) {
      const auto o = std::ranges::find(c.figures, b.name(), &series::name);
      if (o == c.figures.end()) continue;
      const pairs p = how == pairing::blocks ? pair_up(b, *o) : pairs{present(b), present(*o)};
      if (p.base.empty() || p.other.empty()) continue;
      rows.push_back(make_row(c, b, *o, p, how));
      if (!b.tail()) continue;
      result.tails.push_back(
          {b.name(), c.name, c.vary, p.base, p.other,
           how == pairing::blocks ? tail_outside_paired(p.base, p.other, seed) : tail_outside(p.base, p.other)});
    }
  }
  correct(rows);
  for (judged& j : rows) {
    j.row.says = judge(j.row, j.better);
    result.rows.push_back(std::move(j.row));
  }
  return result;
}

nlohmann::ordered_json to_json(const comparison& c) {
  nlohmann::ordered_json out = {{"rows", nlohmann::ordered_json::array()}, {"tails", nlohmann::ordered_json::array()}};
  for (const comparison_row& r : c.rows) {
    nlohmann::ordered_json interval = nullptr;
    if (r.p) interval = {number(r.interval_pct.low), number(r.interval_pct.high)};
    out["rows"].push_back({{"metric", r.metric},
                           {"case", r.case_name},
                           {"vary", r.vary.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(r.vary)},
                           {"baseline", number(r.base.mean)},
                           {"baseline_std_pct", number(r.base.std_pct)},
                           {"value", number(r.other.mean)},
                           {"value_std_pct", number(r.other.std_pct)},
                           {"difference_pct", number(r.difference_pct)},
                           {"interval_pct", interval},
                           {"p", number(r.p)},
                           {"p_uncorrected", number(r.raw_p)},
                           {"n", r.n},
                           {"verdict", name_of(r.says)},
                           {"primary", r.primary},
                           {"trusted", r.trusted}});
  }
  for (const tail_list& t : c.tails)
    out["tails"].push_back({{"metric", t.metric},
                            {"case", t.case_name},
                            {"vary", t.vary.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(t.vary)},
                            {"baseline", t.base},
                            {"values", t.other},
                            {"outside", t.beyond.count},
                            {"p", t.beyond.p}});
  return out;
}

double worst_pct(const comparison& c) {
  double worst = 0;
  for (const comparison_row& r : c.rows)
    if (r.says == verdict::worse) worst = std::max(worst, std::fabs(*r.difference_pct));
  return worst;
}

}  // namespace heddle::bench::lab
