// The plain threads' side of the public suspend points, and small questions about the running fiber.
#include "runtime/sched/threads.h"

#include <thread>

#include "affinity/topology.h"
#include "heddle/detail/errors.h"
#include "heddle/detail/runtime.h"
#include "heddle/sync.h"
#include "runtime/base/check.h"
#include "runtime/machine/host.h"
#include "runtime/sched/suspend.h"
#include "runtime/sync/block.h"

namespace heddle::core {
namespace {

// The virtual machine that this thread drives, or null: its blocking calls advance that clock.
thread_local machine* driven = nullptr;

fiber_record& record(detail::fiber_head& f) noexcept { return static_cast<fiber_record&>(static_cast<waitable&>(f)); }
const fiber_record& record(const detail::fiber_head& f) noexcept {
  return static_cast<const fiber_record&>(static_cast<const waitable&>(f));
}

// False: the deadline passed, and the fiber has forgotten us.
bool join_thread_until(fiber_record& f, nanos deadline) {
  f.home->on->check_thread();
  thread_waiter me;
  uintptr_t nobody = joiner_none;
  const auto mine = reinterpret_cast<uintptr_t>(static_cast<waitable*>(&me));
  if (!f.joiner.compare_exchange_strong(nobody, mine, acq_rel, acquire)) return true;
  if (f.home->on->wait(me.word, 0, deadline)) return true;
  uintptr_t expected = mine;
  if (f.joiner.compare_exchange_strong(expected, joiner_none, acq_rel, acquire)) return false;
  f.home->on->wait(me.word, 0, never);  // the end has our address
  return true;
}

}  // namespace

void drive_by_this_thread(machine* m) noexcept { driven = m; }
machine* machine_of_this_thread() noexcept {
  if (carrier* c = carrier_now()) return c->home->on.get();
  return driven;
}

bool wait_thread(thread_waiter& t, nanos deadline) noexcept {
  machine* m = driven;
  return m ? m->wait(t.word, 0, deadline) : futex_wait(t.word, 0, deadline);
}

void note_interrupt() noexcept {
  carrier* c = carrier_now();
  if (c && c->home->on->now().count() - c->last_tick.load(relaxed) >= c->home->rules.load(relaxed)->tick_ns)
    c->countdown.store(0, relaxed);
}

void notify_word(std::atomic<uint32_t>& word) noexcept {
  machine* m = machine_of_this_thread();
  if (m && m->is_virtual())
    m->notify(word);
  else
    futex_wake(word);
}

}  // namespace heddle::core

namespace heddle::detail {

using namespace heddle::core;

switch_target pick_yield_thread() {
  if (machine* m = machine_of_this_thread())
    m->relax();
  else
    std::this_thread::yield();
  return nowhere;
}

switch_target pick_sleep_thread(int64_t until) {
  std::atomic<uint32_t> word{0};
  machine* m = machine_of_this_thread();
  m ? m->wait(word, 0, nanos{until}) : futex_wait(word, 0, nanos{until});
  return nowhere;
}

void join_thread(fiber_head& head) {
  if (!join_thread_until(record(head), never)) throw shutdown_error(deadlock_text);
}

void join_shielded(fiber_head& head) noexcept {
  carrier* c = carrier_now();
  if (!c) {
    if (record(head).joiner.load(acquire) != joiner_done) join_thread(head);
    return;
  }
  fiber_record& me = *c->running();
  const bool was = me.flags & ff_shielded;
  me.flags |= ff_shielded;
  if (const switch_target t = pick_join(head); t.from) switch_to(t);
  if (!was) me.flags &= static_cast<uint16_t>(~ff_shielded);
}

// After a join that ended by other means than the end. False: the end has our address, and looks at our record until it is off its
// cpu; we may be gone with our whole scheduler by then, so we wait for that (F1).
bool take_back_join(fiber_record& joined, fiber_record& me) noexcept {
  auto mine = reinterpret_cast<uintptr_t>(static_cast<waitable*>(&me));
  if (joined.joiner.compare_exchange_strong(mine, joiner_none, acq_rel, acquire)) return true;
  while (joined.sp.load(acquire) == nullptr) relax_outside();
  return false;
}

// The joinee knows one joiner; a timed one takes itself back. Waits in slices are not needed: the end claims by epoch.
bool join_until(fiber_head& head, int64_t until) {
  fiber_record& f = record(head);
  if (f.joiner.load(acquire) == joiner_done) return true;
  carrier* c = this_carrier();
  if (c && c->running() == &f) throw std::logic_error("heddle::fiber: a fiber cannot join itself");
  if (!c) return join_thread_until(f, nanos{until});
  worker& w = enter(*c, op::join);
  check_cancelled(*c);
  fiber_record& me = *c->running();
  begin_wait(*c, me, wait_kind::join, &f, true);
  const uint64_t epoch = epoch_of(me.wait_state.load(relaxed));
  f.joiner_wait = epoch << 1 | 1;
  uintptr_t nobody = joiner_none;
  const auto mine = reinterpret_cast<uintptr_t>(static_cast<waitable*>(&me));
  if (!f.joiner.compare_exchange_strong(nobody, mine, acq_rel, acquire)) {
    abandon_wait(me);
    leave(*c);
    return true;
  }
  w.timers.arm(nanos{until}, me, epoch);
  w.next_timer.store(w.timers.first(), relaxed);
  if (const switch_target t = next(*c->home, *c, w, me); t.from) switch_to(t);
  const wait_phase ended = phase_of(me.wait_state.load(acquire));
  if (ended == wait_phase::cancelled) throw_cancelled(me);
  if (ended == wait_phase::notified) return true;
  return !take_back_join(f, me);
}

scheduler& current_scheduler() {
  carrier* c = this_carrier();
  if (!c) throw std::logic_error("heddle::spawn: not inside a fiber; use runtime::spawn");
  return *c->home;
}

spawn_place prepare_spawn(scheduler& on, size_t frame_bytes, size_t frame_align, const spawn_attributes& how) {
  int pin = -1;
  if (how.cpu != -1) {
    const cpu_id cpu = on.cpus.find_os(how.cpu);
    if (!valid(cpu))
      throw std::invalid_argument("heddle::fiber_options::cpu: " + std::to_string(how.cpu) + " has no worker here (" +
                                  on.cpus.list(cpu_set::first(on.cpus.cpu_count())) + " have)");
    pin = static_cast<int>(cpu);
  }
  if (how.nice < -20 || how.nice > 19)
    throw std::invalid_argument("heddle::fiber_options::nice: " + std::to_string(how.nice) + " is not -20..19");
  fiber_record& f = on.prepare_spawn(frame_bytes, frame_align);
  f.pin = pin;
  f.nice = how.nice;
  f.idle_class = how.idle;
  f.name[how.name.copy(f.name, sizeof f.name - 1)] = 0;
  return {&f, f.frame};
}

void* frame_of(fiber_head& f) noexcept { return record(f).frame; }
void submit(scheduler& on, fiber_head& f, void (*entry)(void*)) {
  record(f).entry = entry;
  on.submit(record(f));
}
void unprepare(fiber_head& f) noexcept { record(f).home->unprepare(record(f)); }
void set_error(std::exception_ptr error) noexcept {
  carrier* c = this_carrier();
  if (!c) std::rethrow_exception(error);  // in the child of a fork it has nobody to go to: std::terminate
  c->running()->error = std::move(error);
}
std::exception_ptr take_error(fiber_head& f) noexcept { return std::exchange(record(f).error, nullptr); }
std::exception_ptr take_error_and_release(fiber_head& f) noexcept {
  std::exception_ptr error = std::exchange(record(f).error, nullptr);
  record(f).home->give_back(record(f));
  return error;
}
void release(fiber_head& f) noexcept { record(f).home->give_back(record(f)); }
void detach(fiber_head& f) noexcept { record(f).home->detach(record(f)); }
void request_stop(fiber_head& f) noexcept { record(f).home->request_stop(record(f)); }
uint64_t id_of(const fiber_head& f) noexcept { return record(f).id; }
std::string_view name_of(const fiber_head& f) noexcept { return record(f).name; }

fiber_head* running() noexcept {
  carrier* c = carrier_now();
  return c ? c->running() : nullptr;
}
bool stop_requested() noexcept {
  carrier* c = carrier_now();
  return c && c->running()->stop_requested.load(acquire);
}
bool should_yield() noexcept {
  carrier* c = carrier_now();
  if (!c) return false;
  worker& w = enter(*c, op::yield);
  const bool waits = w.head != nullptr || w.slot.load(relaxed) != nullptr;
  const bool idle_class = (c->running()->flags & ff_idle_class) != 0;
  const bool stayed =
      w.count.get(counter::switches) + c->segments == w.switches_seen && w.order.stayed_ns >= w.order.rules.base_slice;
  const bool better = w.ordered ? w.order.wanted != preempt_reason::none : stayed;
  const bool yields = w.order.hint && waits && (idle_class || better);
  leave(*c);
  return yields;
}
int current_cpu() noexcept {
  carrier* c = carrier_now();
  return c ? c->home->cpus.os_id(c->runs.load(relaxed)->cpu) : -1;
}
int64_t now_ns() noexcept {
  machine* m = machine_of_this_thread();
  return (m ? m->now() : steady_now()).count();
}
int64_t deadline_after(std::chrono::nanoseconds how_long) noexcept {
  return saturating_add(nanos{now_ns()}, how_long).count();
}

}  // namespace heddle::detail

namespace heddle::this_fiber {

std::chrono::nanoseconds now() noexcept { return std::chrono::nanoseconds{detail::now_ns()}; }

}  // namespace heddle::this_fiber
