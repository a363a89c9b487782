#include "affinity/wake.h"

#include <algorithm>

#include "affinity/idle_search.h"
#include "affinity/slow_path.h"
#include "affinity/wake_affine.h"
#include "affinity/wake_wide.h"

namespace heddle::core {
namespace {

cpu_id only_cpu(const cpu_set* allowed) noexcept {
  if (allowed == nullptr) return cpu_id::none;
  const cpu_id lowest = allowed->lowest();
  return valid(allowed->next(to_cpu(index_of(lowest) + 1))) ? cpu_id::none : lowest;
}

// 4.8 to 5.6, unequal CPUs: the wakee might not fit the smaller of the two, so do not even compare them.
bool cap_forbids(const policy_view& v, cpu_id here, const wakeup& w) noexcept {
  if (!v.set.wake_cap || !v.board.asymmetric()) return false;
  const int64_t low = std::min(v.machine.at(here).capacity, v.machine.at(w.prev).capacity);
  const int64_t high = v.board.capacity_max();
  return high - low >= high / 8 && !fits(w.load.util, low);
}

// The smallest level of `here` that knows prev too and lets wake-ups cross.
const sched_domain* common_domain(const policy_view& v, cpu_id here, cpu_id prev) noexcept {
  for (const sched_domain& domain : v.domains.chain(here))
    if (domain.has(df_wake_affine) && domain.span().has(prev)) return &domain;
  return nullptr;
}

slow_answer slowly(const policy_view& v, const wakeup& w, cpu_id here, const sched_domain* top) noexcept {
  if (top == nullptr) return {};
  return find_idlest(v, *top, {.from = here, .prev = w.prev, .load = w.load, .allowed = w.allowed, .now = w.now});
}

bool slow_at_once(const settings& set, bool wide) noexcept {
  return set.balance_wake == balance_wake_t::always || (set.balance_wake == balance_wake_t::when_wide && wide);
}

void search(const policy_view& v, const wakeup& w, cpu_id target, placement& p) noexcept {
  const search_answer answer = select_idle_sibling(v, w, target);
  p.cpu = answer.cpu;
  p.reason = answer.reason;
  p.probes += answer.probes;
}

// The slow path's answer, if it has one.
bool place_slowly(const policy_view& v, const wakeup& w, cpu_id here, const sched_domain* top, placement& p) noexcept {
  const slow_answer answer = slowly(v, w, here, top);
  p.slow = true;
  p.probes += answer.probes;
  if (!valid(answer.cpu)) return false;
  p.cpu = answer.cpu;
  p.reason = wake_reason::wake_slow;
  return true;
}

placement place(const policy_view& v, const wakeup& w) noexcept {
  placement p;
  const cpu_id here = valid(w.waker) ? w.waker : w.prev;
  const bool sync = w.sync && !w.waker_exiting && v.set.wa_sync;
  p.wide = wake_wide(v.set, w.waker_memory, w.memory, v.board.llc_size(v.machine.at(here).llc));

  if (p.wide && wide_looks_beyond(v.set, *w.waker_memory, *w.memory)) {
    placement beyond = p;
    // Only an idle CPU is worth leaving the LLC for.
    if (place_slowly(v, w, here, widest_with(v, here, df_wake_affine), beyond) && v.board.idle(beyond.cpu)) {
      beyond.reason = wake_reason::wake_wide;
      return beyond;
    }
    p.slow = true;
    p.probes = beyond.probes;
  }
  if (slow_at_once(v.set, p.wide) && place_slowly(v, w, here, widest_for_wake(v, here), p)) return p;

  const bool want_affine = v.set.wake_affine && !p.wide && allowed_on(w.allowed, here) && !cap_forbids(v, here, w);
  cpu_id target = w.prev;
  if (want_affine && here != w.prev) {
    if (const sched_domain* domain = common_domain(v, here, w.prev)) {
      const affine_answer affine = wake_affine(v, *domain, w, here, sync);
      target = affine.cpu;
      p.affine = affine.reason;
      p.burst = affine.burst;
      // Not one idle CPU in either LLC: whatever the search would find is not there.
      if (affine.llcs_full) {
        p.cpu = target;
        p.reason = wake_reason::wake_full;
        return p;
      }
    }
  }
  // Until 5.12 the field meant: where this fiber, as a waker, last pulled somebody to.
  if (want_affine && v.set.sis == sis_t::v49 && w.waker_memory != nullptr) w.waker_memory->recent = here;

  search(v, w, target, p);
  if (v.set.balance_wake == balance_wake_t::after_miss && !free_for(v, w, p.cpu))
    place_slowly(v, w, here, widest_for_wake(v, here), p);
  return p;
}

}  // namespace

placement place_wakeup(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                       const wakeup& w) noexcept {
  const policy_view v{machine, domains, state, set};
  if (w.waker_memory != nullptr) record_wakee(set, *w.waker_memory, w.wakee, w.now);
  if (const cpu_id only = only_cpu(w.allowed); valid(only)) return {only, wake_reason::pinned};
  if (allowed_on(w.allowed, w.prev)) return place(v, w);
  // Its affinity changed while it slept.
  wakeup moved = w;
  moved.prev = nearest_allowed(v, w.prev, *w.allowed);
  return place(v, moved);
}

placement search_again(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                       const wakeup& w, const placement& lost) noexcept {
  const policy_view v{machine, domains, state, set};
  placement p = lost;
  // Without memory: the first search has moved it on already.
  wakeup again = w;
  again.memory = nullptr;
  if (!allowed_on(w.allowed, w.prev)) again.prev = lost.cpu;
  search(v, again, lost.cpu, p);
  return p;
}

}  // namespace heddle::core
