// Balancing on behalf of parked CPUs (policy-reference 7.9): whether a busy CPU's tick should wake one of them to look for
// all, and whom it visits. A parked CPU does no housekeeping of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "balancer/classify.h"

namespace heddle::core {

#define HEDDLE_NOHZ_REASONS(X)                                          \
  X(switched_off, "ilb is off")                                         \
  X(nobody_idle, "no CPU is parked")                                    \
  X(not_due, "no parked CPU is due yet")                                \
  X(no_need, "nothing here that a parked CPU could help with")          \
  X(age_blocked, "the load of parked CPUs should be aged")              \
  X(overloaded, "two fibers here, and a CPU is parked")                 \
  X(llc_busy, "several CPUs of this LLC are busy, one might be helped") \
  X(misfit, "the fiber here needs a faster CPU")

enum class nohz_reason : uint8_t {
#define X(name, meaning) name,
  HEDDLE_NOHZ_REASONS(X)
#undef X
};
std::string_view to_string(nohz_reason reason) noexcept;

struct nohz_kick {
  cpu_id who = cpu_id::none;  // unpark it, it balances for every parked CPU (or, age_blocked, ages their loads)
  nohz_reason reason;
};
// At the tick of a busy CPU. A kick is rationed by shared.nohz_next_ns and nohz_age_ns: whoever acts on one moves them on.
nohz_kick nohz_choose(const balance_world& world, cpu_id me, nanos now) noexcept;

// The walk of the CPU that was woken: idle CPUs circularly after itself, itself last. For each: balance_tick as idle, with
// that CPU's state under its claim; stop at once when work of its own arrives.
class nohz_walk {
 public:
  explicit nohz_walk(cpu_id me) noexcept : me_(me) {}
  cpu_id next(const balance_world& world) noexcept;  // none at the end

 private:
  cpu_id me_;
  size_t step_ = 0;
};

}  // namespace heddle::core
