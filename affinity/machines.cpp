#include "affinity/machines.h"

#include <string>
#include <utility>
#include <vector>

namespace heddle::core {

namespace {

// Regular machines, outermost first. CPU numbers as firmware commonly gives them: first all first threads of the cores,
// then all second ones; `interleaved` counts round the packages instead.
struct shape {
  int packages = 1;
  int nodes_per_package = 1;
  int llcs_per_node = 1;
  int cores_per_llc = 1;
  int threads_per_core = 1;
  topology::cache llc{3, 32 << 20};
  int distance_in_package = 12;
  int distance = 20;  // between packages
  bool interleaved = false;
};

machine_facts facts_of(const shape& s) {
  machine_facts facts;
  const int llcs_per_package = s.nodes_per_package * s.llcs_per_node;
  const int cores_per_package = llcs_per_package * s.cores_per_llc;
  const int core_count = s.packages * cores_per_package;
  for (int core = 0; core < core_count; core++) {
    const int package = core / cores_per_package;
    const int place = core % cores_per_package;
    const int first_thread = s.interleaved ? place * s.packages + package : core;
    const int llc = core / s.cores_per_llc;
    const int node = llc / s.llcs_per_node;
    for (int thread = 0; thread < s.threads_per_core; thread++)
      facts.cpus.push_back({.os_id = first_thread + thread * core_count,
                            .core = core,
                            .cluster = core,
                            .llc = llc,
                            .node = node,
                            .package = package});
  }
  const int nodes = s.packages * s.nodes_per_package;
  for (int from = 0; from < nodes; from++) {
    std::vector<int>& row = facts.distances.emplace_back();
    for (int to = 0; to < nodes; to++)
      row.push_back(from == to                                               ? 10
                    : from / s.nodes_per_package == to / s.nodes_per_package ? s.distance_in_package
                                                                             : s.distance);
  }
  facts.llc_caches.assign(static_cast<size_t>(s.packages * llcs_per_package), s.llc);
  return facts;
}

// 6 fast cores with two threads each, then 8 slow ones in clusters of 4 that share an L2; one L3 over all. Capacity by
// highest frequency, 5.2 and 3.9 GHz, as on a Raptor Lake i7-1370P.
machine_facts hybrid() {
  machine_facts facts;
  for (int id = 0; id < 12; id++)
    facts.cpus.push_back({.os_id = id, .core = id / 2, .cluster = id / 2, .kind = 1, .capacity = 1024});
  for (int id = 12; id < 20; id++)
    facts.cpus.push_back({.os_id = id, .core = id, .cluster = id / 4 + 100, .kind = 0, .capacity = 768});
  facts.llc_caches = {{3, 24 << 20}};
  return facts;
}

constexpr uint64_t mib = 1 << 20;

struct entry {
  named_machine said;
  machine_facts (*make)();
};

const entry table[] = {
    {{"2n40",
      "2 nodes x 10 cores x 2 threads = 40 CPUs, node 0 is 0-9,20-29, node 1 is 10-19,30-39 (2012 and 2015 mails)"},
     [] { return facts_of({.packages = 2, .cores_per_llc = 10, .threads_per_core = 2, .llc = {3, 25 * mib}}); }},
    {{"4n192", "4 nodes x 24 cores x 2 threads = 192 CPUs, one LLC of 48 CPUs per node (2020 and 2021 mails)"},
     [] {
       return facts_of(
           {.packages = 4, .cores_per_llc = 24, .threads_per_core = 2, .llc = {3, 36608 << 10}, .distance = 21});
     }},
    {{"2x4", "2 clusters x 4 cores = 8 CPUs, no L3: each cluster's L2 is the last cache (HiKey)"},
     [] { return facts_of({.llcs_per_node = 2, .cores_per_llc = 4, .llc = {2, 512 << 10}}); }},
    {{"2x6", "2 packages x 6 cores = 12 CPUs, numbered alternately, node 0 even, node 1 odd (2013 mails)"},
     [] {
       return facts_of({.packages = 2, .cores_per_llc = 6, .llc = {3, 12 * mib}, .distance = 21, .interleaved = true});
     }},
    {{"1x6x2", "1 package x 6 cores x 2 threads = 12 CPUs (the other reading of the 2013 mails)"},
     [] { return facts_of({.cores_per_llc = 6, .threads_per_core = 2, .llc = {3, 12 * mib}}); }},
    {{"8x10x2", "8 packages and nodes x 10 cores x 2 threads = 160 CPUs (2013 AIM7 mails)"},
     [] { return facts_of({.packages = 8, .cores_per_llc = 10, .threads_per_core = 2, .llc = {3, 24 * mib}}); }},
    {{"1x4x2", "1 package x 4 cores x 2 threads = 8 CPUs, one LLC (small desktop)"},
     [] { return facts_of({.cores_per_llc = 4, .threads_per_core = 2, .llc = {3, 8 * mib}}); }},
    {{"1x16x2", "1 package x 16 cores x 2 threads = 32 CPUs, one LLC"},
     [] { return facts_of({.cores_per_llc = 16, .threads_per_core = 2, .llc = {3, 32 * mib}}); }},
    {{"desktop", "1 package x 8 cores x 2 threads = 16 CPUs, one LLC"},
     [] { return facts_of({.cores_per_llc = 8, .threads_per_core = 2, .llc = {3, 32 * mib}}); }},
    {{"ccx", "2 packages and nodes x 8 LLCs x 4 cores x 2 threads = 128 CPUs: many small LLCs in a node"},
     [] {
       return facts_of(
           {.packages = 2, .llcs_per_node = 8, .cores_per_llc = 4, .threads_per_core = 2, .llc = {3, 16 * mib}});
     }},
    {{"hybrid", "6 fast cores x 2 threads and 8 slow cores in L2 clusters of 4 = 20 CPUs, one LLC"}, hybrid},
    {{"n1024", "8 packages x 2 nodes x 2 LLCs x 16 cores x 2 threads = 1024 CPUs, distances 10/12/20"},
     [] {
       return facts_of(
           {.packages = 8, .nodes_per_package = 2, .llcs_per_node = 2, .cores_per_llc = 16, .threads_per_core = 2});
     }},
    {{"n4096", "16 packages x 4 nodes x 2 LLCs x 16 cores x 2 threads = 4096 CPUs, distances 10/12/20"},
     [] {
       return facts_of(
           {.packages = 16, .nodes_per_package = 4, .llcs_per_node = 2, .cores_per_llc = 16, .threads_per_core = 2});
     }},
};

}  // namespace

std::span<const named_machine> named_machines() noexcept {
  static const std::vector<named_machine> list = [] {
    std::vector<named_machine> said;
    for (const entry& e : table) said.push_back(e.said);
    return said;
  }();
  return list;
}

std::optional<topology> make_named_machine(std::string_view name) {
  for (const entry& e : table)
    if (e.said.name == name) {
      topology machine = assemble(e.make(), std::string(name));
      machine.this_system = false;
      return machine;
    }
  return std::nullopt;
}

}  // namespace heddle::core
