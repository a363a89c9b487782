// Interleavings at every access to an atomic (build `interleave`, virtual machine): the current virtual cpu stalls for a seeded
// while, so that others run between any two accesses, and its stores reach the others late (runtime/base/store_buffer.h).
#pragma once

#if defined(HEDDLE_INTERLEAVE)

#include <vector>

#include "runtime/base/atomic.h"
#include "runtime/base/rng.h"
#include "runtime/machine/machine.h"

namespace heddle::core {

// The next virtual machine that this thread makes explores by this seed; 0: it does not.
inline constinit thread_local uint64_t explore_accesses = 0;

class access_schedule {
 public:
  // On the thread that drives m, which stalls through m.burn_until().
  access_schedule(machine& m, size_t strands, uint64_t seed) : machine_(m), chance_(seed), stores_(strands) {
    current = this;
    interleave_here = &at_access;
  }
  ~access_schedule() { stop(); }
  access_schedule(const access_schedule&) = delete;
  access_schedule& operator=(const access_schedule&) = delete;

  // Everything is visible, and nothing waits any more.
  void stop() noexcept {
    barrier();
    if (current != this) return;
    current = nullptr;
    interleave_here = nullptr;
    my_stores = nullptr;
  }
  void turn_to(size_t strand) noexcept { my_stores = current == this ? &stores_[strand] : nullptr; }
  void barrier() noexcept {
    for (auto& s : stores_) s.drain();
  }

 private:
  static void at_access() noexcept { current->access(); }
  void access() noexcept {
    if (chance_.below(3) == 0) stores_[chance_.below(stores_.size())].drain_one(chance_.next());
    const uint64_t kind = chance_.below(256);
    if (kind < 48) stall(1 + chance_.below(400));
    if (kind == 255) stall(1 + chance_.below(20'000));
  }

  // By the clock: a stall uses no working set.
  void stall(uint64_t ns) noexcept { machine_.burn_until(machine_.now() + nanos{static_cast<int64_t>(ns)}); }

  static inline constinit thread_local access_schedule* current = nullptr;
  machine& machine_;
  rng chance_;
  std::vector<store_buffer> stores_;
};

}  // namespace heddle::core

#endif
