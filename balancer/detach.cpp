#include "balancer/detach.h"

#include <algorithm>
#include <array>

namespace heddle::core {
namespace {

// LB_MIN: below this a fiber's load is noise.
constexpr uint64_t least_load = 16;

// Each failed pass doubles the load that may move, so that a fiber larger than the imbalance is moved in the end.
uint64_t discounted(uint64_t amount, uint32_t nr_failed) noexcept { return amount >> std::min(nr_failed, 63u); }

}  // namespace

std::string_view to_string(detach_reason reason) noexcept {
  constexpr std::array names = {
#define X(name, meaning) std::string_view{#name},
      HEDDLE_DETACH_REASONS(X)
#undef X
  };
  return names[static_cast<size_t>(reason)];
}

detach_pass::detach_pass(const settings& set, const balance_plan& plan, const cpu_set& neighbours, uint32_t source_nr,
                         nanos now) noexcept
    : set_(&set),
      neighbours_(&neighbours),
      plan_(plan),
      now_(now),
      source_nr_(source_nr),
      limit_(std::min(static_cast<uint32_t>(set.nr_migrate), source_nr)),
      loop_break_(static_cast<uint32_t>(set.loop_break)),
      outcome_{.left = plan.amount} {}

detach_reason detach_pass::consider(const candidate& f) noexcept {
  if (outcome_.left == 0 || outcome_.moved >= plan_.at_most) return detach_reason::enough;
  if (plan_.how != puller::busy && source_nr_ <= 1) return detach_reason::last_one;
  if (outcome_.offered >= limit_) return detach_reason::looked_enough;
  outcome_.offered++;

  if (f.pinned || (f.allowed != nullptr && !f.allowed->has(plan_.to))) {
    outcome_.pinned++;
    if (!f.pinned && !valid(outcome_.alternative) && plan_.how != puller::newly_idle)
      for (cpu_id cpu : *neighbours_)
        if (cpu != plan_.to && f.allowed->has(cpu)) outcome_.alternative = cpu;
    return detach_reason::pinned;
  }
  if (f.running) return detach_reason::running;
  const bool is_hot = hot(f);
  if (!plan_.hot_may_move && is_hot) {
    outcome_.hot++;
    return detach_reason::hot;
  }
  if (const detach_reason r = fits(f); r != detach_reason::take) return r;
  if (is_hot) outcome_.moved_hot++;

  const uint64_t cost = plan_.kind == pull_kind::load   ? std::max<uint64_t>(f.load, 1)
                        : plan_.kind == pull_kind::util ? std::max<uint64_t>(f.util, 1)
                        : plan_.kind == pull_kind::task ? 1
                                                        : outcome_.left;
  outcome_.left -= std::min(outcome_.left, cost);
  outcome_.moved++;
  source_nr_--;
  return detach_reason::take;
}

bool detach_pass::hot(const candidate& f) const noexcept {
  if (f.idle_class) return false;
  if (set_->cache_hot_buddy && f.buddy && plan_.how == puller::busy) return true;
  const int64_t cost = migration_cost_ns_of(*set_);
  if (cost < 0) return true;
  return (now_ - f.last_ran).count() < cost;
}

detach_reason detach_pass::fits(const candidate& f) const noexcept {
  // Until 5.4: at most half of it too much, however often nothing moved.
  if (set_->lb_form != lb_form_t::v55 && plan_.kind == pull_kind::load) {
    const uint64_t half = std::max<uint64_t>(f.load, 1) / 2;
    if (set_->lb_min && f.load < least_load && plan_.nr_failed == 0) return detach_reason::too_small;
    return half > outcome_.left ? detach_reason::too_large : detach_reason::take;
  }
  if (plan_.kind == pull_kind::util)
    return discounted(f.util, plan_.nr_failed) > outcome_.left ? detach_reason::too_large : detach_reason::take;
  if (plan_.kind != pull_kind::load) return detach_reason::take;
  const uint64_t load = std::max<uint64_t>(f.load, 1);
  if (set_->lb_min && load < least_load && plan_.nr_failed == 0) return detach_reason::too_small;
  return discounted(load, plan_.nr_failed) > outcome_.left ? detach_reason::too_large : detach_reason::take;
}

}  // namespace heddle::core
