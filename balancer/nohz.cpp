#include "balancer/nohz.h"

namespace heddle::core {
namespace {

cpu_id lowest_idle(const balance_world& w, const cpu_set& among, cpu_id me) noexcept {
  for (cpu_id cpu : among)
    if (cpu != me && w.state.idle(cpu)) return cpu;
  return cpu_id::none;
}

// Waking a neighbour is cheaper and what it finds is near; the kernel took whichever CPU came first.
cpu_id helper(const balance_world& w, cpu_id me) noexcept {
  const std::span<const sched_domain> chain = w.domains.chain(me);
  if (chain.empty()) return cpu_id::none;
  if (w.set.ilb_pick == ilb_pick_t::lowest) return lowest_idle(w, chain.back().span(), me);
  for (const sched_domain& level : chain)
    if (const cpu_id cpu = lowest_idle(w, level.span(), me); valid(cpu)) return cpu;
  return cpu_id::none;
}

nohz_reason need(const balance_world& w, cpu_id me) noexcept {
  if (w.state.row(me).nr.load(relaxed) >= 2) return nohz_reason::overloaded;
  if (w.state.row(me).misfit_load.load(relaxed) > 0) return nohz_reason::misfit;
  if (w.state.llc_of(me).nr_busy.load(relaxed) > 1) return nohz_reason::llc_busy;
  return nohz_reason::no_need;
}

}  // namespace

std::string_view to_string(nohz_reason reason) noexcept {
  constexpr std::array names = {
#define X(name, meaning) std::string_view{#name},
      HEDDLE_NOHZ_REASONS(X)
#undef X
  };
  return names[static_cast<size_t>(reason)];
}

nohz_kick nohz_choose(const balance_world& w, cpu_id me, nanos now) noexcept {
  if (!w.set.ilb) return {.reason = nohz_reason::switched_off};
  const bool age = w.set.blocked_decay == blocked_decay_t::ilb && w.shared.has_blocked.load(relaxed) &&
                   now.count() >= w.shared.nohz_age_ns.load(relaxed);
  // The cheap questions first: nearly every tick ends here.
  if (!age && now.count() < w.shared.nohz_next_ns.load(relaxed)) return {.reason = nohz_reason::not_due};
  const nohz_reason why = age ? nohz_reason::age_blocked : need(w, me);
  if (why == nohz_reason::no_need) return {.reason = why};
  const cpu_id who = helper(w, me);
  if (!valid(who)) return {.reason = nohz_reason::nobody_idle};
  return {.who = who, .reason = why};
}

cpu_id nohz_walk::next(const balance_world& w) noexcept {
  const size_t count = w.machine.cpu_count();
  while (step_ < count) {
    const cpu_id cpu = to_cpu((index_of(me_) + ++step_) % count);
    if (cpu == me_ || w.state.idle(cpu)) return cpu;
  }
  return cpu_id::none;
}

}  // namespace heddle::core
