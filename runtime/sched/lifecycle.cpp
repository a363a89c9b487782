// A scheduler's start and end, and a fiber's.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "heddle/detail/errors.h"
#include "heddle/detail/runtime.h"
#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/fiber/local.h"
#include "runtime/machine/host.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/suspend.h"

namespace heddle::core {
namespace {

// A worker keeps this many idle records for itself and trades with the shared pool in halves of it.
constexpr uint32_t pooled_max = 256;
constexpr size_t take_batch = 16;
constexpr int severity_error = 2;  // heddle::severity::error

// A detached fiber's exception has nobody to go to: std::terminate, after saying whose it was. Shutdown's own is no fault.
[[noreturn]] void die_of(const fiber_record& f) noexcept {
  const char* what = "an exception";
  std::string text;
  try {
    std::rethrow_exception(f.error);
  } catch (const std::exception& e) {
    text = e.what();
    what = text.c_str();
  } catch (...) {
  }
  std::fprintf(stderr, "heddle: detached fiber %llu '%s' ended by %s\n", static_cast<unsigned long long>(f.id), f.name,
               what);
  std::terminate();
}

bool is_shutdown(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const shutdown_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Where one searcher at a time looks and the wake chain hands work on: a cache's cpus. A machine whose caches are all private
// (or that shows them so, as some hypervisors do) would have nobody to hand to: there it is a node's.
const std::vector<cpu_set>& neighbourhoods(const topology& cpus) noexcept {
  const bool shared = std::any_of(cpus.llcs.begin(), cpus.llcs.end(), [](const cpu_set& l) { return l.count() > 1; });
  return shared ? cpus.llcs : cpus.nodes;
}

// A cpu beyond the distance over which wake-ups may be pulled.
cpu_id far_from(const topology& cpus, cpu_id from, int64_t reclaim_distance) noexcept {
  for (size_t i = 0; i < cpus.cpu_count(); i++)
    if (cpus.distance(from, to_cpu(i)) > reclaim_distance) return to_cpu(i);
  return cpu_id::none;
}

// In the child of a fork nobody is left who could run something else.
[[noreturn]] void end_orphan(const fiber_record& f) noexcept {
  std::fprintf(stderr,
               "heddle: fiber %llu '%s' returned in the child of a fork(); the child has to end by _exit or exec\n",
               static_cast<unsigned long long>(f.id), f.name);
  std::abort();
}

void fiber_main() {
  fiber_record& me = *this_carrier()->running();
  entered_context(me);
  me.entry(me.frame);
  if (__builtin_expect(!this_carrier(), 0)) end_orphan(me);
  drop_locals(me);  // user destructors: before the bracket
  detail::exit_fiber();
}

}  // namespace

scheduler::scheduler(scheduler_options options)
    : cpus(std::move(options.cpus)),
      domains(cpus, domain_options_of(options.initial)),
      said(cpus),
      on(std::move(options.on)),
      pool(options.stack_bytes),
      idle_sets(std::make_unique<idle_set[]>(neighbourhoods(cpus).size())),
      log(std::move(options.log)),
      shutdown_deadline(options.shutdown_deadline),
      seed(options.seed) {
  simulated = on->is_virtual();
  preempts = simulated && options.initial.preempt;
  if (simulated && options.initial.fault_stack > 0) pool.fail_after(static_cast<uint64_t>(options.initial.fault_stack));
  HEDDLE_ASSERT(cpus.cpu_count() > 0 && cpus.cpu_count() <= std::numeric_limits<int16_t>::max());
  snapshots.push_back(std::make_unique<const settings>(options.initial));
  rules.store(snapshots.back().get(), release);
  balancing = std::make_unique<balance_shared>(domains.spans());
  for (size_t i = 0; i < cpus.cpu_count(); i++) {
    auto w = std::make_unique<worker>();
    auto c = std::make_unique<carrier>();
    w->home = c->home = this;
    w->cpu = c->cpu = to_cpu(i);
    w->row = &said.row(to_cpu(i));
    w->all_near = cpus.llcs.size() == 1 || !valid(far_from(cpus, to_cpu(i), options.initial.numa_reclaim_distance));
    w->random = rng(seed * 0x9e3779b97f4a7c15u + i);
    w->spin_budget_ns = options.initial.spin_ns;
    copy_settings(*w, options.initial);
    c->account.emplace(options.initial.accounting, nanos{options.initial.tick_ns});
    w->levels.emplace(domains, options.initial, w->cpu, on->now());
    w->level_counts = std::make_unique<level_counters[]>(w->levels->levels.size());
    w->marks.emplace(said, w->cpu, options.initial);
    w->on.store(c.get(), relaxed);
    c->runs.store(w.get(), relaxed);
    c->idle.home = this;
    c->idle.cpu = static_cast<int16_t>(i);
    c->idle.sp.store(&c->idle, relaxed);
    std::strcpy(c->idle.name, "idle");
    if (simulated)
      c->attention.store(att_virtual, relaxed);
    else if (!on->has_barrier())
      c->attention.store(att_fence, relaxed);
    workers.push_back(std::move(w));
    carriers.push_back(std::move(c));
  }
  const auto& hoods = neighbourhoods(cpus);
  for (uint32_t hood = 0; hood < hoods.size(); hood++) {
    std::vector<cpu_id> members;
    for (cpu_id cpu : hoods[hood]) {
      worker_of(cpu).hood = hood;
      worker_of(cpu).hood_position = static_cast<uint32_t>(members.size());
      members.push_back(cpu);
    }
    idle_sets[hood].init(std::move(members));
  }
  for (auto& w : workers) order_victims(*w);

  if (!simulated)
    after_fork([] {
      if (carrier* c = this_carrier(); c && !c->home->simulated) set_this_carrier(nullptr);
    });
  on->when_stuck([this] { return break_deadlock(); });
  const bool watch = options.initial.monitor;
  on->start(
      workers.size(), [this](cpu_id cpu) { carrier_main(cpu); },
      watch ? std::function<void()>([this] { monitor_main(); }) : std::function<void()>());
}

// What the hot paths need of the settings, without a pointer to follow.
void scheduler::copy_settings(worker& w, const settings& rule) noexcept {
  w.defer = rule.wake_defer;
  w.pulls = rule.wake_affine;
  w.slot_on = rule.pick_slot;
  w.lifo_max = static_cast<uint32_t>(rule.lifo_max);
  w.fork_here = rule.fork_path == fork_path_t::local;
  w.chains = rule.wake_chain;
  w.ordered = rule.pick_order != pick_order_t::fifo;
  w.order.rules = fair_rules_of(rule, w.home->cpus.cpu_count());
  w.order.hint = rule.preempt_hint;
  w.order.last_buddy = rule.last_buddy;
  w.order.inherits = rule.slot_inherit;
}

// By distance: siblings, cache, node, machine; within a ring starting after oneself, so that thieves spread.
void scheduler::order_victims(worker& w) {
  const size_t n = cpus.cpu_count();
  const auto rank = [&](cpu_id v) {
    if (cpus.share_core(w.cpu, v)) return 0;
    if (cpus.share_llc(w.cpu, v)) return 1;
    return 1 + cpus.distance(w.cpu, v);
  };
  for (size_t k = 1; k < n; k++) w.victims.push_back(to_cpu((index_of(w.cpu) + k) % n));
  std::stable_sort(w.victims.begin(), w.victims.end(), [&](cpu_id a, cpu_id b) { return rank(a) < rank(b); });
  std::vector<char> known(n);
  known[w.hood] = 1;
  for (cpu_id v : w.victims)
    if (!std::exchange(known[worker_of(v).hood], 1)) w.far_hoods.push_back(v);
}

scheduler::~scheduler() {
  if (!leaked) shutdown(shutdown_deadline);
}

// Readers hold a snapshot for one decision; old ones are kept, since nobody says when the last reader is done.
void scheduler::change_settings(const settings& values) {
  std::lock_guard guard(changing);
  const unbroken whole;
  snapshots.push_back(std::make_unique<const settings>(values));
  rules.store(snapshots.back().get(), release);
}

// ---- spawn -----------------------------------------------------------------------------------------------------------

fiber_record& scheduler::prepare_spawn(size_t frame_bytes, size_t frame_align, bool internal) {
  if (refusing.load(relaxed) && !internal) throw shutdown_error("heddle: spawn after shutdown");
  fiber_record* f = nullptr;
  carrier* c = this_carrier();
  if (c && c->home == this) {
    worker& w = reenter(*on, *c);
    // F1: a record whose last fiber is still on its cpu is not taken; the next one is as good.
    if (waitable* first = w.pool; first && (first->sp.load(acquire) || is_planted(mutant::reuse_unsaved))) {
      w.pool = first->next;
      w.pooled--;
      f = as_fiber(first);
    }
    leave(*c);
    if (!f) {
      waitable* batch = pool.take(take_batch);
      f = as_fiber(batch);
      worker& again = reenter(*on, *c);
      for (waitable* rest = batch->next; rest;) {
        waitable* next = rest->next;
        rest->next = again.pool;
        again.pool = rest;
        again.pooled++;
        rest = next;
      }
      leave(*c);
    }
  } else {
    on->check_thread();
    f = as_fiber(pool.take(1));
  }
  HEDDLE_DEBUG_ASSERT(f->sp.load(acquire) != nullptr);
  f->nice = 0;  // until its options say otherwise
  f->idle_class = false;
  clean_stack(*f);
  HEDDLE_DEBUG_ASSERT(frame_align <= cache_line);
  const auto top = reinterpret_cast<uintptr_t>(f->stack_top) - frame_bytes;
  f->frame = reinterpret_cast<void*>(top & ~(std::max<uintptr_t>(frame_align, 16) - 1));
  return *f;
}

void scheduler::unprepare(fiber_record& f) noexcept {
  f.next = nullptr;
  pool.give(&f);
}

void scheduler::renew(fiber_record& f) noexcept {
  if (f.home != this) f.home = this;  // once per record: others may read it
  f.flags = f.pin >= 0 ? ff_restricted : 0;
  if (__builtin_expect(f.nice != 0 || f.idle_class || rules.load(relaxed)->pick_order != pick_order_t::fifo, 0))
    make_special(f);
  f.cancelled.store(0, relaxed);
  f.account.store(0, relaxed);
  f.eh_caught = nullptr;
  f.eh_uncaught = 0;
  f.err = 0;
  f.wake = {};
  f.load.last = nanos{0};
  f.unaccounted_ns.store(0, relaxed);
  f.joiner.store(joiner_none, relaxed);
  f.stop_requested.store(false, relaxed);
  f.waiting_on.store(wait_kind::nothing, relaxed);
  prepare_context(f, &fiber_main);
}

void scheduler::submit(fiber_record& f) {
  renew(f);
  f.live.store(true, relaxed);
  carrier* c = this_carrier();
  if (!c || c->home != this) {
    f.id = (outside_spawned.fetch_add(1, relaxed) + 1) * (workers.size() + 1) + workers.size();
    return start_outside(f);
  }
  worker& w = enter(*c, op::spawn);
  f.id = ++w.spawned * (workers.size() + 1) + index_of(w.cpu);
  w.count.add(counter::spawned);
  worker* to = &w;
  if (__builtin_expect(f.pin >= 0 || !w.fork_here, 0)) to = &place_new(w, f);
  if (to == &w) {
    f.cpu = static_cast<int16_t>(w.cpu);
    maybe_chain(*this, w);  // at every operation that makes work, not only at picks: the maker may be a hog
    push_tail(w, &f);
    return leave(*c);
  }
  f.cpu = static_cast<int16_t>(to->cpu);
  leave(*c);
  push_inbox(*to, &f);
}

// A fiber with a weight or a class of its own, and any under a weighted order.
void scheduler::make_special(fiber_record& f) noexcept {
  const bool idle = f.idle_class && rules.load(relaxed)->idle_class;
  f.fair = {.weight = f.idle_class ? pelt::idle_class_weight : pelt::weight_of(f.nice), .idle_class = idle};
  if (f.nice != 0 || f.idle_class) f.flags |= ff_special;
  if (idle) f.flags |= ff_idle_class;
}

worker& scheduler::place_new(worker& w, const fiber_record& f) noexcept {
  if (f.pin >= 0) {
    bump(w.reasons.fork[static_cast<size_t>(fork_reason::fork_pinned)], 1);
    return worker_of(to_cpu(static_cast<size_t>(f.pin)));
  }
  const fork_placement p =
      place_fork(cpus, domains, said, *rules.load(acquire), {.parent = w.cpu, .allowed = f.allowed});
  bump(w.reasons.fork[static_cast<size_t>(p.reason)], 1);
  bump(w.reasons.probes, p.probes);
  charge(chore::place, p.cpu, p.probes);
  return worker_of(p.cpu);
}

// ---- end of a fiber --------------------------------------------------------------------------------------------------

void scheduler::recycle(worker& w, fiber_record& f) noexcept {
  f.live.store(false, relaxed);
  f.next = w.pool;
  w.pool = &f;
  if (++w.pooled <= pooled_max) return;
  // The colder half goes where other workers and threads can have it.
  waitable* keep = w.pool;
  for (uint32_t i = 1; i < pooled_max / 2; i++) keep = keep->next;
  pool.give(keep->next);
  keep->next = nullptr;
  w.pooled = pooled_max / 2;
}

void scheduler::give_back(fiber_record& f) noexcept {
  carrier* c = this_carrier();
  if (c && c->home == this) {
    worker& w = reenter(*on, *c);
    recycle(w, f);
    return leave(*c);
  }
  f.live.store(false, relaxed);
  f.next = nullptr;
  pool.give(&f);
}

void scheduler::detach(fiber_record& f) noexcept {
  uintptr_t nobody = joiner_none;
  if (f.joiner.compare_exchange_strong(nobody, joiner_detached, acq_rel, acquire)) return;
  drop_error(f);  // it had ended
  give_back(f);
}

// Nobody will ask for the error of a detached fiber.
void scheduler::drop_error(fiber_record& f) noexcept {
  if (!f.error) return;
  if (!is_shutdown(f.error)) die_of(f);
  f.error = nullptr;
}

void scheduler::request_stop(fiber_record& f) noexcept { f.stop_requested.store(true, release); }

uint64_t scheduler::live() const noexcept {
  // Ends first: a fiber that ends between the two looks, having spawned another, must not hide it.
  uint64_t ended = 0;
  for (const auto& w : workers) ended += w->count.value[static_cast<size_t>(counter::finished)].load(acquire);
  uint64_t made = outside_spawned.load(relaxed);
  for (const auto& w : workers) made += w->count.get(counter::spawned);
  return made - ended;
}

// ---- shutdown (design 2b rule 12) ------------------------------------------------------------------------------------

// Stops every carrier by its claim, so that no bracket is open, and cancels every wait that can be cancelled. Plain threads may
// be waking meanwhile: they claim by compare-exchange (wait.h, L3), as we do.
void scheduler::cancel_waits() noexcept {
  std::vector<carrier*> held;
  for (auto& c : carriers) {
    while (!claim_carrier(*on, *c)) on->relax();
    held.push_back(c.get());
  }
  std::vector<fiber_record*> woken;
  pool.for_each([&](fiber_record& f) {
    // The phase first: of a fiber that waits everything stands still, others write theirs.
    const uint64_t word = f.wait_state.load(acquire);
    if (phase_of(word) != wait_phase::waiting || !f.live.load(relaxed) || f.home != this || (f.flags & ff_shielded))
      return;
    if (f.waiting_on.load(relaxed) == wait_kind::nothing) return;
    if (!claim_epoch(f, epoch_of(word), wait_phase::cancelled)) return;
    f.cancelled.store(1, relaxed);
    woken.push_back(&f);
  });
  for (carrier* c : held) unclaim(*c);
  for (fiber_record* f : woken) push_inbox(worker_of(to_cpu(static_cast<size_t>(f->cpu))), f);
}

std::vector<stuck_fiber> scheduler::survivors() const {
  std::vector<stuck_fiber> left;
  pool.for_each([&](fiber_record& f) {
    if (!f.live.load(acquire) || f.joiner.load(acquire) == joiner_done) return;
    left.push_back(describe(f));
  });
  return left;
}

void scheduler::begin_shutdown() noexcept {
  refusing.store(1, seq_cst);
  pool.for_each([](fiber_record& f) { f.stop_requested.store(true, relaxed); });
  cancelling.store(1, seq_cst);
  for (auto& c : carriers) c->attention.fetch_or(att_cancel, seq_cst);
}

bool scheduler::break_deadlock() {
  const std::vector<stuck_fiber> all = survivors();
  if (cancelling.load(relaxed) || all.empty()) return false;
  constexpr size_t lines_max = 20;
  log(severity_error, "deadlock at " + std::to_string(on->now().count()) + " ns: nothing can ever happen again; " +
                          std::to_string(all.size()) + " fibers wait, and their waits now throw shutdown_error");
  for (size_t i = 0; i < std::min(all.size(), lines_max); i++)
    log(severity_error, "fiber " + std::to_string(all[i].id) + " '" + all[i].name + "' waits on " + all[i].waiting_on);
  if (all.size() > lines_max) log(severity_error, "and " + std::to_string(all.size() - lines_max) + " more");
  begin_shutdown();
  cancel_waits();
  return true;
}

std::vector<stuck_fiber> scheduler::shutdown(nanos deadline) {
  if (stopping.load(acquire)) return {};
  begin_shutdown();
  const nanos until = saturating_add(on->now(), deadline);
  // Shielded waits and fibers that were running come round again, so cancel until nothing is left.
  while (live() > 0 && on->now() < until) {
    cancel_waits();
    std::atomic<uint32_t> word{0};
    on->wait(word, 0, std::min(until, on->now() + nanos{1'000'000}));
  }
  std::vector<stuck_fiber> left;
  if (live() > 0) left = survivors();
  stopping.store(1, seq_cst);
  for (auto& w : workers) on->unpark(w->cpu);
  on->poke();
  while (visitors.load(acquire) != 0) on->relax();
  if (!on->join(left.empty() ? never : saturating_add(on->now(), nanos{100'000'000})) || !left.empty()) leaked = true;
  return left;
}

stuck_fiber scheduler::describe(const fiber_record& f) const {
  static constexpr const char* names[] = {"nothing",
                                          "mutex",
                                          "condition_variable",
                                          "counting_semaphore",
                                          "latch",
                                          "barrier",
                                          "channel push",
                                          "channel pop",
                                          "join",
                                          "sleep",
                                          "I/O",
                                          "task"};
  stuck_fiber d{.id = f.id, .name = f.name, .state = "ready", .waiting_on = ""};
  if (phase_of(f.wait_state.load(relaxed)) == wait_phase::waiting) {
    d.state = "waiting";
    d.waiting_on = names[static_cast<size_t>(f.waiting_on.load(relaxed))];
  } else {
    for (const auto& c : carriers)
      if (c->current.load(relaxed) == &f) d.state = "running on cpu " + std::to_string(cpus.os_id(c->cpu));
  }
  return d;
}

}  // namespace heddle::core
