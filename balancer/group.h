// Groups of fibers as schedulable things (policy-reference 2.8): on each CPU a group has one queue of its members and one entity
// that stands for all of them in the parent's queue. The group's shares are spread over its entities by where its load is.
#pragma once

#include <cstdint>

#include "balancer/pelt.h"

namespace heddle::core::pelt {

inline constexpr uint64_t least_shares = 2;
inline constexpr uint64_t most_shares = 262'144;
inline constexpr uint64_t default_shares = 1024;

// What the entity on a CPU weighs there. `total` is the load of the group on all CPUs, of which this one last added `contrib`.
uint64_t group_weight(uint64_t shares, uint64_t weight_sum, uint64_t load_avg, uint64_t total,
                      uint64_t contrib) noexcept;
// Until 5.6 the runnable part had a weight of its own.
uint64_t group_runnable_weight(uint64_t weight, uint64_t load_avg, uint64_t weight_sum, uint64_t runnable_load,
                               uint64_t runnable_weight) noexcept;

// A change of the group's queue goes on to its entity (util, runnable): the entity becomes what the queue is, and the parent's
// queue changes by the difference.
struct propagated {
  uint64_t parent;
  uint64_t entity;
};
propagated propagate_part(uint64_t parent, uint64_t of_entity, uint64_t of_queue) noexcept;

// The load's change is carried unweighted: `prop` of the members' load_sum came or went.
struct load_change {
  uint64_t load_sum;
  uint64_t load_avg;
};
struct load_query {
  uint64_t load_sum;  // of the entity
  uint64_t weight;
  uint64_t util_sum;  // of the entity
  int64_t prop;
  uint64_t queue_load_sum;
  uint64_t queue_weight_sum;
  uint32_t position;
};
load_change propagate_load(const load_query& q) noexcept;

// Loads as the CPU's root sees them. A zero is raised to one where it is used as an amount moved.
constexpr uint64_t h_load(uint64_t parent_h_load, uint64_t entity_load, uint64_t parent_queue_load) noexcept {
  return parent_h_load * entity_load / (parent_queue_load + 1);
}

}  // namespace heddle::core::pelt
