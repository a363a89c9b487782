// The CPU of the busiest group to pull from (policy-reference 7.6).
#pragma once

#include <span>

#include "balancer/classify.h"
#include "balancer/imbalance.h"

namespace heddle::core {

struct busiest_query {
  cpu_id me;
  pull_kind kind;
  uint64_t amount;
  nanos now;
  std::span<const cpu_id> excluded;  // had only pinned fibers in this pass
};
struct busiest_answer {
  cpu_id cpu = cpu_id::none;
  bool pinned = false;  // some CPU was passed over because none of its queued fibers may leave
};
busiest_answer busiest_cpu(const balance_world& world, const sched_group& group, const busiest_query& q) noexcept;

}  // namespace heddle::core
