// The two records of the mechanism. A worker is the scheduling state of one cpu: queue, inbox, timers. A carrier is the kernel
// thread that runs it. Normally they are married for life; a carrier that is stuck can be dispossessed (rule C1).
//
// C1 `inside`, attention, countdown and the pointers to errno and the exception globals belong to the carrier. A carrier reads
//    its worker only inside the bracket, and again after every slow entry.
// W1 The worker's plain memory (slot, list, timers, pool, counters) is touched only behind the bracket of the carrier that runs
//    it, or under a claim of that carrier (sched/bracket.h).
// W2 `inbox` and `state` share a line: a pusher pays one transfer for both (sched/inbox.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "affinity/board.h"
#include "affinity/idle_marks.h"
#include "balancer/account.h"
#include "balancer/fair.h"
#include "balancer/pelt.h"
#include "balancer/periodic.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"
#include "runtime/base/rng.h"
#include "runtime/fiber/fiber.h"
#include "runtime/sched/counters.h"
#include "runtime/time/timers.h"

namespace heddle::detail {
struct task_deque;
}

namespace heddle::core {

class scheduler;
class io_port;
struct worker;

// Attention: one word, tested by every operation. Others set bits (fetch_or); the owner clears what it has served.
enum attention_bits : uint32_t {
  att_claim = 1,    // somebody took the claim: keep out of the bracket until it is gone
  att_request = 2,  // a thief asks for work
  att_inbox = 4,    // the inbox became non-empty
  att_virtual = 8,  // always set on the virtual machine: every operation is a scheduling point
  att_gone = 16,    // dispossessed: hand the fiber over and become a spare
  att_cancel = 32,  // shutdown: waits throw
  att_io = 128,     // somebody posted to the port (64: bracket.h)
  att_tick = 256,   // the monitor finds that it has not ticked for long: its operations have become rare
};

inline constexpr uint32_t window_segments = 64;

struct exception_globals {
  void* caught;
  unsigned uncaught;
};

struct alignas(cache_line) carrier : detail::carrier_head {
  // The owner's line. The countdown with last_tick is also the evidence of progress (a fiber that yields alone never switches).
  atomic<worker*> runs{nullptr};
  exception_globals* exceptions = nullptr;
  int* err = nullptr;
  uint32_t segments = 0;  // of the accounting window
  int32_t refill = window_segments;
  atomic<int64_t> last_tick{0};

  // Others write.
  alignas(cache_line) atomic<uint32_t> attention{0};

  alignas(cache_line)
      fiber_record* window[window_segments] = {};  // whose segments the window holds (balancer/account.h)
  std::optional<account_policy> account;
#if defined(HEDDLE_INTERLEAVE)
  bool taken_over = false;  // a claimant is past its wait: the owner must not get past its look
#endif
  fiber_record idle;  // the kernel thread itself
  scheduler* home = nullptr;
  cpu_id cpu = cpu_id::none;
  atomic<io_port*> port{nullptr};              // io_port.h, P1
  atomic<detail::task_deque*> tasks{nullptr};  // of the running fiber, or empty (parallel/tasks.h); the owner's

  carrier() = default;
  ~carrier();
  fiber_record* running() const noexcept {
    return static_cast<fiber_record*>(static_cast<waitable*>(current.load(relaxed)));
  }
};

// A balance plan under way (sched/balance.cpp): written by the puller, then by the victim until `answered`.
struct pull {
  bool open = false;
  balance_plan plan;
  pull_outcome outcome;
  int64_t asked_at = 0;
  atomic<uint32_t> answered{0};
};

// What only weighted orders, weights and the idle class need.
struct worker_order {
  fair_rules rules;
  fair_view view;  // of the queue when it was last looked at
  // The view for others: who takes away a fiber that sleeps here needs to know where this queue stood.
  atomic<int64_t> min_v{0};
  atomic<int64_t> mean_v{0};
  int64_t since = 0;              // the running fiber is charged up to here
  waitable* idle_head = nullptr;  // ready fibers of the idle class
  waitable* idle_tail = nullptr;
  int64_t extra_weight = 0;                      // of all runnable ones here beyond nice_0_weight each
  int64_t stayed_ns = 0;                         // the running fiber has not switched for so many ns of ticks
  int64_t slot_ns = 0;                           // the slot has won over the list for so long
  preempt_reason wanted = preempt_reason::none;  // why the running fiber should make room
  bool hint = true;                              // setting preempt_hint
  bool last_buddy = false;
  bool inherits = true;  // setting slot_inherit
};

struct alignas(cache_line) worker {
  // W1. Atomic where others peek; nobody dereferences what they see there.
  atomic<waitable*> slot{nullptr};
  waitable* head = nullptr;
  waitable* tail = nullptr;
  waitable* pool = nullptr;
  board_row* row = nullptr;
  uint32_t pooled = 0;
  uint32_t slot_streak = 0;
  uint64_t switches_seen = 0;  // at the last housekeeping
  uint32_t lifo_max = 3;
  bool all_near = true;  // every cpu is near enough to be pulled from: wake-ups need no look at the topology
  bool defer = true;     // copies of settings, refreshed in the slow entry when the snapshot changed
  bool slot_on = true;
  bool pulls = true;
  bool fork_here = true;
  bool chains = true;
  bool ordered = false;        // pick_order is not fifo (order.cpp)
  uint32_t push_at_yield = 0;  // active push: 1 + the cpu that a lone fiber goes to when it yields, 0 none
  cpu_id cpu = cpu_id::none;
  uint32_t hood = 0;           // which idle set
  uint32_t hood_position = 0;  // in its members
  counters count;
  reason_counters reasons;
  std::optional<idle_marks> marks;  // what this cpu says of its idleness
  uint64_t marks_charged = 0;       // virtual machine: of their writes to shared lines

  timer_heap timers;
  rng random;
  scheduler* home = nullptr;
  uint64_t spawned = 0;
  std::vector<cpu_id> victims;    // by distance, filled at start
  std::vector<cpu_id> far_hoods;  // by distance: a cpu of each other neighbourhood
  int64_t next_housekeeping = 0;
  int64_t watched_until = 0;                       // how far waiting was counted (waiting.cpp)
  int64_t spin_budget_ns = 0;                      // adaptive: how long polling is worth it
  std::optional<balance_state> levels;             // what it remembers of balancing its domains
  std::unique_ptr<level_counters[]> level_counts;  // as `levels`
  core::pull pull;
  uint32_t refused = 0;         // as a thief, in a row, because all was hot (steal.cpp, S5)
  atomic<bool> insists{false};  // refused to park beside work: the next search takes it whatever policy says
  pelt::queue load;             // this cpu's averages
  worker_order order;           // weighted orders and the idle class (order.cpp)
  pelt::removed gone;           // what migrated away from them

  // Others read.
  alignas(cache_line) atomic<carrier*> on{nullptr};
  atomic<int64_t> next_timer{never.count()};
  atomic<uint32_t> slot_movable{0};
  atomic<detail::task_deque*> tasks{nullptr};  // its carrier's, for thieves

  // W2: others write.
  alignas(cache_line) atomic<waitable*> inbox{nullptr};
  atomic<cpu_state> state{cpu_state::running};

  alignas(cache_line) atomic<worker*> request{nullptr};
  atomic<worker*> puller{nullptr};
  atomic<uint32_t> answered{0};
  atomic<uint32_t> guest{0};  // woken by a plain thread that owns this cpu: polling would only steal its time
};

}  // namespace heddle::core
