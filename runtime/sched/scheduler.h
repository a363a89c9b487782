// One runtime: machine, board, workers, carriers, pools. What runtime.h's heddle::runtime owns.
// The parts live in files of their own: wake.cpp (claimed fiber -> queue or inbox), suspend.cpp (pick the next fiber),
// worker_loop.cpp (idle, poll, park), steal.cpp (request, claim, strip), tick.cpp (housekeeping), monitor.cpp (rescue),
// lifecycle.cpp (spawn, exit, shutdown).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "affinity/board.h"
#include "affinity/domains.h"
#include "affinity/topology.h"
#include "runtime/base/settings.h"
#include "runtime/fiber/pool.h"
#include "runtime/parallel/tasks.h"
#include "runtime/sched/bracket.h"
#include "runtime/sched/idle_set.h"
#include "runtime/sched/worker.h"

namespace heddle::core {

struct timer_message;
struct io_shared;  // runtime/io/run.cpp
std::shared_ptr<io_shared> make_io_shared();

struct scheduler_options {
  topology cpus;  // restricted to those that get a worker
  settings initial;
  uint64_t seed = 1;
  size_t stack_bytes = 64 * 1024;
  nanos shutdown_deadline{5'000'000'000};
  std::function<void(int severity, std::string_view)> log;
  std::unique_ptr<machine> on;
};

struct stuck_fiber {
  uint64_t id;
  std::string name, state, waiting_on;
};

// What a waker does next, as far as its primitive knows (setting sync_hint).
enum class waker_intent : uint8_t {
  goes_on,
  writes,  // it handed a message over: the kernel takes that for a sync wake-up, though the writer may well go on
  leaves   // it gives up its cpu right after this: it blocks, or ends
};

class scheduler {
 public:
  explicit scheduler(scheduler_options options);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // ---- lifecycle.cpp: usable from anywhere
  // A record with room for a frame of frame_bytes at the top of its stack; throws when shut down or out of memory.
  // `internal`: even then.
  fiber_record& prepare_spawn(size_t frame_bytes, size_t frame_align, bool internal = false);
  void renew(fiber_record& f) noexcept;      // all that a new life changes
  void submit(fiber_record& f);              // entry and frame are set
  void unprepare(fiber_record& f) noexcept;  // the frame's construction threw
  void give_back(fiber_record& f) noexcept;  // joined or detached and ended: back to a pool
  void detach(fiber_record& f) noexcept;
  void drop_error(fiber_record& f) noexcept;  // of a detached fiber: ends the process unless it is shutdown's
  void request_stop(fiber_record& f) noexcept;
  std::vector<stuck_fiber> shutdown(nanos deadline);
  void begin_shutdown() noexcept;
  void cancel_waits() noexcept;
  void change_settings(const settings& values);
  std::vector<stuck_fiber> survivors() const;
  bool break_deadlock();  // nothing can ever happen: names who waits on what, then shuts down
  uint64_t live() const noexcept;

  // ---- wake.cpp: a claimed fiber becomes ready
  // Inside c's bracket. Null: queued here. Else the worker to push to, after leave.
  worker* ready(carrier& c, worker& w, fiber_record& f, waker_intent intent = waker_intent::goes_on) noexcept;
  // Outside any bracket of this scheduler (plain threads, other schedulers' carriers).
  void ready_from_outside(fiber_record& f) noexcept;
  worker* place_ready(carrier& c, worker& w, fiber_record& f, waker_intent intent) noexcept;
  placement place_claimed(const wakeup& k, reason_counters& reasons) noexcept;
  worker* place_outside(fiber_record& f) noexcept;
  void chain(worker& w) noexcept;
  void chain_far(worker& w) noexcept;
  void unpark(worker& w) noexcept;
  // The virtual machine counts what policy and mechanism do; the host's clock sees it by itself.
  void charge(chore what, cpu_id about, uint64_t count = 1) noexcept {
    if (__builtin_expect(simulated, 0)) on->charge(what, about, count);
  }
  void charge_marks(worker& w) noexcept;

  // ---- worker_loop.cpp, steal.cpp, tick.cpp, monitor.cpp
  void carrier_main(cpu_id cpu);
  void idle(carrier& c, worker& w);
  bool search(carrier& c, worker& w);
  bool ask_or_claim(worker& thief, worker& victim);
  bool work_in_sight(worker& w) noexcept;
  waitable* strip(worker& victim, uint32_t want, bool timers_move, uint32_t& taken, timer_message*& moving);
  void answer_request(worker& w) noexcept;
  void tick(carrier& c, worker& w);
  void housekeep(worker& w, int64_t now) noexcept;
  balance_world world(const settings& rule) noexcept;  // balance.cpp
  void balance(worker& w, int64_t now) noexcept;
  bool newidle(worker& w) noexcept;
  void balance_idle(worker& w) noexcept;
  void balance_for_parked(worker& w) noexcept;
  void ask(worker& w, const balance_plan& plan, int64_t now) noexcept;
  bool withdraw(worker& w) noexcept;
  void answer_pull(worker& v) noexcept;
  void honour_push(worker& w) noexcept;
  void kick_idle(worker& w, int64_t now) noexcept;
  void close_window(carrier& c, worker& w, int64_t now, bool with_running) noexcept;  // account.cpp
  void skip_idle_time(carrier& c, worker& w, int64_t now) noexcept;
  void settle(fiber_record& f, nanos now, bool woken = false) noexcept;
  bool age_parked(worker& w, nanos now) noexcept;
  void leave_load(worker& from, fiber_record& f, nanos now) noexcept;
  void fire_timers(worker& w, nanos now) noexcept;
  void monitor_main();
  void rescue(worker& stuck, const std::vector<char>& moved);
  void recycle(worker& w, fiber_record& f) noexcept;  // inside the bracket
  void order_victims(worker& w);
  worker& place_new(worker& w, const fiber_record& f) noexcept;
  void make_special(fiber_record& f) noexcept;
  static void copy_settings(worker& w, const settings& rule) noexcept;
  void start_outside(fiber_record& f) noexcept;  // a new fiber, from a plain thread
  stuck_fiber describe(const fiber_record& f) const;

  // ---- parallel/tasks.cpp
  bool steal_task(carrier& c, worker& w, bool patient);
  void close_gates(worker& w) noexcept;

  // ---- data
  topology cpus;
  domain_tree domains;
  board said;
  std::unique_ptr<balance_shared> balancing;
  std::unique_ptr<machine> on;
  fiber_pool pool;
  deque_pool tasks;
  std::vector<std::unique_ptr<worker>> workers;
  std::vector<std::unique_ptr<carrier>> carriers;
  std::unique_ptr<idle_set[]> idle_sets;                   // per neighbourhood: an LLC, or a node
  atomic<const settings*> rules;                           // the current snapshot
  std::vector<std::unique_ptr<const settings>> snapshots;  // all that ever were: a reader may still hold one
  std::function<void(int, std::string_view)> log;
  nanos shutdown_deadline;
  uint64_t seed;
  atomic<uint32_t> stopping{0};    // carriers leave
  atomic<uint32_t> refusing{0};    // spawns are refused
  atomic<uint32_t> cancelling{0};  // waits throw
  atomic<uint32_t> monitor_sleeps{0};
  // Outsiders amid a wake-up: the fiber may end, and shutdown begin, before they have left.
  atomic<uint32_t> visitors{0};
  atomic<uint32_t> forks{0};    // somebody has ever forked a task: idle workers look for some
  atomic<uint64_t> rescues{0};  // by the monitor
  atomic<uint64_t> outside_spawned{0};
  atomic<uint64_t> outside_released{0};
  std::shared_ptr<io_shared> io = make_io_shared();
  std::mutex changing;  // snapshots
  bool leaked = false;
  scheduler* abandoned_before = nullptr;
  bool simulated = false;  // on the virtual machine
  bool preempts = false;   // there, and its cpus can be interrupted

  worker& worker_of(cpu_id cpu) const noexcept { return *workers[index_of(cpu)]; }
  idle_set& idle_set_of(const worker& w) const noexcept { return idle_sets[w.hood]; }
};

void attach_load(worker& w, fiber_record& f) noexcept;

// The carrier of this kernel thread, or null on a plain thread.
#if HEDDLE_SWITCH_INSIDE
// A fiber that switched inside a function would read the thread-local of the carrier it left (and TSan would take it for a
// race), so these builds go through an opaque call.
carrier* this_carrier() noexcept;
#else
extern constinit thread_local carrier* current_carrier;
[[gnu::always_inline]] inline carrier* this_carrier() noexcept { return current_carrier; }
#endif
void set_this_carrier(carrier* c) noexcept;

}  // namespace heddle::core
