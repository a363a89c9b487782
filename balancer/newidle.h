// The search of a CPU that is about to idle: whether, how far, and what it learns (policy-reference 8.1). What to take is
// plan.h's matter. The mechanism's side:
//
//   do { plan = newidle_next(world, state, me, now(), random);
//        while (plan.pull()) { ask plan.from; plan = newidle_report(world, state, me, plan, outcome); }
//   } while (!plan.over());
//
// Each call looks at one level, so that the time between two calls is what the level cost: there is one clock read per
// level, as in the kernel. The answer `work_arrived` ends the loop after a success as after a wake-up. Afterwards
// publish state.max_idle_cost as the board's max_idle_balance_cost, and set idle_since to 0 if something was pulled.
#pragma once

#include "balancer/periodic.h"

namespace heddle::core {

// `random`: 64 fresh random bits.
balance_plan newidle_next(const balance_world& world, balance_state& state, cpu_id me, nanos now,
                          uint64_t random) noexcept;

// What came of a pull. The answer may be another pull at the same level.
balance_plan newidle_report(const balance_world& world, balance_state& state, cpu_id me, const balance_plan& plan,
                            const pull_outcome& outcome, nanos now, uint64_t random) noexcept;

}  // namespace heddle::core
