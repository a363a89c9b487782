#include "balancer/classify.h"

#include <algorithm>

#include "balancer/classic.h"
#include "balancer/pelt.h"

namespace heddle::core {
namespace {

// A CPU must be at least 5 % faster before a fiber is moved for the sake of speed.
constexpr uint64_t clearly_faster = 1078;

bool smt(const group_stats& g) noexcept { return (g.flags & df_share_capacity) != 0; }

uint64_t load_of(const board_row& row, load_metric_t metric) noexcept {
  switch (metric) {
    case load_metric_t::instant:
      return row.weight_now();
    case load_metric_t::runnable_load:
      return row.runnable_load.load(relaxed);
    case load_metric_t::load_avg:
      break;
  }
  return row.load_avg.load(relaxed);
}

group_class class_of(const group_stats& g, bool imbalanced, bool shares_core, uint64_t imbalance_pct) noexcept {
  if (overloaded(g, imbalance_pct)) return group_class::overloaded;
  if (imbalanced) return group_class::imbalanced;
  if (shares_core) return group_class::smt_balance;
  if (g.misfit > 0) return group_class::misfit;
  return has_capacity(g, imbalance_pct) ? group_class::has_spare : group_class::fully_busy;
}

group_stats stats_of(const balance_world& w, const sched_domain& level, size_t k, const comparison_query& q) noexcept {
  const sched_group& group = level.group(k);
  const bool local = k == 0;
  const uint64_t my_capacity = static_cast<uint64_t>(w.machine.at(q.me).capacity);
  const lb_form_t form = w.set.lb_form;
  const bool classic = form != lb_form_t::v55;
  const bool decayed = classic && decayed_load_counts(level, q.how);
  group_spread spread;
  group_stats g{.cores = static_cast<uint64_t>(group.cores), .flags = group.flags};
  for (cpu_id cpu : group.span) {
    if (std::find(q.excluded.begin(), q.excluded.end(), cpu) != q.excluded.end()) continue;
    cpu_signals s = signals_of(w.machine, w.state, w.set, cpu, q.now);
    if (classic) {
      s.load = !decayed ? s.instant : local ? std::max(s.load, s.instant) : std::min(s.load, s.instant);
      spread.most_load = std::max(spread.most_load, s.load);
      spread.least_load = std::min(spread.least_load, s.load);
      spread.most_nr = std::max(spread.most_nr, s.nr);
      spread.least_nr = std::min(spread.least_nr, s.nr);
    }
    g.load += s.load;
    g.util += s.util;
    g.runnable += s.runnable;
    g.capacity += s.capacity;
    g.nr += s.nr;
    g.weight++;
    if (s.idle && !(cpu == q.me && q.how == puller::newly_idle)) g.idle++;
    if (s.nr > 1) g.overloaded_cpu = true;
    if (my_capacity * 1024 > s.capacity * clearly_faster)
      g.misfit = std::max<uint64_t>(g.misfit, w.state.row(cpu).misfit_load.load(relaxed));
  }
  if (classic) {
    const bool uneven = form == lb_form_t::v310 && g.nr > 0 && spread_unevenly(spread, g.load / g.nr);
    g.kind = classic_class(form, g, uneven || w.shared.imbalanced(level, k), q.imbalance_pct);
    g.avg_load = g.load * pelt::full_scale / std::max<uint64_t>(g.capacity, 1);
    return g;
  }
  // Never asked of the local group: the puller's own core does not compete with itself.
  const bool shares_core = !local && q.how != puller::busy && smt(g) && g.nr > 1;
  g.kind = class_of(g, w.shared.imbalanced(level, k), shares_core, q.imbalance_pct);
  if (g.kind == group_class::overloaded) g.avg_load = g.load * pelt::full_scale / g.capacity;
  return g;
}

// Until 5.4 a level that spreads its fibers did so by calling whoever has two more than we overloaded.
void mark_for_sibling(const balance_world& w, group_stats& g, const group_stats& local) noexcept {
  if (w.set.prefer_sibling && (g.flags & df_prefer_sibling) != 0 && g.nr > local.nr + 1)
    g.kind = group_class::overloaded;
}

bool fewer_spare(const group_stats& candidate, const group_stats& best) noexcept {
  // One fiber on a core of two threads has that core for itself; a plain CPU is the better source.
  if (smt(candidate) && !smt(best) && candidate.nr <= 1) return false;
  if (candidate.idle != best.idle) return candidate.idle < best.idle;
  return candidate.nr > best.nr;
}

bool fuller(const group_stats& candidate, const group_stats& best) noexcept {
  // Without averages the first one wins, but a fiber that leaves a shared core speeds up two.
  if (candidate.avg_load == best.avg_load) return smt(candidate) && !smt(best);
  return candidate.avg_load > best.avg_load;
}

}  // namespace

std::string_view to_string(group_class c) noexcept {
  constexpr std::string_view names[] = {"has_spare", "fully_busy", "misfit", "smt_balance", "imbalanced", "overloaded"};
  return names[static_cast<size_t>(c)];
}

cpu_signals signals_of(const topology& machine, const board& state, const settings& set, cpu_id cpu,
                       nanos now) noexcept {
  const board_row& row = state.row(cpu);
  cpu_signals s{.load = load_of(row, set.load_metric),
                .instant = row.weight_now(),
                .util = row.util_avg.load(relaxed),
                .runnable = row.runnable_avg.load(relaxed),
                .capacity = static_cast<uint64_t>(machine.at(cpu).capacity),
                .nr = row.nr.load(relaxed),
                .idle = state.idle(cpu)};
  if (!s.idle || set.blocked_decay == blocked_decay_t::ilb) return s;
  const nanos stamp{row.load_stamp.load(relaxed)};
  const auto aged = [&](uint64_t v) { return pelt::aged(v, stamp, now, static_cast<int>(set.pelt_shift)); };
  if (set.load_metric != load_metric_t::instant) s.load = aged(s.load);
  s.util = aged(s.util);
  s.runnable = aged(s.runnable);
  return s;
}

bool overloaded(const group_stats& g, uint64_t pct) noexcept {
  return g.nr > g.weight && (g.capacity * 100 < g.util * pct || g.capacity * pct < g.runnable * 100);
}

bool has_capacity(const group_stats& g, uint64_t pct) noexcept {
  return g.nr < g.weight || (g.capacity * pct >= g.runnable * 100 && g.capacity * 100 > g.util * pct);
}

bool busier(const group_stats& candidate, const group_stats& best) noexcept {
  if (candidate.kind != best.kind) return candidate.kind > best.kind;
  switch (candidate.kind) {
    case group_class::overloaded:
      return candidate.avg_load > best.avg_load;
    case group_class::imbalanced:
      return false;
    case group_class::misfit:
      return candidate.misfit > best.misfit;
    case group_class::smt_balance:
      return candidate.idle + best.idle > 0 ? fewer_spare(candidate, best) : fuller(candidate, best);
    case group_class::fully_busy:
      return fuller(candidate, best);
    case group_class::has_spare:
      return fewer_spare(candidate, best);
  }
  return false;
}

group_comparison compare_groups(const balance_world& w, const sched_domain& level, const comparison_query& q) noexcept {
  group_comparison c;
  for (size_t k = 0; k < level.group_count(); k++) {
    group_stats g = stats_of(w, level, k, q);
    c.total_load += g.load;
    c.total_capacity += g.capacity;
    c.total_util += g.util;
    c.overloaded_cpu |= g.overloaded_cpu;
    if (k == 0) {
      c.local = g;
      continue;
    }
    if (g.nr == 0) continue;
    if (w.set.lb_form != lb_form_t::v55) {
      if (c.local.nr < c.local.weight) mark_for_sibling(w, g, c.local);
      if (!classic_busier(w.set.lb_form, g, c.busiest, c.busiest_group == nullptr)) continue;
      c.busiest = g;
      c.busiest_group = &level.group(k);
      continue;
    }
    // Speed is no reason to bring a fiber where it would have to wait.
    if (g.kind == group_class::misfit && c.local.kind != group_class::has_spare) continue;
    if (c.busiest_group != nullptr && !busier(g, c.busiest)) continue;
    c.busiest = g;
    c.busiest_group = &level.group(k);
  }
  return c;
}

}  // namespace heddle::core
