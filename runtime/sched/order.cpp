// Fibers that are not all alike: weighted orders (settings pick_order), nice values, the idle class. The policy is balancer/fair.h;
// here is when it is asked. Everything is behind one branch of the plain path (run_queue.h, special()).
//
// O1 Virtual times are of one queue. A ready fiber that leaves it takes distances along (take_out), and so does a sleeping one that
//    is woken elsewhere; the queue it comes to places it (admit).
// O2 The list stays in order of arrival. Who is next is searched at each pick among the oldest `looked_at`: a heap would have to be
//    kept in order by everybody who takes fibers out of the middle. Beyond that many, fairness is by turns.
// O3 The running fiber is charged when it gives up its cpu and at ticks, by the clock: nobody else has it then.
#include <algorithm>

#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/suspend.h"

namespace heddle::core {
namespace {

constexpr int looked_at = 256;

fair_entity& fair_of(waitable& f) noexcept { return as_fiber(&f)->fair; }

// The carrier's own context: it competes with nobody.
bool is_idle_fiber(const waitable& f) noexcept { return static_cast<const fiber_record&>(f).entry == nullptr; }

// Visits what waits in the list, oldest first.
template <class Visit>
void each_waiting(const worker& w, Visit&& visit) noexcept {
  int i = 0;
  for (waitable* f = w.head; f && i < looked_at; f = f->next, i++) visit(*f);
}

fair_sums sums_of(const worker& w, waitable* running) noexcept {
  fair_sums sums;
  if (running) sums.add(fair_of(*running));
  if (waitable* slot = w.slot.load(relaxed)) sums.add(fair_of(*slot));
  each_waiting(w, [&](waitable& f) { sums.add(fair_of(f)); });
  return sums;
}

void look(worker& w, const fair_sums& sums) noexcept {
  w.order.view = sums.view(w.order.view.min_v);
  w.order.min_v.store(w.order.view.min_v, relaxed);
  w.order.mean_v.store(w.order.view.mean_v, relaxed);
}

waitable* unlink(worker& w, int index) noexcept {
  waitable* before = nullptr;
  waitable* f = w.head;
  for (int i = 0; i < index; i++) {
    before = f;
    f = f->next;
  }
  (before ? before->next : w.head) = f->next;
  if (w.tail == f) w.tail = before;
  if (may_leave(*f)) bump(w.row->movable, -1);
  return f;
}

// It slept there.
void leave_order(const worker& from, fair_entity& e) noexcept {
  const fair_view queue{.min_v = from.order.min_v.load(relaxed), .mean_v = from.order.mean_v.load(relaxed)};
  leave_queue(from.order.rules, queue, e);
}

void consider_preemption(worker& w, const fair_entity& wakee) noexcept {
  fiber_record* running = w.on.load(relaxed)->running();
  if (!w.order.hint || is_idle_fiber(*running)) return;
  const preempt_reason why = wakeup_preempts(w.order.rules, w.order.view, running->fair, wakee);
  if (why != preempt_reason::none) w.order.wanted = why;
}

}  // namespace

bool admit(worker& w, waitable& f) noexcept {
  fair_entity& e = fair_of(f);
  const fair_rules& rules = w.order.rules;
  if (rules.weighted()) {
    const bool comes = e.fresh || e.asleep;
    const auto last = to_cpu(static_cast<size_t>(f.cpu));
    if (e.asleep && !e.away && last != w.cpu) leave_order(w.home->worker_of(last), e);
    if (e.away) join_queue(rules, w.order.view, e);
    if (comes) {
      charge_running(w);
      place(rules, w.order.view, e);
      consider_preemption(w, e);
    }
  }
  if ((f.flags & ff_idle_class) == 0) return false;
  f.next = nullptr;
  (w.order.idle_head ? w.order.idle_tail->next : w.order.idle_head) = &f;
  w.order.idle_tail = &f;
  if (may_leave(f)) bump(w.row->movable, 1);
  return true;
}

void count_special(worker& w, const waitable& f, int sign) noexcept {
  if ((f.flags & ff_special) == 0) return;
  const fiber_record& fiber = static_cast<const fiber_record&>(f);
  w.order.extra_weight += sign * (int64_t{fiber.fair.weight} - pelt::nice_0_weight);
  w.row->extra_weight.store(static_cast<int32_t>(std::clamp<int64_t>(w.order.extra_weight, INT32_MIN, INT32_MAX)),
                            relaxed);
  if (f.flags & ff_idle_class) bump(w.row->nr_idle_class, sign);
}

void take_out(worker& w, waitable& f) noexcept {
  count_special(w, f, -1);
  if (w.ordered) leave_queue(w.order.rules, w.order.view, fair_of(f));
}

void charge_running(worker& w) noexcept {
  fiber_record& running = *w.on.load(relaxed)->running();
  const int64_t now = w.home->on->now().count();
  const int64_t ran = now - w.order.since;
  w.order.since = now;
  if (!is_idle_fiber(running) && ran > 0) charge(w.order.rules, running.fair, ran);
}

void tick_order(worker& w) noexcept {
  charge_running(w);
  fiber_record& running = *w.on.load(relaxed)->running();
  if (is_idle_fiber(running)) return;
  const fair_sums sums = sums_of(w, &running);
  look(w, sums);
  const fair_entity* first = nullptr;
  each_waiting(w, [&](waitable& f) {
    if (!first || goes_first(w.order.rules, sums, fair_of(f), *first)) first = &fair_of(f);
  });
  const preempt_reason why = tick_preempts(w.order.rules, w.order.view, running.fair, first);
  if (w.order.hint && why != preempt_reason::none) w.order.wanted = why;
}

waitable* pop_ordered(worker& w, waitable* from, bool stays) noexcept {
  const fair_rules& rules = w.order.rules;
  const bool idle = is_idle_fiber(*from);
  charge_running(w);
  look(w, sums_of(w, idle ? nullptr : from));
  int64_t inherited = 0;
  if (!idle) {
    inherited = fair_of(*from).ran;
    if (!stays) sleep_on(rules, w.order.view, fair_of(*from));
  }
  w.order.wanted = preempt_reason::none;

  const fair_sums sums = sums_of(w, stays && !idle ? from : nullptr);
  const int best = choose(rules, sums, [&](auto&& visit) { each_waiting(w, [&](waitable& f) { visit(fair_of(f)); }); });
  waitable* first = w.head;
  for (int i = 0; i < best; i++) first = first->next;
  // A yield offers the cpu; it is taken by whoever has the better claim.
  if (stays && !idle && first && !w.slot.load(relaxed) && keeps(rules, sums, fair_of(*from), fair_of(*first)))
    return nullptr;
  if (!idle) fair_of(*from).ran = 0;
  if (waitable* buddy = w.slot.load(relaxed)) {
    const bool spent = w.order.inherits && inherited > rules.base_slice;
    const bool turn = first == nullptr || (!spent && ++w.slot_streak <= w.lifo_max);
    if (turn && buddy_may_run(rules, sums, fair_of(*buddy), first ? &fair_of(*first) : nullptr)) {
      w.slot.store(nullptr, relaxed);
      if (w.order.inherits) fair_of(*buddy).ran = inherited;  // a pair shares one slice
      return buddy;
    }
    if (goes_first(rules, sums, fair_of(*buddy), fair_of(*first))) {
      w.slot.store(nullptr, relaxed);
      w.slot_streak = 0;
      return buddy;
    }
  }
  w.slot_streak = 0;
  return best < 0 ? nullptr : unlink(w, best);
}

waitable* pop_idle_class(worker& w) noexcept {
  waitable* f = w.order.idle_head;
  if (f == nullptr) return nullptr;
  w.order.idle_head = f->next;
  if (may_leave(*f)) bump(w.row->movable, -1);
  return f;
}

// LAST_BUDDY: it makes room because of a wakee, and goes on right after it.
bool resumes_soon(worker& w, const waitable& yielder) noexcept {
  return w.order.last_buddy && w.order.wanted == preempt_reason::wakeup && (yielder.flags & ff_idle_class) == 0;
}

}  // namespace heddle::core
