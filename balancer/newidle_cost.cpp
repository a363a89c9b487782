#include "balancer/newidle_cost.h"

#include <algorithm>

namespace heddle::core {
namespace {

constexpr uint32_t full_ratio = 1024;

struct fraction {
  int64_t numerator, denominator;
};
// The candidates of seed 001: half of a high cost is forgotten after 89, 59 or 45 periods.
constexpr fraction fraction_of(ni_decay_t d) noexcept {
  switch (d) {
    case ni_decay_t::f254_256:
      return {254, 256};
    case ni_decay_t::f63_64:
      return {63, 64};
    case ni_decay_t::f253_256:
      break;
  }
  return {253, 256};
}

// A second maximum, which forgets ten times as fast, and draws the bumped cost after it.
void note_target(newidle_level& level, nanos cost, nanos now, const settings& set) noexcept {
  if (cost > level.target) {
    level.target = cost;
    level.target_stamp = now;
  } else if ((now - level.target_stamp).count() > set.ni_decay_period_ns / 10) {
    level.target = level.target * 253 / 256;
    level.max_cost += (level.target - level.max_cost) / 4;
    level.target_stamp = now;
  }
}

}  // namespace

nanos cost_floor(const settings& set) noexcept {
  const int64_t cost = migration_cost_ns_of(set);
  return nanos{cost < 0 ? uncalibrated_migration_cost_ns : cost};
}

nanos gate_cost(const newidle_level& level, const settings& set) noexcept {
  return set.ni_target ? level.target : level.max_cost;
}

void note_cost(newidle_level& level, nanos cost, bool got, nanos now, const settings& set) noexcept {
  if (set.ni_target) note_target(level, cost, now, set);
  if (set.ni_bump && !got)  // 6.17: a failure makes the level look ever dearer, up to a little above a migration
    cost = std::min(3 * level.max_cost / 2, cost_floor(set) + nanos{set.ni_cap_slack_ns});
  if (cost > level.max_cost) {
    level.max_cost = cost;
    level.cost_stamp = now;
  } else {
    decay_cost(level, now, set);
  }
}

bool decay_cost(newidle_level& level, nanos now, const settings& set) noexcept {
  if ((now - level.cost_stamp).count() <= set.ni_decay_period_ns) return false;
  const fraction f = fraction_of(set.ni_decay);
  level.max_cost = level.max_cost * f.numerator / f.denominator;
  level.cost_stamp = now;
  return true;
}

uint32_t admission_reward(const newidle_level& level, uint32_t dice, const settings& set) noexcept {
  if (!set.ni_random || (set.ni_rate && level.ratio == full_ratio)) return 1;
  const uint32_t weight = 1 + level.ratio;
  return dice > weight ? 0 : (full_ratio + weight / 2) / weight;
}

void note_result(newidle_level& level, uint32_t reward, nanos now, const settings& set) noexcept {
  level.calls++;
  level.wins += reward;
  if (level.calls < 1024) return;
  level.ratio = level.wins;
  if (set.ni_rate) {  // who searches rarely may search always, however seldom it pays
    const int64_t rare = (now - level.ratio_stamp).count() >> set.ni_rate_shift;
    level.ratio = static_cast<uint32_t>(std::clamp<int64_t>(level.wins + rare, 0, full_ratio));
  }
  level.ratio_stamp = now;
  level.calls /= 2;
  level.wins /= 2;
}

}  // namespace heddle::core
