// How many workers to start, on which CPUs, and why, in a sentence. Reading what the system allows (affinity mask, cgroup
// quota) is apart from choosing, so that the choice is a pure function.
//
// A cpuset shows twice: hwloc leaves forbidden CPUs out of the topology, and the kernel leaves them out of the mask.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "affinity/topology.h"

namespace heddle::core {

struct cpu_quota {
  double cpus = 0;    // CPU seconds per second
  std::string where;  // "cgroup v2 quota 1.5 in /pod/app"
};

struct process_limits {
  std::optional<std::vector<int>> mask;  // OS ids; nullopt: unknown, all
  std::optional<cpu_quota> quota;        // the tightest of this process's cgroup and its ancestors
  std::string isolated;                  // CPU lists of the kernel: taken out of its own balancing, and without tick
  std::string nohz_full;
  int running_on = -1;  // OS id of the CPU this thread ran on; a process that a quota holds to few CPUs starts there
};

// `root` stands for "/" in tests: proc/self/{cgroup,mountinfo}, the mounts named there, and sys/devices/system/cpu.
std::optional<cpu_quota> read_quota(const std::filesystem::path& root = "/");
process_limits read_limits(const std::filesystem::path& root = "/");

// What the user asked for; the sources name the option or variable in errors and reasons.
struct worker_request {
  std::optional<int> workers;  // nullopt: auto
  std::string workers_source = "--workers";
  std::string cpus;  // OS ids "0,2-5"; empty: all allowed
  std::string cpus_source = "--cpus";
};

struct worker_choice {
  cpu_set allowed;     // all that could be used
  cpu_set chosen;      // a worker on each
  std::string reason;  // "one per CPU", "affinity mask allows CPU 1 of 0-1", ...
  std::string error;   // not empty: nothing was chosen; "--workers: '5' is not 1..2"
};

// Auto is min(allowed CPUs, quota rounded up), at least one. A number that was asked for beats the quota, not the mask.
worker_choice choose_workers(const topology& machine, const worker_request& request, const process_limits& limits);

}  // namespace heddle::core
