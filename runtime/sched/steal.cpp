// Stealing: ask first, take over later.
//
// S1 A thief posts itself in victim.request (acq_rel) and sets attention. The owner answers at its next scheduling point with its own queue in hand: what policy allows goes to the thief's inbox.
// S2 Unanswered for claim_after_ns: the thief takes its request back (if it cannot, it is being answered) and claims (B1).
// S3 A claimant only removes (B5); under the claim it also empties the inbox and takes due timers, since their owner is stuck.
// S4 The slot, the inbox and timers are taken only from a worker that stood still for claim_after_ns: they are about to be
//    served by an owner that moves.
// S5 What is cache-hot stays (7.6) until the thief has been refused cache_nice_tries times in a row, as in a balance: two fibers
//    that yield to each other are always hot, and must not keep an idle cpu waiting for ever. Under a claim nothing is hot: what
//    waits behind a fiber that stands still would only wait on.
#include "balancer/victims.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/offer.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/wait.h"

namespace heddle::core {
namespace {

// Evidence of progress: operations, not switches (a fiber that yields alone never switches).
uint64_t progress_of(const worker& v) noexcept {
  const carrier* c = v.on.load(acquire);
  return static_cast<uint64_t>(c->last_tick.load(relaxed)) * 67 + static_cast<uint32_t>(c->countdown.load(relaxed));
}

}  // namespace

bool scheduler::search(carrier& c, worker& w) {
  const settings& rule = *rules.load(acquire);
  const size_t count = w.victims.size();
  if (count == 0) return false;
  if (steal_task(c, w, true)) return true;
  if (!rule.wake_chain) return false;
  const size_t from = rule.victims == victims_t::random ? w.random.below(count) : 0;
  for (size_t i = 0; i < count; i++) {
    worker& v = worker_of(w.victims[(from + i) % count]);
    if (ask_or_claim(w, v)) {
      w.count.add(counter::steals);
      return true;
    }
    if (w.inbox.load(relaxed)) return true;
  }
  return false;
}

bool scheduler::ask_or_claim(worker& thief, worker& v) {
  if (v.state.load(relaxed) != cpu_state::running) return false;
  const settings& rule = *rules.load(acquire);
  const bool slot = v.slot.load(relaxed) != nullptr && v.slot_movable.load(relaxed) != 0;
  const bool list = v.row->movable.load(relaxed) > 0 || (slot && rule.slot_stealable == slot_stealable_t::yes);
  const int64_t began = on->now().count();
  if (!list && !(slot && rule.slot_stealable != slot_stealable_t::no) && v.next_timer.load(relaxed) > began &&
      !v.inbox.load(relaxed))
    return false;
  const uint64_t progress = progress_of(v);

  if (list) {
    worker* nobody = nullptr;
    thief.answered.store(0, relaxed);
    if (!v.request.compare_exchange_strong(nobody, &thief, acq_rel, relaxed)) return false;  // S1; one thief at a time
    v.on.load(acquire)->attention.fetch_or(att_request, seq_cst);
    while (!thief.answered.load(acquire)) {
      if (on->now().count() - began <= rule.claim_after_ns) {
        on->relax();
        continue;
      }
      worker* me = &thief;
      if (v.request.compare_exchange_strong(me, nullptr, acq_rel, relaxed)) break;  // S2
      while (!thief.answered.load(acquire)) on->relax();
    }
    if (thief.answered.load(acquire)) return thief.inbox.load(relaxed) != nullptr;
  } else {
    while (on->now().count() - began <= rule.claim_after_ns) {
      if (thief.inbox.load(relaxed)) return true;
      on->relax();
    }
  }
  if (progress_of(v) != progress || !rule.stall_rescue) return false;  // S4

  carrier* c = claim_worker(*on, v);
  if (!c) return false;
  uint32_t taken = 0;
  timer_message* moving = nullptr;
  const uint32_t half = (v.row->movable.load(relaxed) + (slot ? 1 : 0) + 1) / 2;
  waitable* loot = strip(v, half, false, taken, moving);
  unclaim(*c);
  if (!loot) {
    thief.count.add(counter::claims_empty);
    return false;
  }
  thief.count.add(counter::claims);
  thief.count.add(counter::moved_by_claim, taken);
  send(thief, loot);
  return true;
}

void scheduler::answer_request(worker& w) noexcept {
  worker* thief = w.request.exchange(nullptr, acq_rel);
  if (!thief) return;
  charge(chore::queue, w.cpu);
  const settings& rule = *rules.load(acquire);
  const bool slot_too = rule.slot_stealable == slot_stealable_t::yes;
  const uint32_t waiting = w.row->movable.load(relaxed) + (slot_too && w.slot_movable.load(relaxed) != 0 ? 1 : 0);
  const uint32_t want = std::min(steal_count(rule, waiting), static_cast<uint32_t>(rule.nr_migrate));
  const bool near = cpus.at(w.cpu).core == cpus.at(thief->cpu).core;
  const bool same_llc = cpus.share_llc(w.cpu, thief->cpu);
  const int64_t tries = same_llc ? rule.cache_nice_tries_llc : rule.cache_nice_tries_numa;
  const nanos now = on->now();
  detach_pass pass(rule,
                   {.from = w.cpu,
                    .to = thief->cpu,
                    .amount = want,
                    .at_most = want,
                    .kind = pull_kind::task,
                    .how = puller::newly_idle,
                    .hot_may_move = near || thief->refused > tries},
                   cpus.core_of(thief->cpu), w.row->nr.load(relaxed), now);
  uint32_t taken = 0;
  if (waitable* list = core::detach(w, want, slot_too, taken, [&](waitable& f) { return offered(rule, w, pass, f); })) {
    w.count.add(counter::answered);
    w.count.add(counter::stolen_from, taken);
    w.count.add(counter::moved_by_steal, taken);
    send(*thief, list);
  }
  // S5. The thief waits for `answered` and reads it then.
  if (taken == 0 && pass.outcome().hot > 0) {
    thief->refused++;
    w.count.add(counter::hot_skipped, pass.outcome().hot);
  } else {
    thief->refused = 0;
  }
  thief->answered.store(1, release);
}

// Under the claim of v's carrier: takes up to `want` from the list, the slot, the inbox and every due timer; with timers_move the
// rest of the timers too, as a message. What may not leave stays in order: in the queue of a carrier that is in a fiber, which comes
// back through its bracket; else it goes back by inbox push (B5).
waitable* scheduler::strip(worker& v, uint32_t want, bool timers_move, uint32_t& taken, timer_message*& moving) {
  waitable* out = core::detach(v, want, rules.load(acquire)->slot_stealable != slot_stealable_t::no, taken, if_movable);
  waitable** end = &out;
  while (*end) end = &(*end)->next;
  const carrier& c = *v.on.load(relaxed);
  const bool in_fiber = c.running() != &c.idle;
  waitable* back = nullptr;  // newest first
  waitable* back_oldest = nullptr;
  const auto give = [&](waitable* f) {
    f->next = nullptr;
    if (may_leave(*f)) {
      *end = f;
      end = &f->next;
      taken++;
    } else if (const cpu_id pin = to_cpu(static_cast<size_t>(as_fiber(f)->pin)); pin != v.cpu) {
      push_inbox(worker_of(pin), f);  // its timer had moved here
    } else if (in_fiber) {
      push_tail(v, f);
    } else {
      f->next = back;
      back = f;
      if (!back_oldest) back_oldest = f;
    }
  };
  waitable* oldest = nullptr;
  for (waitable* f = v.inbox.exchange(nullptr, acquire); f;) {
    waitable* next = f->next;
    f->next = oldest;
    oldest = f;
    f = next;
  }
  v.row->pending.store(0, relaxed);
  while (oldest) {
    waitable* next = oldest->next;
    give(oldest);
    oldest = next;
  }
  const int64_t now = on->now().count();
  while (v.timers.first() <= now) {
    const timer t = v.timers.pop();
    if (t.stale()) continue;
    if (claim_epoch(*t.fiber, t.epoch, wait_phase::timed_out)) give(t.fiber);
  }
  if (timers_move && !v.timers.empty()) {
    moving = new timer_message;
    moving->timers = v.timers.take_all();
  }
  v.next_timer.store(v.timers.first(), relaxed);
  if (back) push_inbox(v, back, back_oldest);
  return out;
}

}  // namespace heddle::core
