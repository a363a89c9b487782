// Which fibers a victim gives away for a plan (policy-reference 7.6, 7.7). The victim's owner offers its fibers one by one
// from the cold end of its queue; nothing here touches a queue.
#pragma once

#include <cstdint>
#include <string_view>

#include "affinity/cpu_set.h"
#include "balancer/plan.h"

namespace heddle::core {

struct candidate {
  uint64_t load = 0;  // decayed, as seen from the CPU's root (task_h_load)
  uint64_t util = 0;
  nanos last_ran{0};                 // when its present or last segment started
  const cpu_set* allowed = nullptr;  // null: anywhere
  bool pinned = false;               // to the CPU it is on
  bool running = false;
  bool idle_class = false;
  bool buddy = false;  // the fiber in the slot
};

#define HEDDLE_DETACH_REASONS(X)                               \
  X(take, "moves")                                             \
  X(last_one, "an idle puller leaves one behind: stop")        \
  X(enough, "the plan is fulfilled: stop")                     \
  X(looked_enough, "nr_migrate candidates were offered: stop") \
  X(pinned, "may not run there")                               \
  X(running, "runs")                                           \
  X(hot, "ran too recently")                                   \
  X(too_small, "not worth moving")                             \
  X(too_large, "more than is missing")

enum class detach_reason : uint8_t {
#define X(name, meaning) name,
  HEDDLE_DETACH_REASONS(X)
#undef X
};
std::string_view to_string(detach_reason reason) noexcept;

// What came of a plan.
struct pull_outcome {
  uint64_t left = 0;  // of the amount
  uint32_t moved = 0;
  uint32_t offered = 0;
  uint32_t hot = 0;        // refused
  uint32_t moved_hot = 0;  // moved all the same
  uint32_t pinned = 0;
  cpu_id alternative = cpu_id::none;  // a CPU of the puller's group where a pinned one may run

  bool all_pinned() const noexcept { return offered > 0 && pinned == offered; }
};

class detach_pass {
 public:
  // `source_nr`: fibers on the victim, the running one included. `neighbours`: the puller's group, for `alternative`.
  detach_pass(const settings& set, const balance_plan& plan, const cpu_set& neighbours, uint32_t source_nr,
              nanos now) noexcept;

  // take: the caller moves it. last_one, enough, looked_enough: the pass is over. Else offer the next one.
  detach_reason consider(const candidate& f) noexcept;
  static bool over(detach_reason r) noexcept {
    return r == detach_reason::last_one || r == detach_reason::enough || r == detach_reason::looked_enough;
  }
  // loop_break candidates have been offered since the last pause: let the victim have its turn.
  bool pause_due() const noexcept { return outcome_.offered > 0 && outcome_.offered % loop_break_ == 0; }
  const pull_outcome& outcome() const noexcept { return outcome_; }

 private:
  bool hot(const candidate& f) const noexcept;
  detach_reason fits(const candidate& f) const noexcept;

  const settings* set_;
  const cpu_set* neighbours_;
  balance_plan plan_;
  nanos now_;
  uint32_t source_nr_;
  uint32_t limit_;
  uint32_t loop_break_;
  pull_outcome outcome_;
};

}  // namespace heddle::core
