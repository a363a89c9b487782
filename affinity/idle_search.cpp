#include "affinity/idle_search.h"

#include "affinity/idle_scan.h"
#include "affinity/idler_llc.h"

namespace heddle::core {
namespace {

search_answer as_answer(const scan_answer& scan, wake_reason reason, uint32_t probes_before) noexcept {
  return {scan.cpu, scan.whole_core ? wake_reason::wake_core : reason, probes_before + scan.probes};
}

search_answer missed(uint32_t probes) noexcept { return {cpu_id::none, wake_reason::wake_miss, probes}; }

bool found(const search_answer& answer) noexcept { return valid(answer.cpu); }

// Free and, where CPUs differ, large enough.
bool good(const policy_view& v, const wakeup& w, cpu_id cpu) noexcept {
  return free_for(v, w, cpu) && (!v.board.asymmetric() || fits(w.load.util, v.machine.at(cpu).capacity));
}

// The CPUs that need no search: the chosen one and those the fiber knows.
search_answer familiar(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (good(v, w, target)) return {target, wake_reason::wake_target};
  if (w.prev != target && v.machine.share_llc(w.prev, target) && good(v, w, w.prev))
    return {w.prev, wake_reason::wake_prev};
  return {};
}

bool usable_recent(const policy_view& v, const wakeup& w, cpu_id recent, cpu_id target) noexcept {
  return valid(recent) && recent != w.prev && recent != target && v.machine.share_llc(recent, target) &&
         allowed_on(w.allowed, recent) && good(v, w, recent);
}

// 5.13: the fiber's memory follows it on every wake-up that came this far.
search_answer recent_v513(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (!v.set.sis_recent || w.memory == nullptr) return {};
  const cpu_id recent = w.memory->recent;
  w.memory->recent = w.prev;
  return usable_recent(v, w, recent, target) ? search_answer{recent, wake_reason::wake_recent} : search_answer{};
}

// 4.9: it is set by affine wakes of the fiber (wake.cpp), and follows only a hit.
search_answer recent_v49(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (!v.set.sis_recent || w.memory == nullptr) return {};
  const cpu_id recent = w.memory->recent;
  if (!usable_recent(v, w, recent, target)) return {};
  w.memory->recent = w.prev;
  return {recent, wake_reason::wake_recent};
}

// idle_core_id: the core the LLC remembers, if it still idles.
cpu_id remembered_core(const policy_view& v, const wakeup& w, int llc) noexcept {
  if (!v.set.idle_core_id) return cpu_id::none;
  const cpu_id core = take_idle_core(v, w, llc);
  return valid(core) && core_idle(v, core) ? core : cpu_id::none;
}

search_answer scan(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start, bool has_core,
                   int64_t budget) noexcept {
  return has_core ? as_answer(scan_cores(v, w, set, start), wake_reason::wake_cpu, 0)
                  : as_answer(scan_cpus(v, w, set, start, budget), wake_reason::wake_cpu, 0);
}

// The cluster around the target, if it is a part of the LLC larger than a core.
const cpu_set* cluster_to_prefer(const policy_view& v, cpu_id target) noexcept {
  if (!v.set.sis_cluster) return nullptr;
  const topology::cpu& cpu = v.machine.at(target);
  const cpu_set& cluster = v.machine.clusters[static_cast<size_t>(cpu.cluster)];
  const bool proper = cluster != v.machine.core_of(target) && cluster != v.machine.llc_of(target);
  return proper && v.machine.llc_of(target).contains(cluster) ? &cluster : nullptr;
}

search_answer search_v513(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (const search_answer known = familiar(v, w, target); found(known)) return known;
  if (const search_answer recent = recent_v513(v, w, target); found(recent)) return recent;

  const int llc = v.machine.at(target).llc;
  const candidate_set all = llc_candidates(v, w, llc);
  // target+1 first: the target itself has just been found busy, it comes last.
  const size_t start = index_of(target) + 1;
  if (v.board.asymmetric()) return as_answer(scan_capacities(v, w, all, start), wake_reason::wake_cpu, 0);

  uint32_t probes = 0;
  const bool has_core = may_have_idle_core(v, llc);
  if (v.set.sis_smt && v.machine.has_smt() && !has_core && v.machine.share_llc(w.prev, target)) {
    const scan_answer sibling = scan_siblings(v, w, w.prev);
    if (valid(sibling.cpu)) return as_answer(sibling, wake_reason::wake_smt, 0);
    probes += sibling.probes;
  }
  int64_t budget = scan_budget(v, w, llc);
  if (budget <= 0) return missed(probes);
  if (has_core)
    if (const cpu_id core = remembered_core(v, w, llc); valid(core)) return {core, wake_reason::wake_core, probes + 1};

  const auto finished = [&](const search_answer& answer) {
    if (answer.reason == wake_reason::wake_core) forget_idle_core(v, answer.cpu);
    return search_answer{answer.cpu, answer.reason, probes};
  };
  candidate_set rest = all;
  search_answer answer{};
  if (const cpu_set* cluster = cluster_to_prefer(v, target)) {
    const candidate_set near{v, w, *cluster, all.first_word, all.end_word};
    answer = scan(v, w, near, start, has_core, budget);
    probes += answer.probes;
    // A free CPU of the cluster is worth more than an idle core further off.
    if (found(answer)) return finished(answer);
    if (!has_core) budget -= answer.probes;
    rest.excluded = cluster;
  }
  answer = scan(v, w, rest, start, has_core, budget);
  probes += answer.probes;
  if (has_core && answer.reason != wake_reason::wake_core) refute_idle_cores(v, w, llc);
  return found(answer) ? finished(answer) : missed(probes);
}

search_answer search_v49(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (const search_answer known = familiar(v, w, target); found(known)) return known;
  if (const search_answer recent = recent_v49(v, w, target); found(recent)) return recent;

  const int llc = v.machine.at(target).llc;
  const candidate_set all = llc_candidates(v, w, llc);
  const size_t start = index_of(target);
  uint32_t probes = 0;
  if (may_have_idle_core(v, llc)) {
    if (const cpu_id core = remembered_core(v, w, llc); valid(core)) return {core, wake_reason::wake_core, 1};
    const scan_answer core = scan_cores(v, w, all, start);
    probes += core.probes;
    // Nothing but whole cores counts here: single CPUs are the next scan's.
    if (core.whole_core) {
      forget_idle_core(v, core.cpu);
      return {core.cpu, wake_reason::wake_core, probes};
    }
    refute_idle_cores(v, w, llc);
  }
  const scan_answer cpu = scan_cpus(v, w, all, start, scan_budget(v, w, llc));
  if (valid(cpu.cpu)) return as_answer(cpu, wake_reason::wake_cpu, probes);
  probes += cpu.probes;
  if (!v.set.sis_smt || !v.machine.has_smt()) return missed(probes);
  return as_answer(scan_siblings(v, w, target), wake_reason::wake_smt, probes);
}

// Every CPU of the group idles, and one of them is allowed: that one.
cpu_id idle_group_member(const policy_view& v, const wakeup& w, const sched_group& group, uint32_t& probes) noexcept {
  cpu_id first = cpu_id::none;
  for (cpu_id cpu : group.span) {
    probes++;
    if (!v.board.idle(cpu)) return cpu_id::none;
    if (!valid(first) && allowed_on(w.allowed, cpu)) first = cpu;
  }
  return first;
}

// Until 4.8: whole groups only, from the LLC's level down. A core with one idle sibling is invisible above the SMT level.
search_answer search_v310(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  if (const search_answer known = familiar(v, w, target); found(known)) return known;
  const std::span<const sched_domain> chain = v.domains.chain(target);
  uint32_t probes = 0;
  for (size_t level = chain.size(); level-- > 0;) {
    if (!chain[level].has(df_share_llc)) continue;
    // 0 is the target's own group.
    for (size_t k = 1; k < chain[level].group_count(); k++) {
      const sched_group& group = chain[level].group(k);
      const cpu_id cpu = idle_group_member(v, w, group, probes);
      if (!valid(cpu)) continue;
      const wake_reason reason = chain[level].has(df_share_capacity)             ? wake_reason::wake_smt
                                 : v.machine.has_smt() && group.span.count() > 1 ? wake_reason::wake_core
                                                                                 : wake_reason::wake_cpu;
      return {cpu, reason, probes};
    }
  }
  return missed(probes);
}

search_answer search_llc(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  switch (v.set.sis) {
    case sis_t::off:
      return {target, wake_reason::wake_direct};
    case sis_t::target_only:
      return good(v, w, target) ? search_answer{target, wake_reason::wake_target} : search_answer{};
    case sis_t::v310:
      return search_v310(v, w, target);
    case sis_t::v49:
      return search_v49(v, w, target);
    case sis_t::v513:
      return search_v513(v, w, target);
  }
  return {};
}

// sis_extend: the rest of the node, or level by level the rest of the machine.
search_answer search_beyond(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  uint32_t probes = 0;
  const auto scan_rest = [&](const cpu_set& span, const cpu_set& seen) {
    const candidate_set rest{v, w, span, 0, span.word_count(), &seen};
    const scan_answer answer = scan_cpus(v, w, rest, index_of(target) + 1, no_budget);
    probes += answer.probes;
    return answer.cpu;
  };
  const cpu_set& llc = v.machine.llc_of(target);
  if (v.set.sis_extend == sis_extend_t::node) {
    const cpu_id cpu = scan_rest(v.machine.nodes[static_cast<size_t>(v.machine.at(target).node)], llc);
    return {cpu, wake_reason::wake_extend, probes};
  }
  const cpu_set* seen = &llc;
  for (const sched_domain& domain : v.domains.chain(target)) {
    if (domain.has(df_share_llc)) continue;
    if (const cpu_id cpu = scan_rest(domain.span(), *seen); valid(cpu)) return {cpu, wake_reason::wake_extend, probes};
    seen = &domain.span();
  }
  return missed(probes);
}

}  // namespace

search_answer select_idle_sibling(const policy_view& v, const wakeup& w, cpu_id target) noexcept {
  search_answer answer = search_llc(v, w, target);
  if (found(answer)) return answer;
  if (v.set.sis_extend != sis_extend_t::llc && v.set.sis != sis_t::target_only) {
    const search_answer beyond = search_beyond(v, w, target);
    answer.probes += beyond.probes;
    if (found(beyond)) return {beyond.cpu, wake_reason::wake_extend, answer.probes};
  }
  return {target, wake_reason::wake_miss, answer.probes};
}

}  // namespace heddle::core
