#include "runtime/sched/bracket.h"

#include "runtime/base/mutants.h"

namespace heddle::core {
namespace {
// An owner is inside for tens of nanoseconds unless the kernel preempted it there; then somebody else's turn is better than
// waiting for it.
constexpr int claim_patience = 20'000;
}  // namespace

bool claim_carrier(machine& m, carrier& c) noexcept {
  if (c.attention.fetch_or(att_claim, seq_cst) & att_claim) return false;  // B1, claimant
  if (!is_planted(mutant::claim_without_barrier)) m.barrier(c.cpu);
  for (int i = 0; door(c.inside).load(acquire) != 0; i++) {
    if (i == claim_patience) {
      unclaim(c);
      return false;
    }
    m.relax();
  }
#if defined(HEDDLE_INTERLEAVE)
  c.taken_over = true;
#endif
  return true;
}

carrier* claim_worker(machine& m, worker& v) noexcept {
  carrier* c = v.on.load(acquire);
  if (c == nullptr || !claim_carrier(m, *c)) return nullptr;
  if (c->runs.load(relaxed) == &v) return c;
  unclaim(*c);  // C1: a dispossession moved it meanwhile
  return nullptr;
}

void wait_out_claim(machine& m, carrier& c) noexcept {
  door(c.inside).exchange(1, seq_cst);  // slow path: a real fence instead of the claimant's barrier
  while (c.attention.load(acquire) & att_claim) {
    leave(c);
    while (c.attention.load(acquire) & att_claim) m.relax();
    door(c.inside).exchange(1, seq_cst);
  }
}

}  // namespace heddle::core
