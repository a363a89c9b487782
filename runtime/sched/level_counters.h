// What a worker counts about each of its scheduling domains, in the terms of /proc/schedstat: one writer (who holds the worker's
// balance state), read at any time. Nothing here is touched by a switch or a wake-up on its own cpu.
#pragma once

#include <array>
#include <cstddef>

#include "affinity/topology.h"
#include "balancer/detach.h"
#include "balancer/plan.h"
#include "runtime/base/atomic.h"

namespace heddle::core {

struct pass_counters {
  atomic<uint64_t> passes{0};         // comparisons of the level that came to an end
  atomic<uint64_t> balanced{0};       // of these: nothing was to be moved
  atomic<uint64_t> failed{0};         // of these: something was, and nothing moved
  atomic<uint64_t> imbalance{0};      // what was to be moved, in the units of each pull
  atomic<uint64_t> gained{0};         // fibers that moved
  atomic<uint64_t> hot_gained{0};     // of these, cache-hot
  atomic<uint64_t> no_busy_cpu{0};    // balanced, because all that the busiest group had was pinned
  atomic<uint64_t> no_busy_group{0};  // balanced, because no group was busier
  atomic<uint64_t> left_out{0};       // newidle: not looked at, for the dice or for want of spare fibers
  atomic<uint64_t> ns{0};             // newidle: time spent
};

struct level_counters {
  std::array<pass_counters, 3> by;   // by `puller`
  atomic<uint64_t> pushes{0};        // running fibers asked for
  atomic<uint64_t> newidle_cost{0};  // ns: what a search of it is reckoned to cost now

  // One answer of a policy about this level.
  void note(const balance_plan& plan) noexcept;
  void note(const balance_plan& plan, const pull_outcome& outcome) noexcept;  // what came of a pull
};

// How far a fiber went: how many of its caches it left behind.
enum class reach : uint8_t { core, llc, node, machine };
inline constexpr size_t reach_count = 4;
inline constexpr const char* reach_names[reach_count] = {"core", "llc", "node", "machine"};

inline reach reach_of(const topology& cpus, cpu_id a, cpu_id b) noexcept {
  const topology::cpu &x = cpus.at(a), &y = cpus.at(b);
  return x.core == y.core ? reach::core : x.llc == y.llc ? reach::llc : x.node == y.node ? reach::node : reach::machine;
}

using reach_counters = std::array<atomic<uint64_t>, reach_count>;
inline void count_reach(reach_counters& to, reach how_far, uint64_t by = 1) noexcept {
  bump(to[static_cast<size_t>(how_far)], by);
}

}  // namespace heddle::core
