// The machine as a value: what hwloc found (or a synthetic string or a file described), restricted to the CPUs we may use.
// Owned by whoever asked for it; immutable afterwards; knows no thread and no hwloc type.
#pragma once

#include <string>
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
  };

  // Ascending by OS id; the position is the cpu_id.
  std::vector<cpu> cpus;
  // Partitions of all CPUs: every CPU is in exactly one member of each.
  std::vector<cpu_set> cores;
  std::vector<cpu_set> clusters;  // CPUs that share an L2 but not the LLC alone; equals cores where there is none
  std::vector<cpu_set> llcs;  // cut at node borders; L2 where there is no L3; package and node where there is no cache
  std::vector<cpu_set> nodes;
  std::vector<cpu_set> packages;
  std::vector<int> node_os_ids;
  std::vector<std::vector<int>> distances;  // node by node, 10 local

  std::string name;         // "host", the synthetic string, the file, or the built-in name
  bool this_system = true;  // false: never bind a real thread by it

  size_t cpu_count() const noexcept { return cpus.size(); }
  int os_id(cpu_id c) const noexcept { return cpus[index_of(c)].os_id; }
  const cpu& at(cpu_id c) const noexcept { return cpus[index_of(c)]; }
  bool share_llc(cpu_id a, cpu_id b) const noexcept { return at(a).llc == at(b).llc; }
  bool share_core(cpu_id a, cpu_id b) const noexcept { return at(a).core == at(b).core; }
  const cpu_set& llc_of(cpu_id c) const noexcept { return llcs[static_cast<size_t>(at(c).llc)]; }
  const cpu_set& core_of(cpu_id c) const noexcept { return cores[static_cast<size_t>(at(c).core)]; }
  bool has_smt() const noexcept { return cores.size() < cpus.size(); }
  int distance(cpu_id a, cpu_id b) const noexcept {
    return distances[static_cast<size_t>(at(a).node)][static_cast<size_t>(at(b).node)];
  }
  cpu_id find_os(int os_id) const noexcept;    // cpu_id::none where absent
  std::string list(const cpu_set& set) const;  // "0-9,20-29", in OS ids
};

}  // namespace heddle::core
