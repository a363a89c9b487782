#include "balancer/busiest.h"

#include <algorithm>

namespace heddle::core {
namespace {

struct found {
  cpu_id cpu = cpu_id::none;
  cpu_signals s{};
  uint64_t misfit = 0;
};

bool better(const found& candidate, const found& best, pull_kind kind) noexcept {
  if (!valid(best.cpu)) return true;
  switch (kind) {
    case pull_kind::load:  // per capacity, without dividing: ties depend on it
      return candidate.s.load * best.s.capacity > best.s.load * candidate.s.capacity;
    case pull_kind::util:
      return candidate.s.util > best.s.util;
    case pull_kind::misfit:
      return candidate.misfit > best.misfit;
    default:
      return candidate.s.nr > best.s.nr;
  }
}

bool worth_asking(const found& f, const busiest_query& q) noexcept {
  switch (q.kind) {
    case pull_kind::load:
      return f.s.nr > 1 || f.s.load <= q.amount;
    case pull_kind::util:
      return f.s.nr > 1;  // a lone fiber gains nothing elsewhere
    case pull_kind::misfit:
      return f.misfit > 0;
    default:
      return true;
  }
}

}  // namespace

busiest_answer busiest_cpu(const balance_world& w, const sched_group& group, const busiest_query& q) noexcept {
  busiest_answer answer;
  found best;
  for (cpu_id cpu : group.span) {
    if (cpu == q.me || std::find(q.excluded.begin(), q.excluded.end(), cpu) != q.excluded.end()) continue;
    const found f{cpu, signals_of(w.machine, w.state, w.set, cpu, q.now), w.state.row(cpu).misfit_load.load(relaxed)};
    if (f.s.nr == 0 || !worth_asking(f, q)) continue;
    if (f.s.nr > 1 && q.kind != pull_kind::misfit && w.state.row(cpu).movable.load(relaxed) == 0) {
      answer.pinned = true;  // asking it would only bring "all pinned" back
      continue;
    }
    if (better(f, best, q.kind)) best = f;
  }
  answer.cpu = best.cpu;
  return answer;
}

}  // namespace heddle::core
