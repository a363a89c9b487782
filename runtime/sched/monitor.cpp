// The one unpinned thread: ticks every rescue_ns/2 while somebody runs, and takes over what waits behind a worker that stood
// still since the last tick. When nothing runs its naps grow, and the first that leaves its park ends them.
//
// M1 Before a long nap the monitor says so (seq_cst) and looks again whether all are parked. Whoever ends a park, by an unpark or
//    because a timer is due, changes the state (seq_cst) and then looks whether the monitor sleeps: one of the two sees the other.
#include "runtime/sched/inbox.h"
#include "runtime/sched/io_port.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {
namespace {

constexpr nanos nap_max{500'000'000};

uint64_t progress_of(const worker& v) noexcept {
  const carrier* c = v.on.load(acquire);
  return static_cast<uint64_t>(c->last_tick.load(relaxed)) * 67 + static_cast<uint32_t>(c->countdown.load(relaxed));
}

}  // namespace

void scheduler::monitor_main() {
  std::vector<uint64_t> last(workers.size());
  std::vector<char> moved(workers.size());
  std::vector<char> waited(workers.size());  // its inbox held something at the last tick already
  nanos nap{rules.load(acquire)->rescue_ns / 2};
  while (stopping.load(acquire) == 0) {
    const settings& rule = *rules.load(acquire);
    const nanos shortest{rule.rescue_ns / 2};
    if (nap > shortest) {
      monitor_sleeps.store(1, seq_cst);
      for (const auto& w : workers)
        if (w->state.load(seq_cst) != cpu_state::parked) nap = shortest;
    }
    on->nap(nap);
    monitor_sleeps.store(0, relaxed);
    if (stopping.load(acquire)) break;

    bool any = false;
    for (size_t i = 0; i < workers.size(); i++) {
      worker& v = *workers[i];
      const uint64_t p = progress_of(v);
      moved[i] = p != last[i];
      last[i] = p;
      any = any || moved[i] || v.state.load(relaxed) != cpu_state::parked || v.inbox.load(relaxed);
    }
    nap = any ? shortest : std::min(nap * 2, nap_max);
    // Fibers that compute for long between two operations leave the countdown with too much to count: timers would wait for its end.
    const int64_t now = on->now().count();
    for (const auto& w : workers)
      if (carrier& c = *w->on.load(acquire); w->state.load(relaxed) == cpu_state::running &&
                                             now - c.last_tick.load(relaxed) > shortest.count() &&
                                             !(c.attention.load(relaxed) & att_tick))
        c.attention.fetch_or(att_tick, seq_cst);
    if (rule.stall_rescue)
      for (size_t i = 0; i < workers.size(); i++)
        // One that was parked until a moment ago is on its way to a new wake-up: that is no standing still.
        if (!moved[i] && (workers[i]->state.load(relaxed) == cpu_state::running || waited[i]))
          rescue(*workers[i], moved);
    for (size_t i = 0; i < workers.size(); i++) waited[i] = workers[i]->inbox.load(relaxed) != nullptr;
  }
}

// A worker that stood still: stuck in a fiber, unparked but without its cpu, or simply idle.
void scheduler::rescue(worker& v, const std::vector<char>& moved) {
  const bool has_inbox = v.inbox.load(relaxed) != nullptr;
  if (v.state.load(relaxed) != cpu_state::running && !has_inbox) return;
  const int64_t now = on->now().count();
  const bool ready =
      v.row->movable.load(relaxed) > 0 || (v.slot.load(relaxed) && v.slot_movable.load(relaxed)) || has_inbox;
  io_port* const port = v.on.load(acquire)->port.load(acquire);
  if (!ready && v.next_timer.load(relaxed) > now && !(port && port->stirs())) return;

  cpu_id to = idle_set_of(v).find(v.cpu, [](cpu_id) { return true; });
  for (cpu_id x : v.victims) {
    if (valid(to)) break;
    if (moved[index_of(x)] || worker_of(x).state.load(relaxed) != cpu_state::running) to = x;
  }
  if (!valid(to)) return;
  carrier* c = claim_worker(*on, v);
  if (!c) return;
  uint32_t taken = 0;
  timer_message* moving = nullptr;
  waitable* list = strip(v, UINT32_MAX, true, taken, moving);
  // Only from inside a fiber: an idle owner may sleep in its port, and whoever reaped what was to wake it would put it back to sleep.
  waitable* woken = port && c->running() != &c->idle ? port->take_over() : nullptr;
  unclaim(*c);
  while (woken) {
    waitable* f = woken;
    woken = f->next;
    push_inbox(may_leave(*f) ? worker_of(to) : worker_of(to_cpu(static_cast<size_t>(as_fiber(f)->pin))), f);
  }
  if (list) {
    rescues.fetch_add(1, relaxed);
    send(worker_of(to), list);
  }
  if (moving) push_inbox(worker_of(to), moving);
}

}  // namespace heddle::core
