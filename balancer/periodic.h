// The driver of periodic balance: which levels of a CPU are due, and what a pass that succeeded or failed changes for the
// next one (policy-reference 7.1, 7.7, 7.8). The protocol is told at the top of plan.h.
#pragma once

#include <array>
#include <vector>

#include "balancer/detach.h"
#include "balancer/plan.h"

namespace heddle::core {

// What a CPU remembers of one of its levels.
struct level_state {
  nanos last_balance{0};
  uint64_t interval = 1;  // units of balance_unit_ns
  uint32_t nr_failed = 0;
};

// What a CPU remembers of balancing. Caller-owned, sized once by the CPU's chain of domains.
struct balance_state {
  balance_state(const domain_tree& domains, cpu_id me, nanos now);

  std::vector<level_state> levels;  // as domains.chain(me)
  nanos next_balance{0};            // no level is due earlier

  // The pass that is under way.
  struct {
    bool open = false;
    bool outstanding = false;  // a plan has not been reported
    bool token = false;        // this level is serialized and ours
    bool retried = false;      // for a neighbour, with this source
    uint32_t moved = 0;
    size_t level = 0;
    nanos next{0};
    size_t excluded_count = 0;
    std::array<cpu_id, 8> excluded{};  // more than these are not tried in one pass
  } pass;
};

// What to do about the next level that is due: a pull, or the reason against one. Call again until the answer is over():
// then nothing is due before next_balance. A CPU that becomes idle sets next_balance to now first, so that it need not wait
// as long as it would have busy.
balance_plan balance_tick(const balance_world& world, balance_state& state, cpu_id me, puller how, nanos now) noexcept;

// What came of a plan of balance_tick (or of report) for `me`. The answer may be another pull at the same level, to be
// reported likewise; or a push, which is not reported here; or why the level is done.
balance_plan report(const balance_world& world, balance_state& state, cpu_id me, const balance_plan& plan,
                    const pull_outcome& outcome, nanos now) noexcept;

// The running fiber asked for by a plan of kind push arrived, or did not.
void push_reported(balance_state& state, const balance_plan& plan, bool moved) noexcept;

}  // namespace heddle::core
