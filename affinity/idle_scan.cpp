#include "affinity/idle_scan.h"

#include <algorithm>

#include "affinity/idler_llc.h"

namespace heddle::core {
namespace {

// Reads no row of a sibling that is not even marked idle: a mark errs towards idle only.
bool idle_by_mask_and_row(const policy_view& v, cpu_id cpu) noexcept {
  return (!v.set.idle_mask || v.board.marked_idle(cpu)) && v.board.idle(cpu);
}

bool idle_core_of(const policy_view& v, cpu_id cpu) noexcept {
  if (!v.set.smt_ignore_foreign && v.machine.at(cpu).foreign_sibling) return false;
  for (cpu_id sibling : v.machine.core_of(cpu))
    if (!idle_by_mask_and_row(v, sibling)) return false;
  return true;
}

// A core may be larger than its LLC (TV-DOM-6): the search stays in the LLC.
bool usable(const policy_view& v, const wakeup& w, cpu_id sibling, cpu_id of) noexcept {
  return allowed_on(w.allowed, sibling) && v.machine.share_llc(sibling, of);
}

// Two wakers that see one core idle would take two of its CPUs and leave another core unused; if every member stands for the same
// CPU, the second claim fails and searches again.
cpu_id representative(const policy_view& v, const wakeup& w, cpu_id cpu) noexcept {
  if (!v.set.sis_core_representative) return cpu;
  for (cpu_id sibling : v.machine.core_of(cpu))
    if (usable(v, w, sibling, cpu)) return sibling;
  return cpu;
}

// Has the walk from `start` already met a candidate of this core? Then the core has been judged.
bool core_was_met(const policy_view& v, const candidate_set& set, size_t start, cpu_id cpu) noexcept {
  const auto position = [start](cpu_id c) { return index_of(c) - start; };  // wraps: those before start come last
  for (cpu_id sibling : v.machine.core_of(cpu))
    if (sibling != cpu && position(sibling) < position(cpu) && set.has(sibling)) return true;
  return false;
}

cpu_id first_free_of_core(const policy_view& v, const wakeup& w, cpu_id cpu) noexcept {
  for (cpu_id sibling : v.machine.core_of(cpu))
    if (usable(v, w, sibling, cpu) && free_for(v, w, sibling)) return sibling;
  return cpu_id::none;
}

}  // namespace

candidate_set llc_candidates(const policy_view& v, const wakeup& w, int llc) noexcept {
  const llc_shape& shape = v.board.shape(llc);
  return {v, w, v.machine.llcs[static_cast<size_t>(llc)], shape.first_word, shape.end_word};
}

scan_answer scan_siblings(const policy_view& v, const wakeup& w, cpu_id at) noexcept {
  scan_answer answer;
  for (cpu_id sibling : v.machine.core_of(at)) {
    if (sibling == at || !usable(v, w, sibling, at)) continue;
    answer.probes++;
    if (!free_for(v, w, sibling)) continue;
    answer.cpu = sibling;
    return answer;
  }
  return answer;
}

scan_answer scan_cores(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start) noexcept {
  scan_answer answer;
  walk_from(set, start, [&](cpu_id cpu) {
    if (core_was_met(v, set, start, cpu)) return false;
    answer.probes++;
    if (idle_core_of(v, cpu)) {
      answer.cpu = representative(v, w, cpu);
      answer.whole_core = true;
      return true;
    }
    if (!valid(answer.cpu)) answer.cpu = first_free_of_core(v, w, cpu);
    return false;
  });
  return answer;
}

scan_answer scan_cpus(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start,
                      int64_t budget) noexcept {
  scan_answer answer;
  walk_from(set, start, [&](cpu_id cpu) {
    if (budget-- <= 0) return true;
    answer.probes++;
    if (!free_for(v, w, cpu)) return false;
    answer.cpu = cpu;
    return true;
  });
  return answer;
}

scan_answer scan_capacities(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start) noexcept {
  scan_answer answer;
  walk_from(set, start, [&](cpu_id cpu) {
    answer.probes++;
    if (!free_for(v, w, cpu)) return false;
    const int capacity = v.machine.at(cpu).capacity;
    if (!valid(answer.cpu) || capacity > v.machine.at(answer.cpu).capacity || fits(w.load.util, capacity))
      answer.cpu = cpu;
    return fits(w.load.util, capacity);
  });
  return answer;
}

bool may_have_idle_core(const policy_view& v, int llc) noexcept {
  if (!v.set.sis_idle_core || !v.machine.has_smt()) return false;
  const llc_row& row = v.board.llc(llc);
  return v.set.idle_core_id ? row.idle_core.load(relaxed) != idle_core_none : row.has_idle_cores.load(relaxed) != 0;
}

void forget_idle_core(const policy_view& v, cpu_id cpu) noexcept {
  int32_t stored = static_cast<int32_t>(v.machine.core_of(cpu).lowest());
  v.board.llc_of(cpu).idle_core.compare_exchange_strong(stored, idle_core_unknown, relaxed);
}

void refute_idle_cores(const policy_view& v, const wakeup& w, int llc) noexcept {
  llc_row& row = v.board.llc(llc);
  if (!v.set.idle_core_id) return row.has_idle_cores.store(0, relaxed);
  // A fiber that may not go everywhere has not looked everywhere.
  if (w.allowed == nullptr) row.idle_core.store(idle_core_none, relaxed);
}

int64_t scan_budget(const policy_view& v, const wakeup& w, int llc) noexcept {
  const llc_shape& shape = v.board.shape(llc);
  const cpu_id searcher = valid(w.waker) ? w.waker : w.prev;
  const int64_t avg_idle = v.board.row(searcher).avg_idle.load(relaxed);
  const int64_t cost = v.board.llc_of(searcher).avg_scan_cost.load(relaxed);
  switch (v.set.sis_limit) {
    case sis_limit_t::none:
      return no_budget;
    case sis_limit_t::avg_cpu:
      return avg_cpu_gives_up(avg_idle, cost) ? 0 : no_budget;
    case sis_limit_t::prop:
      return prop_budget(avg_idle / 512, cost, shape.size) - 1;
    case sis_limit_t::prop_wake:
      return prop_budget(w.wake_avg_idle_ns, cost, shape.size) - 1;
    case sis_limit_t::util:
      return v.board.llc(llc).nr_idle_scan.load(relaxed);
    // A small LLC is one or two words of the mask: there a budget only loses idle CPUs.
    case sis_limit_t::auto_:
      return shape.size <= 64 ? no_budget : v.board.llc(llc).nr_idle_scan.load(relaxed);
  }
  return no_budget;
}

bool avg_cpu_gives_up(int64_t avg_idle_ns, int64_t scan_cost_ns) noexcept {
  return avg_idle_ns / 512 < scan_cost_ns + 1;
}

int64_t prop_budget(int64_t idle_share_ns, int64_t scan_cost_ns, int64_t llc_size) noexcept {
  const int64_t span = llc_size * idle_share_ns;
  return span > 4 * (scan_cost_ns + 1) ? span / (scan_cost_ns + 1) : 4;
}

int32_t util_budget(int64_t util_sum, int64_t llc_size, int64_t imbalance_pct) noexcept {
  const int64_t x = util_sum / llc_size;
  const int64_t t = std::min<int64_t>(x * x * imbalance_pct * imbalance_pct / (10'000 * 1024), 1024);
  return static_cast<int32_t>((1024 - t) * llc_size / 1024);
}

}  // namespace heddle::core
