// Waker's CPU or previous CPU: where the search for a free CPU starts (policy-reference section 3). Reads those two CPUs and,
// with wa_idler_llc, their LLCs; nobody else.
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

struct affine_answer {
  cpu_id cpu = cpu_id::none;
  affine_reason reason = affine_reason::wa_undecided;
  bool burst = false;      // loads of now were compared
  bool llcs_full = false;  // 6.1: both LLCs wholly busy, a search would be in vain
};

// `domain` is the smallest of `here` that contains w.prev; here != w.prev. `sync` is believed.
affine_answer wake_affine(const policy_view& v, const sched_domain& domain, const wakeup& w, cpu_id here,
                          bool sync) noexcept;

// The arithmetic of the two generations, as values. Tie behaviour and truncation are part of it.
struct weight_terms {
  int64_t load_this = 0;
  int64_t load_prev = 0;
  int64_t waker = 0;
  int64_t wakee = 0;
  int64_t capacity_this = 1024;
  int64_t capacity_prev = 1024;
  int64_t pct = 117;
  bool sync = false;
  bool bias = true;
};
bool weight_pulls_v414(const weight_terms& t) noexcept;  // 3.2

struct weight_terms_v39 : weight_terms {
  int64_t load_per_fiber_this = 0;
  const wake_groups* groups = nullptr;
};
struct verdict_v39 {
  bool pull;
  bool by_sync;
};
verdict_v39 weight_pulls_v39(const weight_terms_v39& t) noexcept;  // 3.3

// What a CPU's load changes by if `queue_delta` is added to the innermost group's queue there and `group_delta` to the group as a
// whole; without groups, queue_delta.
int64_t effective_load(std::span<const group_level> levels, int64_t queue_delta, int64_t group_delta) noexcept;

}  // namespace heddle::core
