// The machine as a value: what hwloc found (or a synthetic string or a file described), restricted to the CPUs we may
// use. Owned by whoever asked for it; immutable afterwards; knows no thread and no hwloc type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "affinity/cpu_set.h"
#include "runtime/base/ids.h"

namespace heddle::core {

struct topology {
  struct cpu {
    int os_id = 0;
    int core = 0;  // indices into the partitions below
    int cluster = 0;
    int llc = 0;
    int node = 0;
    int package = 0;
    int kind = 0;         // CPU kind, least efficient... fastest, as hwloc ranks them; 0 where there is one kind
    int capacity = 1024;  // kernel units: the fastest kind has 1024
    bool foreign_sibling = false;  // its core has a hardware thread that is not among `cpus`
  };
  struct cache {
    int level = 0;  // 0: no cache is known, the LLC is assumed to be what package and node share
    uint64_t bytes = 0;
  };

  // Ascending by OS id; the position is the cpu_id.
  std::vector<cpu> cpus;
  // Partitions of all CPUs: every CPU is in exactly one member of each. Members are ordered by their lowest CPU.
  std::vector<cpu_set> cores;
  std::vector<cpu_set> clusters;  // CPUs that share an L2 but not the LLC alone; equals cores where there is none
  std::vector<cpu_set> llcs;   // cut at node borders; L2 where there is no L3; package and node where there is no cache
  std::vector<cpu_set> nodes;  // CPUs with the same local memory; those without any are a node of their own
  std::vector<cpu_set> packages;
  std::vector<cache> llc_caches;            // beside llcs
  std::vector<int> node_os_ids;             // beside nodes; -1: no memory node is local to these CPUs
  std::vector<std::vector<int>> distances;  // node by node, 10 local

  std::string name;         // "host", the synthetic string, the file, or the built-in name
  bool this_system = true;  // false: never bind a real thread by it
  // CPUs that exist and are not among `cpus`.
  int offline_count = 0;
  int forbidden_count = 0;  // by a cpuset

  size_t cpu_count() const noexcept { return cpus.size(); }
  int os_id(cpu_id c) const noexcept { return cpus[index_of(c)].os_id; }
  const cpu& at(cpu_id c) const noexcept { return cpus[index_of(c)]; }
  bool share_llc(cpu_id a, cpu_id b) const noexcept { return at(a).llc == at(b).llc; }
  bool share_core(cpu_id a, cpu_id b) const noexcept { return at(a).core == at(b).core; }
  const cpu_set& llc_of(cpu_id c) const noexcept { return llcs[static_cast<size_t>(at(c).llc)]; }
  const cpu_set& core_of(cpu_id c) const noexcept { return cores[static_cast<size_t>(at(c).core)]; }
  const cpu_set& node_of(cpu_id c) const noexcept { return nodes[static_cast<size_t>(at(c).node)]; }
  const cpu_set& package_of(cpu_id c) const noexcept { return packages[static_cast<size_t>(at(c).package)]; }
  bool has_smt() const noexcept { return cores.size() < cpus.size(); }
  int distance(cpu_id a, cpu_id b) const noexcept {
    return distances[static_cast<size_t>(at(a).node)][static_cast<size_t>(at(b).node)];
  }
  cpu_id find_os(int os_id) const noexcept;    // cpu_id::none where absent
  std::string list(const cpu_set& set) const;  // "0-9,20-29", in OS ids
  cpu_set all() const { return cpu_set::first(cpus.size()); }
  // Equal machines have equal hashes, whatever they are called; 16 hex digits.
  std::string hash() const;
};

// What a source knows (hwloc, a table, a larger machine): the rows of `cpus` carry labels instead of indices, small
// integers of any order; CPUs with one label belong together. The LLC label is before the cut at node borders.
struct machine_facts {
  std::vector<topology::cpu> cpus;
  std::vector<topology::cache> llc_caches;  // by LLC label; may be shorter
  std::vector<int> node_os_ids;             // by node label; may be shorter
  // By node label; 0 or absent: unknown. Then farther than any that is known, 20 if none is.
  std::vector<std::vector<int>> distances;
};

// The only maker of topologies: sorts, numbers the partitions, cuts LLCs at node borders, completes the distances.
topology assemble(machine_facts facts, std::string name);

// The same machine with only the CPUs in `keep`; equal to what discovery would have made of those alone.
topology restricted(const topology& machine, const cpu_set& keep);

// OS ids "0,2-5" to a set; an empty set and a sentence in `error` where the text is no list or names a CPU that is not
// there.
cpu_set parse_cpu_list(const topology& machine, std::string_view text, std::string& error);

}  // namespace heddle::core
