#include "affinity/slow_path.h"

#include <algorithm>

namespace heddle::core {
namespace {

// Sums over the group, without what the fiber itself still weighs where it last ran: it would seem to flee from itself.
group_sums sums_of(const policy_view& v, const sched_group& group, const slow_query& q) noexcept {
  group_sums g;
  for (cpu_id cpu : group.span) {
    const load_reading r = read_load(v, cpu, v.set.load_metric, q.now);
    const bool own = cpu == q.prev;
    const int64_t util = std::max<int64_t>(r.util - (own ? q.load.util : 0), 0);
    const int64_t capacity = v.machine.at(cpu).capacity;
    g.load += std::max<int64_t>(r.load - (own ? load_of(q.load, v.set.load_metric) : 0), 0);
    g.util += util;
    g.runnable += std::max<int64_t>(r.runnable - (own ? q.load.util : 0), 0);
    g.capacity += capacity;
    g.nr += v.board.row(cpu).nr.load(relaxed);
    g.idle += v.board.idle(cpu) ? 1 : 0;
    g.weight++;
    g.spare = std::max(g.spare, capacity - util);
  }
  return g;
}

bool beats(const group_sums& candidate, const group_sums& best, const policy_view& v, int64_t pct) noexcept {
  switch (v.set.slow_form) {
    case slow_form_t::v310:
      return candidate.avg() < best.avg();
    case slow_form_t::v419: {
      // Loads within a quarter of a fiber are alike; then the average decides.
      const int64_t margin = 1024 * (pct - 100) / 100;
      if (candidate.load + margin < best.load) return true;
      return candidate.load < best.load + margin && (100 + (pct - 100) / 2) * candidate.avg() < 100 * best.avg();
    }
    case slow_form_t::v55:
      break;
  }
  const spare_class a = class_of(candidate, pct);
  const spare_class b = class_of(best, pct);
  if (a != b) return a < b;
  if (a != spare_class::has_spare) return candidate.avg() < best.avg();
  if (candidate.idle != best.idle) return candidate.idle > best.idle;
  return candidate.util < best.util;
}

bool goes_to_best(const policy_view& v, const group_contest& c) noexcept {
  switch (v.set.slow_form) {
    case slow_form_t::v310:
      return goes_to_best_v310(c);
    case slow_form_t::v419:
      return goes_to_best_v419(c);
    case slow_form_t::v55:
      return goes_to_best_v55(c);
  }
  return false;
}

int64_t numa_allowance(const sched_domain& domain, const sched_group& local, const cpu_set* allowed) noexcept {
  int64_t allowance = domain.shared->imb_numa_nr;
  if (allowed == nullptr) return allowance;
  int64_t usable = 0;
  for (size_t i = 0; i < local.span.word_count(); i++) usable += std::popcount(local.span.word(i) & allowed->word(i));
  return std::min(allowance, usable);
}

// The group to go down into; null: the local one is as good.
const sched_group* idlest_group(const policy_view& v, const sched_domain& domain, const slow_query& q,
                                uint32_t& probes) noexcept {
  const int64_t pct = imbalance_pct(v.set, domain);
  const sched_group& local = domain.group(0);
  const bool local_allowed = q.allowed == nullptr || local.span.intersects(*q.allowed);
  group_contest contest{.local = sums_of(v, local, q), .pct = pct};
  probes += static_cast<uint32_t>(contest.local.weight);

  const sched_group* best = nullptr;
  int64_t most_spare = 0;
  for (size_t k = 1; k < domain.group_count(); k++) {
    const sched_group& group = domain.group(k);
    if (q.allowed != nullptr && !group.span.intersects(*q.allowed)) continue;
    const group_sums sums = sums_of(v, group, q);
    probes += static_cast<uint32_t>(sums.weight);
    // 4.19 looks at room first: the group with the most of it, if the fiber fits there, whatever the loads say.
    const bool roomier =
        v.set.slow_form == slow_form_t::v419 && !q.fork && sums.spare > most_spare && sums.spare > q.load.util / 2;
    const bool room_decides = v.set.slow_form == slow_form_t::v419 && !q.fork && most_spare > 0;
    if (best == nullptr || roomier || (!room_decides && beats(sums, contest.best, v, pct))) {
      best = &group;
      contest.best = sums;
      if (roomier) most_spare = sums.spare;
    }
  }
  if (best == nullptr || !local_allowed) return best;

  contest.numa = domain.has(df_numa);
  contest.numa_allowance = contest.numa ? numa_allowance(domain, local, q.allowed) : 0;
  contest.fiber_util = q.load.util;
  contest.fork = q.fork;
  return goes_to_best(v, contest) ? best : nullptr;
}

// A polling CPU starts sooner than a parked one; of equals, the one that idled last is the warmest.
bool sleeps_lighter(const board_row& a, const board_row& b) noexcept {
  const bool a_polls = a.state.load(relaxed) == cpu_state::polling;
  const bool b_polls = b.state.load(relaxed) == cpu_state::polling;
  if (a_polls != b_polls) return a_polls;
  return a.idle_since.load(relaxed) > b.idle_since.load(relaxed);
}

cpu_id idlest_cpu(const policy_view& v, const sched_group& group, const slow_query& q, uint32_t& probes) noexcept {
  cpu_id idle = cpu_id::none;
  cpu_id lightest = cpu_id::none;
  int64_t least = 0;
  for (cpu_id cpu : group.span) {
    if (!allowed_on(q.allowed, cpu)) continue;
    probes++;
    if (v.board.only_idle_class(cpu)) return cpu;
    if (v.board.idle(cpu)) {
      if (!valid(idle) || sleeps_lighter(v.board.row(cpu), v.board.row(idle))) idle = cpu;
      continue;
    }
    const int64_t load = read_load(v, cpu, v.set.load_metric, q.now).load;
    if (valid(lightest) && load >= least) continue;
    lightest = cpu;
    least = load;
  }
  return valid(idle) ? idle : lightest;
}

// The widest level of cpu's chain below `weight` CPUs; with a flag, that has it.
const sched_domain* below(const policy_view& v, cpu_id cpu, size_t weight, uint32_t flag) noexcept {
  const std::span<const sched_domain> chain = v.domains.chain(cpu);
  for (size_t i = chain.size(); i-- > 0;)
    if (chain[i].shared->weight < weight && (flag == 0 || chain[i].has(flag))) return &chain[i];
  return nullptr;
}

}  // namespace

slow_answer find_idlest(const policy_view& v, const sched_domain& top, const slow_query& q) noexcept {
  slow_answer answer{q.from};
  for (const sched_domain* domain = &top; domain != nullptr;) {
    if (q.flag != 0 && !domain->has(q.flag)) {
      domain = below(v, answer.cpu, domain->shared->weight, 0);
      continue;
    }
    if (const sched_group* group = idlest_group(v, *domain, q, answer.probes)) {
      const cpu_id cpu = idlest_cpu(v, *group, q, answer.probes);
      if (valid(cpu)) answer.cpu = cpu;
    }
    domain = below(v, answer.cpu, domain->shared->weight, q.flag);
  }
  if (!allowed_on(q.allowed, answer.cpu)) answer.cpu = cpu_id::none;
  return answer;
}

const sched_domain* widest_with(const policy_view& v, cpu_id cpu, uint32_t flag) noexcept {
  const std::span<const sched_domain> chain = v.domains.chain(cpu);
  for (size_t i = chain.size(); i-- > 0;)
    if (chain[i].has(flag)) return &chain[i];
  return nullptr;
}

const sched_domain* widest_for_wake(const policy_view& v, cpu_id cpu) noexcept {
  const std::span<const sched_domain> chain = v.domains.chain(cpu);
  switch (v.set.wake_idle_levels) {
    case wake_idle_levels_t::llc:
      return widest_with(v, cpu, df_share_llc);
    case wake_idle_levels_t::numa:
      return widest_with(v, cpu, df_wake_affine);
    case wake_idle_levels_t::all:
      return chain.empty() ? nullptr : &chain.back();
  }
  return nullptr;
}

cpu_id nearest_allowed(const policy_view& v, cpu_id cpu, const cpu_set& allowed) noexcept {
  for (const sched_domain& domain : v.domains.chain(cpu)) {
    cpu_id first = cpu_id::none;
    for (cpu_id member : domain.span()) {
      if (!allowed.has(member)) continue;
      if (v.board.idle(member)) return member;
      if (!valid(first)) first = member;
    }
    if (valid(first)) return first;
  }
  return allowed.lowest();
}

int64_t adjust_numa_imbalance(int64_t imbalance, int64_t running_on_target, int64_t allowance) noexcept {
  if (running_on_target > allowance) return imbalance;
  return imbalance <= 2 ? 0 : imbalance;
}

spare_class class_of(const group_sums& g, int64_t pct) noexcept {
  const bool util_over = g.capacity * 100 < g.util * pct;
  const bool runnable_over = g.capacity * pct < g.runnable * 100;
  if (g.nr > g.weight && (util_over || runnable_over)) return spare_class::overloaded;
  // Not the negation of util_over: at equality a group is neither.
  const bool has_capacity = g.nr < g.weight || (!runnable_over && g.capacity * 100 > g.util * pct);
  return has_capacity ? spare_class::has_spare : spare_class::fully_busy;
}

bool goes_to_best_v55(const group_contest& c) noexcept {
  const spare_class local = class_of(c.local, c.pct);
  const spare_class best = class_of(c.best, c.pct);
  if (local != best) return local > best;
  if (local == spare_class::has_spare) {
    const int64_t difference = c.local.idle > c.best.idle ? c.local.idle - c.best.idle : c.best.idle - c.local.idle;
    if (c.numa && adjust_numa_imbalance(difference, c.local.nr + 1, c.numa_allowance) == 0) return false;
    return c.local.idle < c.best.idle;
  }
  const int64_t margin = 1024 * (c.pct - 100) / 100;
  if (c.numa && c.best.avg() + margin >= c.local.avg()) return false;
  if (c.best.avg() >= c.local.avg() + margin) return false;
  return 100 * c.local.avg() > c.pct * c.best.avg();
}

bool goes_to_best_v419(const group_contest& c) noexcept {
  const int64_t scale = 100 + (c.pct - 100) / 2;
  // A new fiber's load is a guess: room says nothing about it.
  if (!c.fork) {
    if (c.local.spare > c.fiber_util / 2 && scale * c.local.spare > 100 * c.best.spare) return false;
    if (c.best.spare > c.fiber_util / 2) return true;
  }
  const int64_t margin = 1024 * (c.pct - 100) / 100;
  if (c.best.load > c.local.load + margin) return false;
  return !(c.local.load < c.best.load + margin && 100 * c.local.avg() < scale * c.best.avg());
}

bool goes_to_best_v310(const group_contest& c) noexcept {
  return 100 * c.local.avg() >= (100 + (c.pct - 100) / 2) * c.best.avg();
}

}  // namespace heddle::core
