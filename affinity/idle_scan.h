// The parts a search for a free CPU is made of: candidate sets, their order, budgets, and the three scans (policy-reference 5.2,
// 5.3, 6.2). Which part comes when is idle_search.cpp's.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "affinity/placement.h"

namespace heddle::core {

// span ∩ allowed ∩ marked idle, without what is excluded: one word at a time, built nowhere.
struct candidate_set {
  const policy_view& v;
  const wakeup& w;
  const cpu_set& span;
  size_t first_word;  // the span's words: [first_word, end_word)
  size_t end_word;
  const cpu_set* excluded = nullptr;

  uint64_t word(size_t i) const noexcept {
    uint64_t bits = span.word(i);
    if (w.allowed != nullptr) bits &= w.allowed->word(i);
    if (excluded != nullptr) bits &= ~excluded->word(i);
    if (v.set.idle_mask && bits != 0) bits &= v.board.idle_word(i);
    return bits;
  }
  bool has(cpu_id cpu) const noexcept { return (word(index_of(cpu) / 64) >> (index_of(cpu) % 64) & 1) != 0; }
};
candidate_set llc_candidates(const policy_view& v, const wakeup& w, int llc) noexcept;

// From `start` upward, then from the bottom up to it; ends when visit(cpu) says so. start may lie beyond the last CPU.
template <class Visit>
void walk_from(const candidate_set& set, size_t start, Visit visit) noexcept {
  const uint64_t at_start = ~uint64_t{0} << (start % 64);
  const auto visit_word = [&](size_t i, uint64_t mask) {
    for (uint64_t bits = set.word(i) & mask; bits != 0; bits &= bits - 1)
      if (visit(to_cpu(i * 64 + static_cast<size_t>(std::countr_zero(bits))))) return true;
    return false;
  };
  const size_t start_word = start / 64;
  for (size_t i = std::max(start_word, set.first_word); i < set.end_word; i++)
    if (visit_word(i, i == start_word ? at_start : ~uint64_t{0})) return;
  for (size_t i = set.first_word; i < std::min(start_word + 1, set.end_word); i++)
    if (visit_word(i, i == start_word ? ~at_start : ~uint64_t{0})) return;
}

struct scan_answer {
  cpu_id cpu = cpu_id::none;
  bool whole_core = false;
  uint32_t probes = 0;  // CPUs (or cores) looked at
};

// Siblings of `at` in its LLC, itself excluded: the first free one.
scan_answer scan_siblings(const policy_view& v, const wakeup& w, cpu_id at) noexcept;
// A wholly idle core, else the first free CPU seen on the way; each core once.
scan_answer scan_cores(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start) noexcept;
// The first free CPU, looking at `budget` at most.
scan_answer scan_cpus(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start,
                      int64_t budget) noexcept;
// Unequal CPUs: the first free one that the wakee fits, else the free one with most capacity.
scan_answer scan_capacities(const policy_view& v, const wakeup& w, const candidate_set& set, size_t start) noexcept;

// Does the LLC's hint promise an idle core, and may we use it?
bool may_have_idle_core(const policy_view& v, int llc) noexcept;
// A search found none; or it took this CPU's core.
void refute_idle_cores(const policy_view& v, const wakeup& w, int llc) noexcept;
void forget_idle_core(const policy_view& v, cpu_id cpu) noexcept;

// ---- budgets
inline constexpr int64_t no_budget = std::numeric_limits<int64_t>::max();
// How many CPUs of the LLC a search by w.waker may look at; 0: none, do not search.
int64_t scan_budget(const policy_view& v, const wakeup& w, int llc) noexcept;

bool avg_cpu_gives_up(int64_t avg_idle_ns, int64_t scan_cost_ns) noexcept;  // SIS_AVG_CPU
int64_t prop_budget(int64_t idle_share_ns, int64_t scan_cost_ns,
                    int64_t llc_size) noexcept;  // SIS_PROP: nr; nr - 1 are looked at
// SIS_UTIL: what the periodic balance of the LLC domain writes to nr_idle_scan.
int32_t util_budget(int64_t util_sum, int64_t llc_size, int64_t imbalance_pct) noexcept;

}  // namespace heddle::core
