#include "balancer/victims.h"

#include <algorithm>

#include "runtime/base/rng.h"

namespace heddle::core {

cpu_id random_victim(const board& state, cpu_id me, uint64_t random, std::span<const cpu_id> excluded) noexcept {
  const size_t count = state.machine().cpu_count();
  const size_t start = rng(random).below(count);
  for (size_t i = 0; i < count; i++) {
    const cpu_id cpu = to_cpu((start + i) % count);
    if (cpu == me || state.row(cpu).movable.load(relaxed) == 0) continue;
    if (std::find(excluded.begin(), excluded.end(), cpu) == excluded.end()) return cpu;
  }
  return cpu_id::none;
}

uint32_t steal_count(const settings& set, uint32_t movable) noexcept {
  if (set.steal_amount == steal_amount_t::one) return std::min(movable, 1u);
  return std::min(movable / 2 + movable % 2, static_cast<uint32_t>(set.nr_migrate));
}

}  // namespace heddle::core
