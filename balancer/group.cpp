#include "balancer/group.h"

#include <algorithm>

namespace heddle::core::pelt {
namespace {

constexpr uint64_t subtract_down_to_0(uint64_t a, uint64_t b) noexcept { return a > b ? a - b : 0; }

constexpr uint64_t changed_by(uint64_t value, uint64_t from, uint64_t to) noexcept {
  return to >= from ? value + (to - from) : subtract_down_to_0(value, from - to);
}

}  // namespace

uint64_t group_weight(uint64_t shares, uint64_t weight_sum, uint64_t load_avg, uint64_t total,
                      uint64_t contrib) noexcept {
  const uint64_t load = std::max(weight_sum, load_avg);
  const uint64_t all = subtract_down_to_0(total, contrib) + load;
  return std::clamp(all > 0 ? shares * load / all : shares, least_shares, std::max(shares, least_shares));
}

uint64_t group_runnable_weight(uint64_t weight, uint64_t load_avg, uint64_t weight_sum, uint64_t runnable_load,
                               uint64_t runnable_weight) noexcept {
  const uint64_t all = std::max(load_avg, weight_sum);
  const uint64_t part = std::max(runnable_load, runnable_weight);
  return std::clamp(all > 0 ? weight * part / all : weight, least_shares, std::max(weight, least_shares));
}

propagated propagate_part(uint64_t parent, uint64_t of_entity, uint64_t of_queue) noexcept {
  return {.parent = changed_by(parent, of_entity, of_queue), .entity = of_queue};
}

load_change propagate_load(const load_query& q) noexcept {
  const uint64_t by = divider(q.position);
  uint64_t sum = 0;
  if (q.prop >= 0)  // one CPU cannot be more than fully busy
    sum = std::min(q.load_sum + static_cast<uint64_t>(q.prop), by);
  else  // what is left is what an average member has
    sum = std::min(q.load_sum, q.queue_weight_sum > 0 ? q.queue_load_sum / q.queue_weight_sum : 0);
  sum = std::max(sum, q.util_sum / full_scale);
  return {.load_sum = sum, .load_avg = q.weight * sum / by};
}

}  // namespace heddle::core::pelt
