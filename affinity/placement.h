// What the placement policies take and give: a wake-up as a value, what they remember of a fiber, the answer with its reason.
//
// A policy reads the board, which is stale by nature, and writes two kinds of memory only: the wake_memory its caller owns, and
// the hints of an LLC's row that a failed or successful search refutes (has_idle_cores, idle_core).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "affinity/board.h"
#include "affinity/cpu_set.h"
#include "affinity/domains.h"
#include "affinity/topology.h"
#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

// Why a wakee runs where it runs; exactly one per wake-up. Name, what it says.
#define HEDDLE_WAKE_REASONS(X)                                                  \
  X(deferred, "took the waker's slot: no placement was asked")                  \
  X(pinned, "allowed on one CPU only")                                          \
  X(wake_direct, "sis=off: the chosen CPU, whatever it does")                   \
  X(wake_target, "the chosen CPU was free")                                     \
  X(wake_prev, "the previous CPU was free")                                     \
  X(wake_recent, "the CPU before the previous one was free")                    \
  X(wake_core, "a wholly idle core of the LLC")                                 \
  X(wake_cpu, "a free CPU of the LLC")                                          \
  X(wake_smt, "a free sibling")                                                 \
  X(wake_extend, "sis_extend: a free CPU beyond the LLC")                       \
  X(wake_wide, "wake_wide_idle: a free CPU beyond the LLC for a wide relation") \
  X(wake_slow, "the slow path's least loaded CPU")                              \
  X(wake_full, "both LLCs wholly busy: nothing was searched")                   \
  X(wake_miss, "nothing free was found: the chosen CPU, behind what runs there")

// How waker's and previous CPU were weighed against each other; at most one per wake-up.
#define HEDDLE_AFFINE_REASONS(X)                                           \
  X(wa_none, "not weighed: same CPU, not wanted, or no common domain")     \
  X(wa_throttled, "pulled too recently")                                   \
  X(wa_idle_this, "the waker's CPU is idle")                               \
  X(wa_idle_prev, "the previous CPU is idle")                              \
  X(wa_sync, "the waker is about to leave its CPU")                        \
  X(wa_idler, "the LLC with the larger idle share, or an idle core of it") \
  X(wa_weight_this, "the waker's CPU is the lighter one")                  \
  X(wa_weight_prev, "the previous CPU is the lighter one")                 \
  X(wa_undecided, "no rule spoke: the previous CPU")

#define HEDDLE_ENUMERATOR(name, meaning) name,
enum class wake_reason : uint8_t { HEDDLE_WAKE_REASONS(HEDDLE_ENUMERATOR) };
enum class affine_reason : uint8_t { HEDDLE_AFFINE_REASONS(HEDDLE_ENUMERATOR) };
#undef HEDDLE_ENUMERATOR
inline constexpr size_t wake_reason_count = static_cast<size_t>(wake_reason::wake_miss) + 1;
inline constexpr size_t affine_reason_count = static_cast<size_t>(affine_reason::wa_undecided) + 1;
std::string_view to_string(wake_reason reason) noexcept;
std::string_view to_string(affine_reason reason) noexcept;
// The search began at the waker's CPU, or in its LLC.
constexpr bool pulls(affine_reason r) noexcept {
  return r == affine_reason::wa_idle_this || r == affine_reason::wa_sync || r == affine_reason::wa_idler ||
         r == affine_reason::wa_weight_this;
}

struct placement {
  cpu_id cpu = cpu_id::none;
  wake_reason reason = wake_reason::wake_direct;
  affine_reason affine = affine_reason::wa_none;
  bool wide = false;    // wake_wide fired
  bool slow = false;    // the slow path was walked
  bool burst = false;   // loads of now were compared (wa_burst_ns)
  uint32_t probes = 0;  // CPUs looked at
};

// What a placement remembers of a fiber; lives in its record. Plain: a fiber's own wakes are written by it while it runs, the
// rest by its one waker while it is blocked, and the waiter machine orders the two.
struct wake_memory {
  int64_t flip_stamp_ns = 0;
  int64_t affine_blocked_until_ns = 0;
  uint32_t flips = 0;  // how often the partner it wakes changed, decaying
  uint32_t last_wakee = 0;
  cpu_id recent = cpu_id::none;  // the CPU before the previous one
  uint32_t util_est = 0;         // balancer/util_est.h: the mechanism's, placements get its verdict in fiber_load
};
static_assert(sizeof(wake_memory) <= 32);

struct fiber_load {
  int64_t weight = 1024;
  int64_t h_load = 0;  // its decayed load as its CPU's root sees it (2.8)
  int64_t util = 0;
};

// One group level of a fiber on one CPU, innermost first (3.3).
struct group_level {
  int64_t shares;         // of the group
  int64_t group_weight;   // of its queues on all CPUs
  int64_t queue_weight;   // of its queue on this CPU
  int64_t entity_weight;  // what that queue weighs in its parent now
};
struct wake_groups {
  std::span<const group_level> wakee_this, wakee_prev, waker_this, waker_prev;
};

struct wakeup {
  cpu_id prev = cpu_id::none;   // where the wakee last ran
  cpu_id waker = cpu_id::none;  // the CPU the waker runs on; none: a plain thread off our CPUs
  bool sync = false;            // the waker says it is about to block
  bool waker_exiting = false;
  bool idle_class = false;           // of the wakee
  uint32_t wakee = 0;                // its identity, for record_wakee
  const cpu_set* allowed = nullptr;  // of the wakee; null: all
  fiber_load load;                   // of the wakee, aged over its sleep
  fiber_load waker_load;
  wake_memory* memory = nullptr;        // of the wakee
  wake_memory* waker_memory = nullptr;  // null: the waker is no fiber
  const wake_groups* groups = nullptr;  // null: everybody is in the root group
  int64_t wake_avg_idle_ns = 0;         // idle_marks of the waker's CPU; sis_limit=prop_wake only
  nanos now{0};
};

// What a decision looks at: four references that always travel together.
struct policy_view {
  const topology& machine;
  const domain_tree& domains;
  core::board& board;
  const settings& set;
};

inline bool allowed_on(const cpu_set* allowed, cpu_id cpu) noexcept { return allowed == nullptr || allowed->has(cpu); }

// A wake-up target without queueing delay (0.1). To an idle-class wakee a CPU with idle-class fibers is as busy as any.
inline bool free_for(const policy_view& v, const wakeup& w, cpu_id cpu) noexcept {
  return v.board.idle(cpu) || (v.set.idle_class_free && !w.idle_class && v.board.only_idle_class(cpu));
}

// Every hardware thread of its core idles, as far as we may know (1.7).
inline bool core_idle(const topology& machine, const board& state, const settings& set, cpu_id cpu) noexcept {
  if (!set.smt_ignore_foreign && machine.at(cpu).foreign_sibling) return false;
  for (cpu_id sibling : machine.core_of(cpu))
    if (!state.idle(sibling)) return false;
  return true;
}
inline bool core_idle(const policy_view& v, cpu_id cpu) noexcept { return core_idle(v.machine, v.board, v.set, cpu); }

// A fiber fits where a fifth of the capacity would stay over.
inline bool fits(int64_t util, int64_t capacity) noexcept { return util * 1280 < capacity * 1024; }

// What a CPU says of its load as of now. It leaves its averages as they were when it parked: with blocked_decay=reader, who
// reads them ages them.
struct load_reading {
  int64_t load = 0;  // by load_metric
  int64_t util = 0;
  int64_t runnable = 0;
};
load_reading read_load(const policy_view& v, cpu_id cpu, load_metric_t metric, nanos now) noexcept;
// The same of a fiber: weights go with instant loads, decayed loads with decayed ones.
inline int64_t load_of(const fiber_load& load, load_metric_t metric) noexcept {
  return metric == load_metric_t::instant ? load.weight : load.h_load;
}

// The level's share of imbalance that is tolerated (1.3), in percent.
inline int64_t imbalance_pct(const settings& set, const sched_domain& domain) noexcept {
  if (domain.has(df_share_capacity)) return set.imbalance_pct_smt;
  return domain.has(df_share_llc) ? set.imbalance_pct_llc : set.imbalance_pct_numa;
}

}  // namespace heddle::core
