// Housekeeping, every refill-th operation: the refill adapts so that looks stay about 10 us apart whatever the fibers cost.
#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/io_port.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/suspend.h"
#include "runtime/sched/wait.h"
#include "runtime/sched/waiting.h"

namespace heddle::core {

void slow_enter(carrier& c, op kind) {
  scheduler& s = *c.home;
  bool looked_early = false;
  if (c.attention.load(relaxed) & att_virtual) {
    leave(c);
    s.on->point(kind);  // may run any other virtual cpu
    looked_early = is_planted(mutant::look_before_inside) && !(c.attention.load(acquire) & att_claim);
    set_inside(c);
  }
  if (!looked_early && c.attention.load(acquire) & (att_claim | att_fence)) wait_out_claim(*s.on, c);
#if defined(HEDDLE_INTERLEAVE)
  HEDDLE_ASSERT(!c.taken_over);
#endif
  worker* w = c.runs.load(relaxed);
  const uint32_t seen = c.attention.load(relaxed);
  if (seen & att_inbox) {
    c.attention.fetch_and(~att_inbox, seq_cst);
    accept_inbox_if_any(*w);
  }
  if (seen & att_request) {
    c.attention.fetch_and(~att_request, seq_cst);
    s.answer_request(*w);
    s.answer_pull(*w);
  }
  const bool due = c.countdown.load(relaxed) < 0 || (seen & att_tick);
  if (seen & att_tick) c.attention.fetch_and(~att_tick, seq_cst);
  if (seen & att_io) c.attention.fetch_and(~att_io, seq_cst);
  if (due) s.tick(c, *w);
  if (due || (seen & att_io))
    if (io_port* port = c.port.load(relaxed)) port->serve(c);  // opens the bracket for its system call
}

namespace {

// With slot_inherit a pair that hands the slot to and fro shares one slice (9.3): then the list has its turn.
void share_slice(worker& w, const settings& rule, int64_t since) noexcept {
  if (!rule.slot_inherit || w.head == nullptr || w.slot_streak == 0) {
    w.order.slot_ns = 0;
    return;
  }
  w.order.slot_ns += since;
  if (w.order.slot_ns < rule.base_slice_ns) return;
  w.order.slot_ns = 0;
  w.slot_streak = w.lifo_max;
}

// How long the fiber here has not given up its cpu: should_yield() asks.
void note_stay(worker& w, const settings& rule, bool switched) noexcept {
  w.order.stayed_ns = switched ? 0 : w.order.stayed_ns + rule.tick_ns;
}

}  // namespace

void scheduler::tick(carrier& c, worker& w) {
  const settings& rule = *rules.load(acquire);
  const int64_t now = on->now().count();
  const int64_t since = now - c.last_tick.load(relaxed);
  close_window(c, w, now, true);
  if (since > 2 * rule.tick_ns)
    c.refill = static_cast<int32_t>(std::max<int64_t>(1, c.refill * rule.tick_ns / since));
  else if (since < rule.tick_ns)
    c.refill = c.refill * 2;
  // The inbox has its turn at least every fair_interval operations (9.4).
  c.refill = static_cast<int32_t>(std::min<int64_t>({c.refill, window_segments - 1, rule.fair_interval}));
  const auto window = rule.accounting == accounting_t::off ? c.refill : static_cast<int32_t>(c.account->window()) - 1;
  c.countdown.store(std::min(c.refill, window), relaxed);
  w.count.add(counter::ticks);
  accept_inbox_if_any(w);
  fire_timers(w, nanos{now});
  share_slice(w, rule, since);
  if (now >= w.next_housekeeping) {
    w.next_housekeeping = now + rule.tick_ns;
    housekeep(w, now);
  }
}

// The kernel's tick: at most once per tick_ns, since a window of quick switches ends every half microsecond.
[[gnu::noinline]] void scheduler::housekeep(worker& w, int64_t now) noexcept {
  const settings& rule = *rules.load(acquire);
  charge(chore::tick, w.cpu);
  copy_settings(w, rule);
  count_waiting(*this, w, now);
  w.marks->tick(rule);
  charge_marks(w);
  // No switch for a whole tick: the fiber here operates, but gives its cpu to nobody. To thieves and monitor that is progress, so
  // we offer what waits, the wakee in the slot included.
  const uint64_t switches = w.count.get(counter::switches);
  if (w.ordered)
    tick_order(w);
  else
    note_stay(w, rule, switches != w.switches_seen);
  if (switches == w.switches_seen) slot_to_list(w, true);
  w.switches_seen = switches;
  // A carrier that comes from idling gives nothing away before it has picked: what woke it would be handed on, by the next one
  // too, and never run.
  if (const carrier& c = *w.on.load(relaxed); c.running() != &c.idle) {
    maybe_chain(*this, w);
    chain_far(w);
    honour_push(w);
  }
  balance(w, now);
  kick_idle(w, now);
}

void scheduler::charge_marks(worker& w) noexcept {
  const uint64_t writes = w.marks->shared_writes();
  if (writes != w.marks_charged) charge(chore::marks, w.cpu, writes - w.marks_charged);
  w.marks_charged = writes;
}

void scheduler::fire_timers(worker& w, nanos now) noexcept {
  if (w.timers.first() > now.count()) return;
  while (w.timers.first() <= now.count()) {
    const timer t = w.timers.pop();
    if (!claim_epoch(*t.fiber, t.epoch, wait_phase::timed_out)) continue;
    w.count.add(counter::timers_fired);
    if (t.fiber->pin >= 0 && to_cpu(static_cast<size_t>(t.fiber->pin)) != w.cpu)
      push_inbox(worker_of(to_cpu(static_cast<size_t>(t.fiber->pin))), t.fiber);
    else
      push_tail(w, t.fiber);
  }
  w.next_timer.store(w.timers.first(), relaxed);
}

}  // namespace heddle::core
