// The driver of periodic balance: which levels of a CPU are due, and what a pass that succeeded or failed changes for the
// next one (policy-reference 7.1, 7.7, 7.8). The protocol is told at the top of plan.h.
#pragma once

#include <array>
#include <vector>

#include "balancer/detach.h"
#include "balancer/newidle_cost.h"
#include "balancer/plan.h"

namespace heddle::core {

// What a CPU remembers of one of its levels.
struct level_state {
  nanos last_balance{0};
  uint64_t interval = 1;  // units of balance_unit_ns
  uint32_t nr_failed = 0;
  newidle_level newidle;
};

// Sources that had only pinned fibers for us. More than these are not tried in one pass.
class exclusion_list {
 public:
  bool add(cpu_id cpu) noexcept {  // false: full
    if (count_ == cpus_.size()) return false;
    cpus_[count_++] = cpu;
    return true;
  }
  void clear() noexcept { count_ = 0; }
  bool full() const noexcept { return count_ == cpus_.size(); }
  std::span<const cpu_id> all() const noexcept { return {cpus_.data(), count_}; }

 private:
  std::array<cpu_id, 8> cpus_{};
  size_t count_ = 0;
};

// What a CPU remembers of balancing. Caller-owned, sized once by the CPU's chain of domains.
struct balance_state {
  balance_state(const domain_tree& domains, const settings& set, cpu_id me, nanos now);

  std::vector<level_state> levels;  // as domains.chain(me)
  nanos next_balance{0};            // no level is due earlier
  nanos max_idle_cost{0};           // of a whole search before idling; bounds avg_idle (3.5)

  // The pass that is under way.
  struct {
    bool open = false;
    bool outstanding = false;  // a plan has not been reported
    bool token = false;        // this level is serialized and ours
    bool retried = false;      // for a neighbour, with this source
    uint32_t moved = 0;
    size_t level = 0;
    nanos next{0};
    exclusion_list excluded;
  } pass;

  // The search before idling that is under way (newidle.h).
  struct {
    bool open = false;
    bool outstanding = false;
    bool got = false;
    uint32_t reward = 0;  // of the level that is being looked at; 0: none is
    size_t level = 0;
    nanos level_began{0};
    nanos spent{0};
    exclusion_list excluded;
  } search;
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
void push_reported(balance_state& state, const balance_plan& plan, bool moved, const level_constants& level,
                   const settings& set) noexcept;

}  // namespace heddle::core
