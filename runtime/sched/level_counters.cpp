#include "runtime/sched/level_counters.h"

namespace heddle::core {

// A pass over a level ends with exactly one answer that is neither a pull nor about other levels.
void level_counters::note(const balance_plan& plan) noexcept {
  pass_counters& c = by[static_cast<size_t>(plan.how)];
  if (plan.pull()) return bump(c.imbalance, plan.amount);
  if (plan.over() && plan.reason != balance_reason::only_pinned) return;
  switch (plan.reason) {
    case balance_reason::diced:
    case balance_reason::no_spare:
      return bump(c.left_out, 1);
    case balance_reason::moved:
      return bump(c.passes, 1);
    case balance_reason::push_running:
      bump(pushes, 1);
      [[fallthrough]];
    case balance_reason::failed:
      bump(c.passes, 1);
      return bump(c.failed, 1);
    case balance_reason::only_pinned:
      bump(c.no_busy_cpu, 1);
      break;
    case balance_reason::not_designated:
      break;
    default:
      bump(c.no_busy_group, 1);
      break;
  }
  bump(c.passes, 1);
  bump(c.balanced, 1);
}

void level_counters::note(const balance_plan& plan, const pull_outcome& outcome) noexcept {
  pass_counters& c = by[static_cast<size_t>(plan.how)];
  bump(c.gained, outcome.moved);
  bump(c.hot_gained, outcome.moved_hot);
}

}  // namespace heddle::core
