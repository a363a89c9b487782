// Groups of CPUs as numbers: sums over what their CPUs say on the board, the class that follows, and which of two groups
// is the busier one (policy-reference 7.3).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "affinity/board.h"
#include "affinity/domains.h"
#include "balancer/shared.h"
#include "runtime/base/settings.h"

namespace heddle::core {

// What every balance decision reads. The domains belong to the machine; `shared` is written as a hint.
struct balance_world {
  const topology& machine;
  const domain_tree& domains;
  board& state;  // written: the search budget of an LLC, by its periodic balance
  const settings& set;
  balance_shared& shared;
};

// What the CPU that pulls is doing. A newly idle one still searches: it attracts nobody and counts as no idle CPU.
enum class puller : uint8_t { busy, idle, newly_idle };

struct cpu_signals {
  uint64_t load;      // by load_metric
  uint64_t instant;   // weights queued now
  uint64_t util;      // running
  uint64_t runnable;  // running or waiting
  uint64_t capacity;
  uint64_t nr;
  bool idle;
};
// As of now: where nobody ages a parked CPU's load, the reader does (blocked_decay).
cpu_signals signals_of(const topology& machine, const board& state, const settings& set, cpu_id cpu,
                       nanos now) noexcept;

// Highest is busiest.
enum class group_class : uint8_t {
  has_spare,    // room for another fiber
  fully_busy,   // neither room nor contention
  misfit,       // a fiber too large for its CPU
  smt_balance,  // fibers share a core while the puller idles
  imbalanced,   // affinity kept an earlier pass from evening it out
  overloaded,   // more work than it can do
};
std::string_view to_string(group_class c) noexcept;

struct group_stats {
  uint64_t load = 0;
  uint64_t util = 0;
  uint64_t runnable = 0;
  uint64_t capacity = 0;
  uint64_t nr = 0;
  uint64_t idle = 0;    // CPUs
  uint64_t weight = 0;  // CPUs
  uint64_t cores = 0;
  uint64_t misfit = 0;          // the largest misfit fiber's load
  uint64_t avg_load = 0;        // load per capacity; overloaded groups only
  uint32_t flags = 0;           // of the child domain that became this group
  bool overloaded_cpu = false;  // some CPU has two fibers
  group_class kind = group_class::has_spare;
};

bool overloaded(const group_stats& g, uint64_t imbalance_pct) noexcept;
bool has_capacity(const group_stats& g, uint64_t imbalance_pct) noexcept;

// Would the candidate be the better group to pull from?
bool busier(const group_stats& candidate, const group_stats& best) noexcept;

// Everything a decision at one level needs.
struct group_comparison {
  group_stats local;
  group_stats busiest;
  const sched_group* busiest_group = nullptr;  // null: no other group has a fiber
  uint64_t total_load = 0;
  uint64_t total_capacity = 0;
  uint64_t total_util = 0;
  bool overloaded_cpu = false;
};
struct comparison_query {
  cpu_id me;  // the CPU that pulls
  puller how;
  uint64_t imbalance_pct;
  nanos now;
  std::span<const cpu_id> excluded = {};  // had only pinned fibers in this pass: as if they were not there
};
group_comparison compare_groups(const balance_world& world, const sched_domain& level,
                                const comparison_query& q) noexcept;

}  // namespace heddle::core
