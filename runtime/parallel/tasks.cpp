// Fork-join, out of line: where the owner meets thieves. Rules T1-T9: README.md.
#include "runtime/parallel/tasks.h"

#include <cstring>
#include <stdexcept>

#include "heddle/detail/errors.h"
#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/suspend.h"
#include "runtime/sync/block.h"

// What the inlined half reads (detail/tasks.h): the deque that is cached in the carrier of this kernel thread.
extern "C" {
[[gnu::tls_model("initial-exec")]] constinit thread_local heddle::detail::task_deque* heddle_tasks_here = nullptr;
}

namespace heddle::detail {
#if !(defined(__x86_64__) && defined(__ELF__))
[[gnu::noinline]] task_deque* deque_here() noexcept {
  asm volatile("");
  return heddle_tasks_here;
}
#endif
}  // namespace heddle::detail

namespace heddle::core {

using detail::deque_capacity;
using detail::gate_closed;
using detail::task_detached;
using detail::task_done;
using detail::task_failed;

namespace {

// ---- T2: tail, split, the lock of a claimant, and a version, in one word

constexpr uint64_t locked_bit = uint64_t{1} << 63;
constexpr uint32_t tail_of(uint64_t word) noexcept { return static_cast<uint16_t>(word); }
constexpr uint32_t split_of(uint64_t word) noexcept { return static_cast<uint16_t>(word >> 16); }
constexpr bool is_locked(uint64_t word) noexcept { return (word & locked_bit) != 0; }
// What follows `old`, unlocked: a thief that read a slot under an older version does not get it.
inline uint64_t next_word(uint64_t old, uint32_t tail, uint32_t split) noexcept {
  const uint64_t version = (old >> 32) + (is_planted(mutant::same_version) ? 0 : 1);
  return (version << 32 & ~locked_bit) | uint64_t{split} << 16 | tail;
}
static_assert(deque_capacity < (1u << 16));
constexpr bool has_public(uint64_t word) noexcept { return tail_of(word) < split_of(word); }

constexpr size_t near_victims = 16;  // how many a poller looks at each time round

constexpr uintptr_t waiter_bit = uintptr_t{1} << 63;  // T7: no entry's and no record's address has it

deque_record& record_of(task_deque& d) noexcept { return static_cast<deque_record&>(d); }

// T4: no asymmetric fence here, so the gate is never opened and owner and claimant fence for themselves.
bool always_slow(const scheduler& s) noexcept { return HEDDLE_TSAN || s.simulated || !s.on->has_barrier(); }

// Fibers of one thread write it in turn: to TSan a race.
#if HEDDLE_TSAN
__attribute__((no_sanitize("thread"), noinline))
#else
[[gnu::noinline]]
#endif
void show(task_deque* d) noexcept {
  asm volatile("");
  heddle_tasks_here = d;
}

bool somebody_idles(const scheduler& s, const worker& w) noexcept {
  if (s.idle_set_of(w).idle.load(seq_cst) != 0) return true;
  for (cpu_id cpu : w.far_hoods)
    if (s.idle_set_of(s.worker_of(cpu)).idle.load(seq_cst) != 0) return true;
  return false;
}

// The word once no claimant holds it.
uint64_t unlocked(machine& m, const task_deque& d) noexcept {
  uint64_t word = d.shared.load(seq_cst);
  while (is_locked(word)) {
    m.relax();
    word = d.shared.load(seq_cst);
  }
  return word;
}

// ---- a thief's fiber

struct thief_frame {
  task* first;       // stolen already, or null
  task_deque* from;  // where to look for more
};

void thief_main(void* frame);

fiber_record& new_thief(scheduler& s, task* first, task_deque& from) {
  fiber_record& f = s.prepare_spawn(sizeof(thief_frame), alignof(thief_frame), true);
  ::new (f.frame) thief_frame{first, &from};
  f.entry = &thief_main;
  f.pin = -1;
  std::strcpy(f.name, "task");
  s.renew(f);
  f.joiner.store(joiner_detached, relaxed);
  return f;
}

// Inside the bracket.
void count_in(worker& w, fiber_record& f) noexcept {
  f.id = ++w.spawned * (w.home->workers.size() + 1) + index_of(w.cpu);
  f.live.store(true, relaxed);
  w.count.add(counter::spawned);
  f.cpu = static_cast<int16_t>(w.cpu);
}

void start_here(scheduler& s, carrier& c, fiber_record& f) {
  worker& w = reenter(*s.on, c);
  count_in(w, f);
  maybe_chain(s, w);
  push_tail(w, &f);
  leave(c);
}

// An idle cpu that announced itself is sent a fiber that steals from d. Nearest first; one per call.
void send_thief(scheduler& s, carrier& c, task_deque& d) {
  worker& here = *c.runs.load(relaxed);
  const auto any_of = [&](idle_set& set) {
    if (set.idle.load(relaxed) == 0) return cpu_id::none;
    const cpu_id to =
        set.find(here.cpu, [&](cpu_id x) { return s.worker_of(x).state.load(relaxed) == cpu_state::polling; });
    return valid(to) && set.withdraw(s.worker_of(to).hood_position) ? to : cpu_id::none;
  };
  cpu_id to = any_of(s.idle_set_of(here));
  for (size_t i = 0; !valid(to) && i < here.far_hoods.size(); i++)
    to = any_of(s.idle_set_of(s.worker_of(here.far_hoods[i])));
  if (!valid(to)) return;
  fiber_record& f = new_thief(s, nullptr, d);
  worker& w = reenter(*s.on, c);
  count_in(w, f);
  w.count.add(counter::tasks_offered);
  f.cpu = static_cast<int16_t>(to);
  leave(c);
  push_inbox(s.worker_of(to), &f);
}

// ---- deques come and go

void list(scheduler& s, carrier& c, deque_record& d) {
  if (!d.runner) d.runner = &new_thief(s, nullptr, d);
  HEDDLE_DEBUG_ASSERT(d.head.load(relaxed) == 0 && split_of(d.shared.load(relaxed)) == 0);
  c.tasks.store(&d, relaxed);
  s.forks.store(1, relaxed);
  show(&d);
  c.runs.load(relaxed)->tasks.store(&d, seq_cst);  // T6
}

// A deque that left with its fiber has nothing in it any more (T5): the carrier's, or anybody's.
void recycle(scheduler& s, carrier& c, task_deque& d) noexcept {
  if (c.tasks.load(relaxed) == nullptr && record_of(d).runner)
    list(s, c, record_of(d));
  else
    s.tasks.give(record_of(d));
}

// T4, where the gate did not keep claimants away.
void publish_head(task_deque& d, uint32_t head) noexcept {
  if (!is_planted(mutant::pop_without_fence)) d.head.exchange(head, seq_cst);
}

// T3. Only the owner, and only while the deque is listed.
void open_gate(scheduler& s, carrier& c, task_deque& d) noexcept {
  if (c.tasks.load(relaxed) != &d || always_slow(s)) return;
  const uint64_t word = d.shared.load(seq_cst);
  d.gate.exchange(split_of(word), seq_cst);
  const uint64_t again = d.shared.load(seq_cst);
  if (is_locked(again) || split_of(again) != split_of(word) || somebody_idles(s, *c.runs.load(relaxed)))
    d.gate.store(gate_closed, seq_cst);
}

// Half of the owner's own tasks, [split, head), become everybody's if nothing else is. False: there was nothing to give.
bool share(machine& m, task_deque& d, uint32_t head) noexcept {
  for (uint64_t word = unlocked(m, d);;) {
    if (has_public(word)) return true;
    const uint32_t split = split_of(word);
    if (head <= split) return false;
    const uint64_t wanted = next_word(word, tail_of(word), split + (head - split + 1) / 2);
    if (d.shared.compare_exchange_weak(word, wanted, seq_cst, seq_cst)) return true;
    if (is_locked(word)) word = unlocked(m, d);
  }
}

// ---- the end of a stolen task (T7)

// The task and its frame are gone after the exchange.
void finish(task& t, uintptr_t entry, uintptr_t outcome) {
  uintptr_t old = entry;
  if (is_planted(mutant::outcome_by_store)) {
    old = door(t.word).load(acquire);
    interleave_point();
    t.word.store(outcome, release);
  } else {
    old = door(t.word).exchange(outcome, acq_rel);
  }
  if (old == entry) return;
  auto& parent = *reinterpret_cast<fiber_record*>(old & ~waiter_bit);
  carrier& c = *carrier_now();
  worker& w = enter(c, op::wake);
  parent.wait_state.store(wait_word(epoch_of(parent.wait_state.load(relaxed)), wait_phase::notified), relaxed);
  worker* to = c.home->ready(c, w, parent);
  leave(c);
  if (to) push_inbox(*to, &parent);
}

void run_stolen(task& t) {
  const uintptr_t word = t.word.load(acquire);
  if (word & task_detached) return reinterpret_cast<task::entry>(word & ~task_detached)(t);
  const task::entry entry = word & waiter_bit ? t.saved : reinterpret_cast<task::entry>(word);
  uintptr_t outcome = task_done;
  try {
    entry(t);
  } catch (...) {
    std::construct_at(&t.error, std::current_exception());
    outcome = task_failed;
  }
  finish(t, reinterpret_cast<uintptr_t>(entry), outcome);
}

// Until t, which somebody else has, has ended. Shutdown does not interrupt it: the task uses this very stack.
void await(task& t) {
  if (door(t.word).load(acquire) <= task_failed) return;
  carrier& c = *carrier_now();
  fiber_record& me = *c.running();
  const shielded no_refusal;
  worker& w = enter(c, op::join);
  begin_wait(c, me, wait_kind::task, &t);
  const uintptr_t word = t.word.load(relaxed);
  uintptr_t running = word;
  if (word > task_failed) t.saved = reinterpret_cast<task::entry>(word);
  const uintptr_t waiter = reinterpret_cast<uintptr_t>(&me) | waiter_bit;
  if (word > task_failed && is_planted(mutant::wait_by_store)) {
    interleave_point();
    t.word.store(waiter);
    running = waiter;
  }
  if (word > task_failed &&
      (running == waiter || door(t.word).compare_exchange_strong(running, waiter, acq_rel, acquire))) {
    w.count.add(counter::tasks_awaited);
    if (const switch_target to = next(*c.home, c, w, me); to.from) detail::switch_to(to);
  } else {
    abandon_wait(me);
    leave(c);
  }
  (void)t.word.load(acquire);  // the child's writes
}

// ---- stealing

task* steal(task_deque& d) noexcept {
  uint64_t word = d.shared.load(acquire);
  while (has_public(word) && !is_locked(word)) {
    task* t = d.slots[tail_of(word)].load(relaxed);  // T2: ours only if the word is still the same
    if (is_planted(mutant::steal_by_store)) {
      d.shared.store(word + 1, release);
      return t;
    }
    if (d.shared.compare_exchange_weak(word, word + 1, acq_rel, acquire)) return t;
  }
  return nullptr;
}

// T4: the owner is busy elsewhere, so half of what is his alone is taken over while he is kept out.
task* take_over(scheduler& s, task_deque& d) noexcept {
  uint64_t word = d.shared.load(acquire);
  const uint64_t lock = is_planted(mutant::claim_unlocked) ? 0 : locked_bit;
  do
    if (is_locked(word) || has_public(word)) return steal(d);
  while (!d.shared.compare_exchange_weak(word, word | lock, seq_cst, acquire));
  d.gate.store(gate_closed, seq_cst);
  if (!always_slow(s)) s.on->barrier(cpu_id::none);
  const uint32_t head = std::min(d.head.load(seq_cst), deque_capacity);
  const uint32_t split = split_of(word);
  if (head <= split) {
    d.shared.store(next_word(word, split, split), release);
    return nullptr;
  }
  task* t = d.slots[split].load(relaxed);
  d.shared.store(next_word(word, split + 1, split + (head - split + 1) / 2), release);
  return t;
}

void thief_main(void* frame) {
  const thief_frame& f = *static_cast<thief_frame*>(frame);
  task* t = f.first ? f.first : steal(*f.from);
  if (!t) return;
  carrier& c = *carrier_now();
  scheduler& s = *c.home;
  c.runs.load(relaxed)->count.add(counter::tasks_stolen);
  // T8: whoever finds more than it takes leaves a successor, before it runs what may block.
  if (has_public(f.from->shared.load(relaxed)) && !is_planted(mutant::no_successor))
    start_here(s, c, new_thief(s, nullptr, *f.from));
  run_stolen(*t);
}

}  // namespace

shielded::shielded() noexcept : me_(nullptr) {
  carrier* c = carrier_now();
  if (!c || c->running()->flags & ff_shielded) return;
  me_ = c->running();
  me_->flags |= ff_shielded;
}
shielded::~shielded() {
  if (me_) me_->flags &= static_cast<uint16_t>(~ff_shielded);
}

void start_task(scheduler& s, void (*entry)(void*), void* argument) {
  fiber_record& f = s.prepare_spawn(sizeof(void*), alignof(void*), true);
  *static_cast<void**>(f.frame) = argument;
  f.entry = entry;
  f.pin = -1;
  std::strcpy(f.name, "task_group");
  s.renew(f);
  f.joiner.store(joiner_detached, relaxed);
  carrier* c = carrier_now();
  if (c && c->home == &s) return start_here(s, *c, f);
  f.id = (s.outside_spawned.fetch_add(1, relaxed) + 1) * (s.workers.size() + 1) + s.workers.size();
  f.live.store(true, relaxed);
  s.start_outside(f);
}

bool has_tasks(const task_deque& d) noexcept {
  if (is_planted(mutant::park_beside_task)) return false;
  const uint64_t word = d.shared.load(seq_cst);
  return has_public(word) || std::min(d.head.load(seq_cst), deque_capacity) > split_of(word);
}

void show_tasks(const carrier* c) noexcept { show(c ? c->tasks.load(relaxed) : nullptr); }

// T5. Between publication and switch: nothing here waits for another fiber, only for a claimant's barrier.
[[gnu::noinline]] void leave_tasks(carrier& c, worker& w) noexcept {
  scheduler& s = *c.home;
  deque_record& d = record_of(*c.tasks.load(relaxed));
  c.tasks.store(nullptr, relaxed);
  show(nullptr);
  w.tasks.store(nullptr, relaxed);
  d.gate.store(gate_closed, seq_cst);
  if (is_planted(mutant::leave_private)) return;
  const uint32_t head = d.head.load(relaxed);
  uint64_t word = unlocked(*s.on, d);
  while (!d.shared.compare_exchange_weak(word, next_word(word, tail_of(word), head), seq_cst, seq_cst))
    if (is_locked(word)) word = unlocked(*s.on, d);
  if (tail_of(word) >= head) return;
  count_in(w, *d.runner);  // T8
  push_tail(w, d.runner);
  d.runner = nullptr;
}

// For an idle worker, outside of its bracket: a task of somebody's becomes a fiber here. Patient: one that does not answer is taken
// over (T6 bounds how long anybody may wait).
bool scheduler::steal_task(carrier& c, worker& w, bool patient) {
  if (forks.load(relaxed) == 0) return false;
  const size_t count = w.victims.size(), tries = patient ? count : std::min(count, near_victims);
  const settings& rule = *rules.load(acquire);
  const size_t from = rule.victims == victims_t::random && count ? w.random.below(count) : 0;
  for (size_t i = 0; i < tries; i++) {
    worker& v = worker_of(w.victims[(from + i) % count]);
    task_deque* d = v.tasks.load(acquire);
    if (!d) continue;
    task* t = steal(*d);
    if (!t && d->gate.load(relaxed) != gate_closed) d->gate.store(gate_closed, seq_cst);
    if (!t && patient && has_tasks(*d)) {
      const int64_t began = on->now().count();
      while (!(t = steal(*d)) && on->now().count() - began <= rule.claim_after_ns) {
        if (w.inbox.load(relaxed)) return true;
        on->relax();
      }
      if (!t && (t = take_over(*this, *d))) w.count.add(counter::tasks_taken_over);
    }
    if (!t) continue;
    start_here(*this, c, new_thief(*this, t, *d));
    return true;
  }
  return false;
}

// T6, before an idle worker parks: the next push of whoever runs comes by here.
void scheduler::close_gates(worker& w) noexcept {
  if (forks.load(seq_cst) == 0 || is_planted(mutant::park_beside_task))
    return;  // whoever forks first finds its gate closed
  for (cpu_id cpu : w.victims)
    if (task_deque* d = worker_of(cpu).tasks.load(acquire)) d->gate.store(gate_closed, seq_cst);
}

deque_record& deque_pool::take() {
  std::lock_guard guard(lock_);
  if (!free_) {
    all_.push_back(std::make_unique<deque_record>());
    free_ = all_.back().get();
  }
  deque_record& d = *free_;
  free_ = std::exchange(d.next, nullptr);
  return d;
}

void deque_pool::give(deque_record& d) noexcept {
  std::lock_guard guard(lock_);
  d.next = std::exchange(free_, &d);
}

}  // namespace heddle::core

namespace heddle::detail {

using namespace heddle::core;

// A push that met a closed gate, a full deque, a deque that is not this fiber's any more, or none.
[[gnu::noinline]] task_deque* fork_slow(task_deque* d, task& t) {
  carrier* here = carrier_now();
  if (!here) throw std::logic_error("heddle: fork-join outside of a fiber: pass the runtime as the first argument");
  carrier& c = *here;
  scheduler& s = *c.home;
  if (s.simulated) s.on->point(op::fork);
  if (d == nullptr) {
    deque_record& fresh = s.tasks.take();
    try {
      list(s, c, fresh);
    } catch (...) {
      s.tasks.give(fresh);
      throw;
    }
    d = &fresh;
    d->slots[0].store(&t, relaxed);
    d->head.store(1, release);
  }
  const uint32_t head = d->head.load(relaxed);
  if (head > deque_capacity) {
    d->head.store(deque_capacity, relaxed);
    start_here(s, c, new_thief(s, &t, *d));
    return nullptr;
  }
  publish_head(*d, head);
  if (share(*s.on, *d, head)) {
    open_gate(s, c, *d);
    if (somebody_idles(s, *c.runs.load(relaxed)) && has_public(d->shared.load(relaxed))) send_thief(s, c, *d);
  }
  return d;
}

[[gnu::noinline]] bool join_slow(task_deque* d, task& t) {
  if (take_back(d)) return true;
  await(t);
  return false;
}

[[gnu::noinline]] bool take_back(task_deque* d) {
  if (d == nullptr) return false;  // it became a fiber
  carrier& c = *carrier_now();
  scheduler& s = *c.home;
  if (s.simulated) s.on->point(op::fork);
  const uint32_t h = d->head.load(relaxed);
  publish_head(*d, h);
  const bool listed = c.tasks.load(relaxed) == d;
  uint64_t word = unlocked(*s.on, *d);
  for (;;) {
    const uint32_t tail = tail_of(word);
    const bool stolen = tail > h;
    if (!stolen && split_of(word) <= h) {  // the owner's alone; the rest is shared if somebody asked
      if (listed && share(*s.on, *d, h)) open_gate(s, c, *d);
      break;
    }
    // Stolen: so is everything older (T2), and the deque begins anew. Else taken back, with half of what is left for everybody.
    const uint64_t after = stolen ? next_word(word, h, h) : next_word(word, tail, listed ? tail + (h - tail) / 2 : h);
    if (!d->shared.compare_exchange_weak(word, after, seq_cst, seq_cst)) {
      if (is_locked(word)) word = unlocked(*s.on, *d);
      continue;
    }
    if (!stolen) {
      open_gate(s, c, *d);
      break;
    }
    if (h == 0 && !listed) recycle(s, c, *d);
    return false;
  }
  if (h == 0 && !listed) recycle(s, c, *d);
  return true;
}

bool wanted_slow(task_deque* d) noexcept {
  carrier* c = carrier_now();
  if (!c) return false;
  const scheduler& s = *c->home;
  if (d && has_public(d->shared.load(relaxed))) return false;
  return !always_slow(s) || somebody_idles(s, *c->runs.load(relaxed));
}

void rethrow(task& t) {
  std::exception_ptr error = std::move(t.error);
  std::destroy_at(&t.error);
  std::rethrow_exception(std::move(error));
}

}  // namespace heddle::detail
