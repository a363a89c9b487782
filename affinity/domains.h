// Scheduling domains: per CPU a chain of ever wider spans (SMT < cluster < LLC < package/node < NUMA levels), each cut
// into groups; policy-reference section 1. Built once from a topology, immutable, shared by all readers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "affinity/cpu_set.h"
#include "affinity/topology.h"
#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

enum class domain_level : uint8_t { smt, cluster, llc, package, node, machine, numa };
std::string_view to_string(domain_level level) noexcept;

// policy-reference 1.2. prefer_sibling is read from the child of a group.
enum domain_flags : uint32_t {
  df_share_capacity = 1,
  df_share_llc = 2,
  df_wake_affine = 4,
  df_balance_newidle = 8,
  df_balance_fork = 16,
  df_balance_wake = 32,
  df_prefer_sibling = 64,
  df_numa = 128,
  df_serialize = 256,
};

struct sched_group {
  cpu_set span;
  cpu_set balance_mask;  // members that may balance on the group's behalf; never empty
  int cores = 0;         // distinct cores in span
  uint32_t flags = 0;    // of the child domain that became this group
};

// One span at one level. CPUs that see the same span and the same groups share one record: a 4096-CPU machine must
// not cost quadratic memory.
struct sched_span {
  domain_level level = domain_level::llc;
  uint32_t flags = 0;
  cpu_set span;
  size_t weight = 0;                // CPUs in span
  std::vector<sched_group> groups;  // in CPU order; a reader starts at its local group and goes round
  int imb_numa_nr = 0;              // policy-reference 1.6
};

// A CPU's view of one level.
struct sched_domain {
  const sched_span* shared = nullptr;
  size_t local_group = 0;  // index into shared->groups

  domain_level level() const noexcept { return shared->level; }
  uint32_t flags() const noexcept { return shared->flags; }
  bool has(uint32_t flag) const noexcept { return (shared->flags & flag) != 0; }
  const cpu_set& span() const noexcept { return shared->span; }
  size_t group_count() const noexcept { return shared->groups.size(); }
  // k = 0 is the local group, then circular.
  const sched_group& group(size_t k) const noexcept {
    return shared->groups[(local_group + k) % shared->groups.size()];
  }
};

struct domain_options {
  int reclaim_distance = 30;                                 // setting numa_reclaim_distance
  bool smt = true, cluster = true, llc = true, numa = true;  // setting topo_levels
};
domain_options domain_options_of(const settings& set) noexcept;

class domain_tree {
 public:
  explicit domain_tree(const topology& machine, const domain_options& options = {});

  // Finest first; degenerate levels removed (1.4). Empty on a machine with one CPU.
  std::span<const sched_domain> chain(cpu_id cpu) const noexcept { return chains_[index_of(cpu)]; }
  size_t span_count() const noexcept { return spans_.size(); }
  // All distinct spans, so that per-level state can be kept beside them.
  const std::vector<std::unique_ptr<sched_span>>& spans() const noexcept { return spans_; }

 private:
  std::vector<std::unique_ptr<sched_span>> spans_;
  std::vector<std::vector<sched_domain>> chains_;
};

}  // namespace heddle::core
