// A carrier's life: run what is ready; idle, poll, park; and again. The loop is the carrier's idle fiber.
//
// Parking (proof in README.md): announce (seq_cst), state = parked (seq_cst), barrier, look again at every source of work (the port too),
// sleep. Enqueuers look at the announcement after a plain enqueue: the barrier makes that a Dekker pair.
#include <cxxabi.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/fiber/overflow.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/io_port.h"
#include "runtime/sched/suspend.h"

namespace heddle::core {
namespace {

// Clock reads cost 10-22 ns, a pause 13-40: one read in 16 rounds keeps polling responsive and cheap.
constexpr int rounds_per_clock = 16;
// Right after going idle the inbox is looked at without any clock: most answers come within a line transfer or two.
constexpr int eager_rounds = 100;
constexpr int64_t spin_budget_min_ns = 2'000;

}  // namespace

void scheduler::carrier_main(cpu_id cpu) {
  carrier& c = *carriers[index_of(cpu)];
  std::optional<signal_stack> for_overflows;
  if (!on->is_virtual()) for_overflows.emplace();  // virtual cpus share their driver's
  c.current.store(&c.idle, relaxed);               // before anyone may ask the carrier who runs on it
  set_this_carrier(&c);
  c.exceptions = reinterpret_cast<exception_globals*>(abi::__cxa_get_globals());
  c.err = &errno;
  c.idle.flags |= ff_shielded;
  adopt_thread(c.idle, on->stack_of(cpu));
  c.last_tick.store(on->now().count(), relaxed);
  while (stopping.load(acquire) == 0) {
    worker& w = enter(c, op::idle);
    // I2: the exchange is the fence between state = running and the look.
    accept_inbox(w);
    // Before the timers: what has completed in time is not told that it came too late.
    if (io_port* port = c.port.load(relaxed)) port->serve(c);
    if (w.timers.first() != never.count()) fire_timers(w, on->now());
    waitable* n = pop(w, c.idle, false);
    if (!n) n = pop_idle_class(w);
    if (n) {
      maybe_chain(*this, w);
      detail::switch_target t = commit(c, w, c.idle, *n);
      if (t.from) detail::switch_to(t);
      continue;
    }
    leave(c);
    idle(c, w);
  }
  set_this_carrier(nullptr);
}

// Returns when there may be work; state is running again and the announcement withdrawn.
void scheduler::idle(carrier& c, worker& w) {
  const settings& rule = *rules.load(acquire);
  idle_set& near = idle_set_of(w);
  const bool guest = w.guest.load(relaxed) != 0;
  if (guest) w.guest.store(0, relaxed);
  const bool poll = rule.idle != idle_t::park && !guest;
  io_port* const port = c.port.load(relaxed);
  if (rule.idle != idle_t::adaptive) w.spin_budget_ns = rule.spin_ns;
  int64_t now = on->now().count();
  close_window(c, w, now, false);
  const auto back = [&](bool announced, bool searcher) {
    skip_idle_time(c, w, now);
    if (searcher) near.searching.store(0, release);
    w.state.store(cpu_state::running, relaxed);  // I2: the loop exchanges the inbox next
    w.row->state.store(cpu_state::running, relaxed);
    if (announced) {
      near.withdraw(w.hood_position);
      w.marks->works(rule, nanos{now});
      charge_marks(w);
    }
  };
  const auto announce = [&] {
    near.announce(w.hood_position);
    w.row->state.store(cpu_state::polling, relaxed);
    w.marks->idles(rule);
    charge_marks(w);
  };

  w.row->state.store(cpu_state::searching, relaxed);
  w.state.store(cpu_state::polling, relaxed);  // a late sight of it costs the pusher one needless attention bit
  if (poll && !on->is_virtual())
    for (int i = 0; i < eager_rounds; i++) {
      if (w.inbox.load(relaxed) || (port && port->stirs())) {
        now = on->now().count();
        return back(false, false);
      }
      if (i % 8 == 0 && steal_task(c, w, false)) {
        now = on->now().count();
        return back(false, false);
      }
      on->relax();
    }

  const int64_t began = now = on->now().count();
  w.marks->out_of_work(nanos{now});
  bool announced = false, searcher = false, found = false;
  for (int i = 1; poll; i++) {
    if (w.inbox.load(relaxed) || stopping.load(relaxed) || (port && port->stirs())) {
      found = true;
      break;
    }
    if (i % rounds_per_clock == 0 || on->is_virtual()) {
      now = on->now().count();
      if (w.next_timer.load(relaxed) <= now || steal_task(c, w, false)) {
        found = true;
        break;
      }
      if (now - began > rule.announce_ns) {
        if (!announced) {
          // Policy first, while this cpu still attracts nobody.
          if (newidle(w)) {
            found = true;
            break;
          }
          announce();
          announced = true;
        }
        // Then whoever has something, unless policy is to have its say for a while.
        if (!rule.wake_chain) {
          if (w.insists.exchange(false, relaxed))
            balance_for_parked(w);
          else
            balance_idle(w);
        }
        const bool late = !rule.newidle || w.insists.load(relaxed) || now - began > w.spin_budget_ns / 2;
        if (late && !searcher && near.searching.load(relaxed) == 0) {
          uint32_t nobody = 0;
          searcher = near.searching.compare_exchange_strong(nobody, 1, acquire, relaxed);
        }
        if (searcher && search(c, w)) {
          found = true;
          break;
        }
      }
      if (rule.idle != idle_t::poll && now - began > w.spin_budget_ns) break;
    }
    int64_t next = w.next_timer.load(relaxed);
    if (!announced) next = std::min(next, began + rule.announce_ns + 1);
    if (!searcher && now - began <= w.spin_budget_ns / 2) next = std::min(next, began + w.spin_budget_ns / 2 + 1);
    if (rule.idle != idle_t::poll) next = std::min(next, began + w.spin_budget_ns + 1);
    on->poll(nanos{next});
  }
  w.count.add(counter::idle_spin_ns, static_cast<uint64_t>(now - began));
  if (found) {
    w.count.add(counter::polls_won);
    // Polling paid: the full budget next time.
    if (rule.idle == idle_t::adaptive) w.spin_budget_ns = rule.spin_ns;
    return back(announced, searcher);
  }
  if (searcher) near.searching.store(0, release);

  // Again, even so: the push of whoever withdrew it may have been taken over by a rescuer meanwhile.
  announced ? near.announce(w.hood_position) : announce();
  const bool fenced = !is_planted(mutant::relaxed_announcement);
  w.state.store(cpu_state::parked, fenced ? seq_cst : relaxed);
  close_gates(w);
  // The heavy side: enqueuers' plain stores before their look at the announcement. A worker alone has no such others.
  if (fenced && !w.victims.empty()) on->barrier(cpu_id::none);
  const bool insist = !is_planted(mutant::no_second_look) && (work_in_sight(w) || (port && port->stirs()));
  if (insist || rule.wake_chain) w.insists.store(insist, relaxed);
  if (insist) steal_task(c, w, true);  // a worker that does not poll has no other time to
  if (!insist) {
    w.count.add(counter::parks);
    w.row->state.store(cpu_state::parked, relaxed);
    w.marks->parks(rule);
    if (rule.blocked_decay == blocked_decay_t::ilb) balancing->has_blocked.store(true, relaxed);
    const int64_t asleep = on->now().count();
    if (port && port->awaits())
      on->park_in(w.cpu, nanos{w.next_timer.load(relaxed)}, *port);
    else
      on->park(w.cpu, nanos{w.next_timer.load(relaxed)});
    w.state.store(cpu_state::polling, seq_cst);
    if (monitor_sleeps.load(seq_cst)) on->poke();  // M1
    now = on->now().count();
    const int64_t slept = now - asleep;
    w.count.add(counter::idle_park_ns, static_cast<uint64_t>(slept));
    // A short sleep should have been polled through; a long one made the polling a waste.
    if (rule.idle == idle_t::adaptive)
      w.spin_budget_ns = slept <= rule.spin_ns ? rule.spin_ns : std::max(spin_budget_min_ns, w.spin_budget_ns / 2);
  }
  back(true, false);
}

// The second look, after the announcement: own inbox, and what others could give.
bool scheduler::work_in_sight(worker& w) noexcept {
  if (w.inbox.load(seq_cst) || stopping.load(seq_cst)) return true;
  if (!rules.load(acquire)->wake_chain) return false;
  for (cpu_id cpu : w.victims) {
    worker& v = worker_of(cpu);
    if (v.row->movable.load(relaxed) > 0 && v.state.load(relaxed) == cpu_state::running) return true;
    if (const task_deque* d = v.tasks.load(acquire); d && has_tasks(*d)) return true;
  }
  return false;
}

}  // namespace heddle::core
