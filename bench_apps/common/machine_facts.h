// What a result file says of a machine, and which CPUs share a last-level cache.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "affinity/topology.h"

namespace heddle::bench {

struct machine_facts {
  core::topology machine;
  nlohmann::ordered_json record;  // name, cpu_count, core_count, llc_count, node_count, smt, hash
  std::vector<int> llc_of_cpu;    // by OS id; -1 where there is no such CPU
};

// By name, description or file as --machine takes them; usage_error for what is none. Found once per process: discovery
// takes milliseconds that no run should be charged for.
const machine_facts& facts_of(const std::string& machine);

}  // namespace heddle::bench
