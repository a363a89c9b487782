#include "balancer/pick.h"

namespace heddle::core {

pick_rules pick_rules_of(const settings& set) noexcept {
  return {.use_slot = set.pick_slot,
          .lifo_max = static_cast<uint32_t>(set.lifo_max),
          .fair_interval = static_cast<uint32_t>(set.fair_interval)};
}

}  // namespace heddle::core
