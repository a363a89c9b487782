// The mechanism of a wake-up: a claimed fiber becomes ready. Who woke is in sync/*.cpp and time; where it goes is decided in
// affinity/wake.cpp.
#include "affinity/wake.h"

#include "affinity/wake_wide.h"
#include "balancer/util_est.h"
#include "runtime/base/check.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/suspend.h"
#include "runtime/sched/threads.h"
#include "runtime/sched/waiting.h"

namespace heddle::core {

namespace {

// The wakee takes its place on its waker's own cpu. Before it is queued: the chain may give away half of what waited.
[[gnu::always_inline]] inline void queue_here(scheduler& s, worker& w, fiber_record& f) noexcept {
  maybe_chain(s, w);
  if (w.slot_on)
    push_slot(w, &f);
  else
    push_tail(w, &f);
}

cpu_id last_cpu(const fiber_record& f) noexcept { return to_cpu(static_cast<size_t>(f.cpu)); }

fiber_load load_of(const settings& rule, const fiber_record& f) noexcept {
  return {.weight = f.load.weight,
          .h_load = f.load.load_avg,
          .util = believed_util(rule, f.load.util_avg, f.wake.util_est)};
}

// It waits behind another fiber. Was there an idle cpu, and how far away? By the marks: a hint, as what was searched.
void count_miss(const board& said, worker& w, cpu_id chosen, const cpu_set* allowed) noexcept {
  const std::optional<reach> idle = nearest_idle(said, chosen, allowed);
  if (!idle) return;
  w.count.add(*idle <= reach::llc ? counter::wake_busy_idle_llc : counter::wake_busy_idle_machine);
}

// sync_hint: whether this waker counts as one that is about to block (3.1).
bool promises(const settings& rule, waker_intent intent) noexcept {
  return intent == (rule.sync_hint == sync_hint_t::structural ? waker_intent::leaves : waker_intent::writes);
}

}  // namespace

[[gnu::noinline]] void count_migration(worker& w, cpu_id from) noexcept {
  w.count.add(counter::migrations);
  count_reach(w.reasons.migrated, reach_of(w.home->cpus, from, w.cpu));
}

// The hot half: what may simply follow its waker (affinity/wake.h, defers(), with the worker's copies of the settings).
worker* scheduler::ready(carrier& c, worker& w, fiber_record& f, waker_intent intent) noexcept {
  if (__builtin_expect(f.home != this, 0)) {
    f.home->ready_from_outside(f);
    return nullptr;
  }
  fiber_record& waker = *c.running();
  const bool near =
      f.cpu == static_cast<int16_t>(w.cpu) ||
      (w.pulls && (w.all_near || cpus.distance(last_cpu(f), w.cpu) <= rules.load(relaxed)->numa_reclaim_distance));
  const bool stays = w.defer && near && !(f.flags & ff_restricted) && !(waker.account.load(relaxed) & af_long);
  if (__builtin_expect(!stays, 0)) return place_ready(c, w, f, intent);
  if (__builtin_expect(waker.wake.last_wakee != static_cast<uint32_t>(f.id), 0))
    record_wakee(*rules.load(relaxed), waker.wake, static_cast<uint32_t>(f.id), nanos{c.last_tick.load(relaxed)});
  w.reasons.add(wake_reason::deferred);
  queue_here(*this, w, f);
  return nullptr;
}

// The policy's half: where does it go, and is that cpu still free when we claim it?
[[gnu::noinline]] worker* scheduler::place_ready(carrier& c, worker& w, fiber_record& f, waker_intent intent) noexcept {
  fiber_record& waker = *c.running();
  if (f.pin >= 0) {  // no choice, nothing to weigh
    w.reasons.add(wake_reason::pinned);
    if (to_cpu(static_cast<size_t>(f.pin)) != w.cpu) {
      w.count.add(counter::wakes_remote);
      return &worker_of(to_cpu(static_cast<size_t>(f.pin)));
    }
    queue_here(*this, w, f);
    return nullptr;
  }
  const bool is_fiber = &waker != &c.idle;
  const settings& rule = *rules.load(relaxed);
  const nanos now = on->now();
  settle(f, now, true);
  if (is_fiber) settle(waker, now);
  const wakeup k{.prev = last_cpu(f),
                 .waker = w.cpu,
                 .sync = is_fiber && promises(rule, intent),
                 .idle_class = (f.flags & ff_idle_class) != 0,
                 .wakee = static_cast<uint32_t>(f.id),
                 .allowed = f.allowed,
                 .load = load_of(rule, f),
                 .waker_load = load_of(rule, waker),
                 .memory = &f.wake,
                 .waker_memory = is_fiber ? &waker.wake : nullptr,
                 .wake_avg_idle_ns = w.marks->wake_avg_idle_ns(*rules.load(relaxed), now),
                 .now = now};
  const placement p = place_claimed(k, w.reasons);
  if (p.reason == wake_reason::wake_miss) count_miss(said, w, p.cpu, f.allowed);
  if (pulls(p.affine) && p.cpu != k.prev) count_reach(w.reasons.pulled, reach_of(cpus, k.prev, p.cpu));
  if (idle_marks::wants_search_cost(*rules.load(relaxed))) w.marks->searched(on->now() - now);
  if (p.cpu == w.cpu) {
    queue_here(*this, w, f);
    return nullptr;
  }
  w.count.add(counter::wakes_remote);
  count_reach(w.reasons.woken, reach_of(cpus, w.cpu, p.cpu));
  if (p.cpu != k.prev) leave_load(worker_of(k.prev), f, now);
  return &worker_of(p.cpu);
}

// A placement, and the claim of the cpu if it idles: two wakers must not choose one idle cpu (policy-reference 0.1, F05).
placement scheduler::place_claimed(const wakeup& k, reason_counters& reasons) noexcept {
  const settings& rule = *rules.load(acquire);
  placement p = place_wakeup(cpus, domains, said, rule, k);
  if (p.cpu != k.waker && said.idle(p.cpu) && !said.claim(p.cpu)) {
    bump(reasons.lost_races, 1);
    p = search_again(cpus, domains, said, rule, k, p);
  }
  charge(chore::place, p.cpu, p.probes);
  reasons.add(p);
  return p;
}

// From a plain thread, or a carrier of another scheduler. Which cpu the thread runs on matters more than anything: a worker
// that sleeps there costs 2 us to wake, one elsewhere 25-50, and one that polls elsewhere 0.3.
worker* scheduler::place_outside(fiber_record& f) noexcept {
  if (f.flags & ff_restricted) return &worker_of(to_cpu(static_cast<size_t>(f.pin)));
  const cpu_id here = on->current_cpu();
  if (!valid(here)) return &worker_of(last_cpu(f));
  worker& local = worker_of(here);
  const cpu_id polls =
      idle_set_of(local).find(here, [&](cpu_id x) { return worker_of(x).state.load(relaxed) == cpu_state::polling; });
  if (valid(polls) && worker_of(polls).state.load(relaxed) == cpu_state::polling) return &worker_of(polls);
  if (worker_of(last_cpu(f)).state.load(relaxed) == cpu_state::polling) return &worker_of(last_cpu(f));
  local.guest.store(1, relaxed);
  return &local;
}

void scheduler::ready_from_outside(fiber_record& f) noexcept {
  visitors.fetch_add(1, relaxed);  // seen by whoever sees the push
  push_inbox(*place_outside(f), &f);
  visitors.fetch_sub(1, release);
}

// A new fiber from outside.
void scheduler::start_outside(fiber_record& f) noexcept {
  visitors.fetch_add(1, relaxed);
  f.cpu = static_cast<int16_t>(f.id / (workers.size() + 1) % workers.size());
  worker& to = *place_outside(f);
  f.cpu = static_cast<int16_t>(to.cpu);
  push_inbox(to, &f);
  visitors.fetch_sub(1, release);
}

void scheduler::unpark(worker& w) noexcept {
  on->unpark(w.cpu);
  if (monitor_sleeps.load(seq_cst)) on->poke();  // M1
}

// One push per announcement: whoever clears the target's bit pushes, and the target announces again when it idles again.
[[gnu::noinline]] void scheduler::chain(worker& w) noexcept {
  if (!w.chains) return;
  idle_set& near = idle_set_of(w);
  const cpu_id to = near.find(w.cpu, [&](cpu_id x) { return worker_of(x).state.load(relaxed) == cpu_state::polling; });
  if (!valid(to) || !near.withdraw(worker_of(to).hood_position)) return;
  uint32_t taken = 0;
  const uint32_t half = (w.row->movable.load(relaxed) + 1) / 2;
  waitable* list = core::detach(w, half, false, taken, if_movable);
  if (!list) return;
  w.count.add(counter::chained);
  w.count.add(counter::stolen_from, taken);
  w.count.add(counter::moved_by_chain, taken);
  send(worker_of(to), list);
}

// The same across caches, nearest first, from the tick: no cpu may idle beside a queue for long, whatever the level.
void scheduler::chain_far(worker& w) noexcept {
  if (w.row->movable.load(relaxed) == 0 || !w.chains) return;
  for (cpu_id victim : w.victims) {
    worker& other = worker_of(victim);
    idle_set& set = idle_set_of(other);
    if (other.hood == w.hood || set.idle.load(relaxed) == 0 || set.searching.load(relaxed) != 0) continue;
    if (!set.withdraw(other.hood_position)) continue;
    uint32_t taken = 0;
    waitable* list = core::detach(w, (w.row->movable.load(relaxed) + 1) / 2, false, taken, if_movable);
    if (!list) return;
    w.count.add(counter::chained);
    w.count.add(counter::stolen_from, taken);
    w.count.add(counter::moved_by_chain, taken);
    return send(other, list);
  }
}

void wake_thread(thread_waiter& t) noexcept {
  // The waiter may return and be gone as soon as the word is set; the futex wake needs its address only.
  std::atomic<uint32_t>& word = t.word;
  word.store(1, release);
  notify_word(word);
}

void wake(waitable& f) noexcept {
  if (f.flags & ff_thread) return wake_thread(static_cast<thread_waiter&>(f));
  fiber_record& fiber = *as_fiber(&f);
  carrier* c = this_carrier();
  if (!c || c->home != fiber.home) return fiber.home->ready_from_outside(fiber);
  worker& w = enter(*c, op::wake);
  worker* to = fiber.home->ready(*c, w, fiber);
  leave(*c);
  if (to) push_inbox(*to, &fiber);
}

}  // namespace heddle::core
