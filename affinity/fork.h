// Where a new fiber starts (policy-reference 5.5, fork_path).
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

#define HEDDLE_FORK_REASONS(X)                                                            \
  X(fork_pinned, "allowed on one CPU only")                                               \
  X(fork_local, "its parent's CPU; who idles will fetch it")                              \
  X(fork_near, "its parent's CPU is not allowed: the nearest that is, an idle one first") \
  X(fork_idlest, "the slow path's least loaded CPU")

#define HEDDLE_ENUMERATOR(name, meaning) name,
enum class fork_reason : uint8_t { HEDDLE_FORK_REASONS(HEDDLE_ENUMERATOR) };
#undef HEDDLE_ENUMERATOR
inline constexpr size_t fork_reason_count = static_cast<size_t>(fork_reason::fork_idlest) + 1;
std::string_view to_string(fork_reason reason) noexcept;

struct fork_request {
  cpu_id parent = cpu_id::none;      // of the spawning fiber or thread; none: it runs on none of our CPUs
  const cpu_set* allowed = nullptr;  // of the new fiber; null: all
  fiber_load load;
  nanos now{0};
};

struct fork_placement {
  cpu_id cpu = cpu_id::none;
  fork_reason reason = fork_reason::fork_local;
  uint32_t probes = 0;
};

fork_placement place_fork(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                          const fork_request& request) noexcept;

}  // namespace heddle::core
