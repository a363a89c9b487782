// A queued fiber, shown to the policy that decides what a victim gives away (balancer/detach.h).
#pragma once

#include "balancer/detach.h"
#include "balancer/util_est.h"
#include "runtime/sched/run_queue.h"

namespace heddle::core {

inline candidate as_candidate(const settings& rule, const worker& from, fiber_record& f) noexcept {
  return {.load = f.load.load_avg,
          .util = believed_util(rule, f.load.util_avg, f.wake.util_est),
          .last_ran = nanos{f.last_ran_ns.load(relaxed)},
          .allowed = f.allowed,
          .pinned = !may_leave(f),
          .idle_class = (f.flags & ff_idle_class) != 0,
          .buddy = from.slot.load(relaxed) == &f};
}

inline offer offered(const settings& rule, const worker& from, detach_pass& pass, waitable& f) noexcept {
  // The victim has its turn: whoever asks comes again for the rest.
  if (pass.pause_due()) return offer::stop;
  const detach_reason r = pass.consider(as_candidate(rule, from, *as_fiber(&f)));
  if (detach_pass::over(r)) return offer::stop;
  return r == detach_reason::take ? offer::take : offer::keep;
}

}  // namespace heddle::core
