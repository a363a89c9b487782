// The bracket: how an owner touches its worker's plain memory without a read-modify-write, and how others take it over.
//
// B1 Owner: inside = 1 (relaxed), compiler barrier, look at attention; without a claim there the bracket is ours.
//    Claimant: attention |= claim, barrier(cpu), wait until inside == 0. The barrier is the heavy side of an asymmetric fence:
//    either the owner's look sees the claim, or the claimant's wait sees inside == 1. Where there is no membarrier (att_fence)
//    and under TSan the owner pays an exchange instead.
// B2 inside is cleared by the switch, after sp is saved: nothing in a queue is unsaved.
// B3 Between the publication of a waiter and the switch nobody waits, searches or claims. Nobody claims while inside a bracket:
//    two of us could wait for each other.
// B4 No user code runs inside.
// B5 A claimant only removes. What it does not take goes back by inbox push, not into the queue: its owner may be about to park
//    and has looked there already. (Unless the owner is inside a fiber: it cannot park without another bracket.)
#pragma once

#include "runtime/fiber/context.h"
#include "runtime/machine/machine.h"
#include "runtime/sched/worker.h"

namespace heddle::core {

inline constexpr uint32_t att_fence = 64;  // no membarrier here: every entry takes the slow path and a real fence

// The out-of-line rest of enter(): scheduling point of the virtual machine, claims, inbox, requests, and every refill-th time
// the tick. May leave and re-enter the bracket; the worker may be another one afterwards.
void slow_enter(carrier& c, op kind);

[[gnu::always_inline]] inline void set_inside(carrier& c) noexcept {
#if HEDDLE_TSAN
  c.inside.exchange(1, seq_cst);
#else
  door(c.inside).store(1, relaxed);
  compiler_barrier();  // B1: the look at attention stays behind it; the cpu's store buffer is the claimant's to flush
#endif
}

[[gnu::always_inline]] inline worker& enter(carrier& c, op kind) {
  set_inside(c);
  const int32_t left = c.countdown.load(relaxed) - 1;
  c.countdown.store(left, relaxed);
  if (__builtin_expect((c.attention.load(acquire) != 0) | (left < 0), 0)) slow_enter(c, kind);
  return *c.runs.load(relaxed);
}

[[gnu::always_inline]] inline void leave(carrier& c) noexcept { door(c.inside).store(0, release); }

// Claims a carrier: afterwards its worker's plain memory is ours until unclaim. False: somebody else has the claim, or the
// owner stayed inside too long (it was preempted there).
bool claim_carrier(machine& m, carrier& c) noexcept;
// Claims whoever runs `v`, and checks that it still does. The carrier, or null.
carrier* claim_worker(machine& m, worker& v) noexcept;
inline void unclaim(carrier& c) noexcept {
#if defined(HEDDLE_INTERLEAVE)
  c.taken_over = false;
#endif
  c.attention.fetch_and(~att_claim, release);
}

// Waits out claims, inside the bracket of c; leaves and re-enters. Counts nothing, serves nothing.
void wait_out_claim(machine& m, carrier& c) noexcept;

// A second entry within one operation, not a scheduling point.
inline worker& reenter(machine& m, carrier& c) noexcept {
  set_inside(c);
  if (c.attention.load(acquire) & (att_claim | att_fence)) wait_out_claim(m, c);
  return *c.runs.load(relaxed);
}

}  // namespace heddle::core
