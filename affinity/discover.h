// Where a machine comes from: this host, an hwloc XML file, a synthetic string, or a built-in name. The only door to
// hwloc; what leaves it is a plain value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "affinity/topology.h"

namespace heddle::core {

// Exactly one of the two is set. An error is one clause without a prefix: "'pack:x' is not a synthetic machine ...".
struct loaded_machine {
  std::optional<topology> machine;
  std::string error;
};

// What hwloc gives for this system. Its own variables keep working (HWLOC_XMLFILE, HWLOC_SYNTHETIC, HWLOC_FSROOT ...);
// then this_system is false unless HWLOC_THISSYSTEM insists. CPUs that a cpuset forbids are left out; the affinity mask
// of the process is not looked at (limits.h does that).
loaded_machine discover_host();
loaded_machine load_synthetic(const std::string& description);
loaded_machine load_xml(const std::string& path);

// `host`, a built-in name (machines.h), a path, or a synthetic string.
loaded_machine load_machine(std::string_view spec);

// Version of the API the loaded library has, "2.8".
std::string hwloc_version();

}  // namespace heddle::core
