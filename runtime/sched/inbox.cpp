#include "runtime/sched/inbox.h"

#include "runtime/base/mutants.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {

void push_inbox(worker& to, waitable* first, waitable* last) noexcept {
  to.home->charge(chore::queue, to.cpu);
  to.row->pending.store(1, relaxed);  // board B2: before the push, so that it cannot stay set behind an emptied inbox
  const cpu_state seen_early = is_planted(mutant::state_before_push) ? to.state.load(seq_cst) : cpu_state::running;
  waitable* old = to.inbox.load(relaxed);
  do last->next = old;
  while (!to.inbox.compare_exchange_weak(old, first, seq_cst, relaxed));
  cpu_state seen = is_planted(mutant::state_before_push) ? seen_early : to.state.load(seq_cst);  // I1
  if (seen == cpu_state::parked) {
    // One unparker per sleep: the others see `polling` and may rely on it.
    if (to.state.compare_exchange_strong(seen, cpu_state::polling, seq_cst)) to.home->unpark(to);
  } else if (seen == cpu_state::running && old == nullptr) {
    to.on.load(acquire)->attention.fetch_or(att_inbox, seq_cst);
    if (__builtin_expect(to.home->preempts, 0)) to.home->on->interrupt(to.cpu);
  } else if (to.home->simulated) {
    to.home->on->look(to.cpu);
  }
}

void send(worker& to, waitable* oldest_first) noexcept {
  waitable* newest = nullptr;
  waitable* oldest = oldest_first;
  while (oldest_first) {
    waitable* next = oldest_first->next;
    oldest_first->next = newest;
    newest = oldest_first;
    oldest_first = next;
  }
  if (newest) push_inbox(to, newest, oldest);
}

uint32_t accept_inbox(worker& w) noexcept {
  waitable* newest = w.inbox.exchange(nullptr, seq_cst);  // I2
  w.row->pending.store(0, relaxed);
  waitable* oldest = nullptr;
  while (newest) {
    waitable* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  uint32_t accepted = 0;
  if (oldest && w.row->idle_since.load(relaxed) != 0)
    w.marks->accepts_wakeup(*w.home->rules.load(acquire), w.home->on->now());
  while (oldest) {
    waitable* next = oldest->next;
    if (oldest->flags & ff_message) {
      auto* message = static_cast<timer_message*>(oldest);
      for (const timer& t : message->timers)
        if (!t.stale()) w.timers.arm(nanos{t.at}, *t.fiber, t.epoch);
      w.next_timer.store(w.timers.first(), relaxed);
      delete message;
    } else {
      attach_load(w, *as_fiber(oldest));
      push_tail(w, oldest);
      accepted++;
    }
    oldest = next;
  }
  w.count.add(counter::inbox_taken, accepted);
  return accepted;
}

}  // namespace heddle::core
