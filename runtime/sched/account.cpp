// Accounting (design 2b rule 7): who is charged for the time that passed, and what that makes of load averages. The policy is
// balancer/account.h; here is when the clock is read and where the shares go.
//
// A1 A window is the carrier's: its segments since last_tick. It is closed at the tick, and around idling, whose time belongs to
//    nobody.
// A2 A share is only added to the fiber's `unaccounted_ns`. Its load average is brought up to date by whoever wants to read it
//    (settle), so a switch costs no average.
// A3 A cpu's average needs no list of members: it is the average of what was runnable here. Blocked members decay within it; what
//    leaves by migration is taken off through `gone`, what arrives is attached.
#include "balancer/util_est.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/wait.h"

namespace heddle::core {
namespace {

void publish(worker& w) noexcept {
  const auto narrow = [](uint64_t v) { return static_cast<uint32_t>(std::min<uint64_t>(v, UINT32_MAX)); };
  w.row->load_avg.store(narrow(w.load.avg.load_avg), relaxed);
  w.row->runnable_avg.store(narrow(w.load.avg.runnable_avg), relaxed);
  w.row->util_avg.store(narrow(w.load.avg.util_avg), relaxed);
  // What sleeps here does not count in it: it is not kept fiber by fiber, but an idle cpu has nothing else (2.7, INV-P9).
  w.row->runnable_load.store(w.row->nr.load(relaxed) != 0 ? narrow(w.load.avg.load_avg) : 0, relaxed);
  w.row->load_stamp.store(w.load.avg.last.count(), relaxed);
}

}  // namespace

// The time up to `now` goes to the window's segments; with_running: the fiber that runs has one too, so far.
void scheduler::close_window(carrier& c, worker& w, int64_t now, bool with_running) noexcept {
  const settings& rule = *rules.load(acquire);
  const int64_t elapsed = std::max<int64_t>(0, now - c.last_tick.load(relaxed));
  c.last_tick.store(now, relaxed);
  w.count.add(counter::switches, c.segments);
  if (with_running && c.segments < window_segments) c.window[c.segments++] = c.running();
  const uint32_t segments = std::min(c.segments, window_segments);
  c.segments = 0;
  if (rule.accounting == accounting_t::off || segments == 0) return;

  const bool lone_suspect = segments == 1 && (c.window[0]->account.load(relaxed) & af_suspect);
  const window_verdict v = c.account->close(segments, nanos{elapsed}, lone_suspect);
  const int64_t each = (v.each + v.extra).count();
  const auto flags = static_cast<uint16_t>((v.suspects ? af_suspect : 0) | (each > rule.defer_max_ns ? af_long : 0));
  for (uint32_t i = 0; i < segments; i++) {
    fiber_record& f = *c.window[i];
    bump(f.unaccounted_ns, each);
    f.last_ran_ns.store(now, relaxed);
    if (f.account.load(relaxed) != flags) f.account.store(flags, relaxed);
  }
  w.count.add(counter::run_ns, static_cast<uint64_t>(elapsed));
  const uint32_t nr = w.row->nr.load(relaxed);
  w.load.nr = nr;
  const int64_t weight = std::max<int64_t>(0, int64_t{nr} * pelt::nice_0_weight + w.order.extra_weight);
  w.load.weight_sum = static_cast<uint64_t>(weight);
  if (pelt::update(w.load, w.gone, nanos{now}, pelt::full_scale, static_cast<int>(rule.pelt_shift))) publish(w);
  if (nr == 0) w.row->runnable_load.store(0, relaxed);
}

// Idling ended at `now`: that time was nobody's.
void scheduler::skip_idle_time(carrier& c, worker& w, int64_t now) noexcept {
  const settings& rule = *rules.load(acquire);
  c.segments = 0;
  c.last_tick.store(now, relaxed);
  w.watched_until = now;
  if (rule.accounting == accounting_t::off) return;
  w.load.nr = w.load.weight_sum = 0;
  if (pelt::update(w.load, w.gone, nanos{now}, 0, static_cast<int>(rule.pelt_shift))) publish(w);
}

// A2. The fiber is in our hands: claimed, running here, or in our queue.
// `woken`: its wait has just ended.
void scheduler::settle(fiber_record& f, nanos now, bool woken) noexcept {
  const settings& rule = *rules.load(acquire);
  const int shift = static_cast<int>(rule.pelt_shift);
  const nanos ran{f.unaccounted_ns.exchange(0, relaxed)};
  const nanos since{f.wait_since.load(relaxed)};
  if (f.load.last == nanos{0}) {  // its first time: assumed heavy (policy-reference 2.5)
    const board_row& row = *worker_of(to_cpu(static_cast<size_t>(f.cpu))).row;
    pelt::queue first, in_phase;
    first.avg.util_avg = row.util_avg.load(relaxed);
    first.avg.load_avg = row.load_avg.load(relaxed);
    in_phase.avg.last = (woken ? std::min(since, now) : now) - ran;
    pelt::start(f.load, (f.flags & ff_special) != 0 ? f.fair.weight : pelt::nice_0_weight, first);
    pelt::attach(in_phase, f.load, false, shift);  // for the sums that belong to these averages
  }
  if (f.load.last == pelt::detached) f.load.last = now;
  const uint64_t word = f.wait_state.load(relaxed);
  const bool waited = phase_of(word) == wait_phase::waiting || phase_of(word) == wait_phase::notified;
  nanos until = waited && since > f.load.last && since < now ? since : now;
  // The wait's stamp may be a tick early, from before it was last woken. It ran for so long at least.
  if (woken) until = std::min(now, std::max(since, f.load.last + ran));
  pelt::update_window(f.load, f.load.last, until, ran, shift);
  if (woken) f.wake.util_est = next_util_est(f.wake.util_est, f.load.util_avg);
  if (until < now) pelt::update(f.load, now, pelt::blocked, shift);
}

// What a parked cpu says of its load, as of now (policy-reference 2.6). On the board only: it may be waking up, and its averages are
// its own. False: nothing is left to age.
bool scheduler::age_parked(worker& w, nanos now) noexcept {
  board_row& row = *w.row;
  const int shift = static_cast<int>(rules.load(acquire)->pelt_shift);
  const nanos stamp{row.load_stamp.load(relaxed)};
  uint32_t left = 0;
  for (atomic<uint32_t>* average : {&row.load_avg, &row.runnable_avg, &row.util_avg}) {
    const auto aged = static_cast<uint32_t>(pelt::aged(average->load(relaxed), stamp, now, shift));
    average->store(aged, relaxed);
    left |= aged;
  }
  row.load_stamp.store(now.count(), relaxed);
  return left != 0;
}

// A fiber leaves `from` for another cpu: A3.
void scheduler::leave_load(worker& from, fiber_record& f, nanos now) noexcept {
  if (f.load.last == pelt::detached || f.load.last == nanos{0}) return;
  pelt::leave_blocked(f.load, from.gone, nanos{from.row->load_stamp.load(relaxed)}, now,
                      static_cast<int>(rules.load(acquire)->pelt_shift));
}

void attach_load(worker& w, fiber_record& f) noexcept {
  if (f.load.last != pelt::detached) return;
  const settings& rule = *w.home->rules.load(acquire);
  pelt::attach(w.load, f.load, rule.attach_age_load, static_cast<int>(rule.pelt_shift));
}

}  // namespace heddle::core
