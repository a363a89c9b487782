// Faults that can be planted in the build `interleave`, one for each rule of a protocol (runtime/sched/README.md), to see that the
// tests would find it: a test of the tests. In every other build is_planted() is the constant false and nothing remains.
#pragma once

#include <cstdint>

namespace heddle::core {

// name, what is wrong with it
#define HEDDLE_MUTANTS(X)                                                                    \
  X(claim_without_barrier, "B1: the claimant looks at `inside` without the heavy fence")     \
  X(look_before_inside, "B1: the owner looks at attention before it says that it is inside") \
  X(relaxed_announcement, "I1: parked is announced by a relaxed store, without a fence")     \
  X(no_second_look, "I1: parks without a second look after the announcement")                \
  X(state_before_push, "I1: the pusher reads the state before it pushes")                    \
  X(resume_unsaved, "F1: a fiber is resumed before its stack pointer is saved")              \
  X(reuse_unsaved, "F1: a stack is reused while its last fiber still stands on it")          \
  X(both_claim, "L3: a timed wait is claimed by a plain store")                              \
  X(stay_on_list, "L4: a waiter that timed out leaves without taking itself off the list")   \
  X(same_epoch, "L3: a wait does not open an epoch of its own")                              \
  X(end_by_load_and_store, "join: the end is a load and a store, not an exchange")           \
  X(woken_takes_alone, "mutex: the woken waiter takes the lock as if nobody else waited")    \
  X(steal_by_store, "T2: a thief raises the tail by a plain store")                          \
  X(same_version, "T2: a reset deque keeps the version of its word")                         \
  X(claim_unlocked, "T2: a claimant does not lock the word")                                 \
  X(pop_without_fence, "T4: the owner looks at the word before its head is visible")         \
  X(leave_private, "T5: a fiber suspends and keeps its tasks to itself")                     \
  X(park_beside_task, "T6: a worker parks without a look at the deques")                     \
  X(wait_by_store, "T7: the parent installs itself by a plain store")                        \
  X(outcome_by_store, "T7: the end of a task is a load and a store, not an exchange")        \
  X(no_successor, "T8: whoever takes one of several tasks posts no successor")

#define HEDDLE_NAME_OF(name, what) name,
enum class mutant : uint8_t { none, HEDDLE_MUTANTS(HEDDLE_NAME_OF) count };
#undef HEDDLE_NAME_OF

#if defined(HEDDLE_INTERLEAVE)
inline constinit mutant planted = mutant::none;
inline bool is_planted(mutant m) noexcept { return planted == m; }
#else
constexpr bool is_planted(mutant) noexcept { return false; }
#endif

}  // namespace heddle::core
