// The fiber's record: outside its stack, type-stable (a record is never anything else, and its memory lives as long as its
// scheduler), 7 cache lines: an odd number, so that the first lines of a thousand fibers do not fall into the same few sets.
//
// F1 sp == null: published to a waker but not yet off its cpu. Set before publication, overwritten by the switch (release);
//    whoever resumes the fiber or reuses its stack waits for non-null (acquire).
// F2 next belongs to whoever holds the fiber: an inbox, a queue, a pool; one at a time. list_next and list_prev belong to the
//    wait list, under its lock: a fiber that timed out may be queued while still linked there.
// F3 wait_state is (epoch << 3 | phase). The waiter opens an epoch; exactly one party moves it from waiting to another phase:
//    that is the claim (sched/wait.h says who may do it plainly).
#pragma once

#include <cstdint>
#include <exception>

#include "affinity/cpu_set.h"
#include "affinity/placement.h"
#include "balancer/fair.h"
#include "balancer/pelt.h"
#include "heddle/detail/switch.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

class scheduler;
struct locals;

enum class wait_phase : uint64_t { none, waiting, notified, timed_out, cancelled };
constexpr uint64_t wait_word(uint64_t epoch, wait_phase phase) noexcept {
  return epoch << 3 | static_cast<uint64_t>(phase);
}
constexpr uint64_t epoch_of(uint64_t word) noexcept { return word >> 3; }
constexpr wait_phase phase_of(uint64_t word) noexcept { return static_cast<wait_phase>(word & 7); }

enum fiber_flags : uint16_t {
  ff_thread = 1,       // not a fiber: a plain thread that waits (thread_waiter)
  ff_restricted = 2,   // may not run everywhere: pinned or an allowed set
  ff_timed = 4,        // the current wait has a second wake source: claims go by compare-exchange
  ff_special = 8,      // weight, class or group of its own: queues count it (sched/order.cpp)
  ff_idle_class = 16,  // runs where nothing else does; special, too
  ff_shielded = 32,    // waits are not cancelled by shutdown (destructors, relocking)
  ff_handoff = 64,     // mutex: lost the race once, is handed the lock next time
  ff_message = 128,    // not a fiber: timers that move house (inbox)
};

// In `account`, written by the accounting of whoever runs the fiber, read as a hint by wakers.
enum account_flags : uint16_t {
  af_long = 1,     // known to run long between suspensions
  af_suspect = 2,  // timed alone until cleared
};

// What stands in wait lists: the first line of a fiber, or a plain thread's stand-in.
struct alignas(cache_line) waitable : detail::fiber_head {
  waitable* next = nullptr;        // F2
  atomic<uint64_t> wait_state{0};  // F3
  void* eh_caught = nullptr;       // the C++ runtime's per-thread exception state, while the fiber is off its cpu
  uint32_t eh_uncaught = 0;
  int err = 0;  // errno, likewise
  waitable* list_next = nullptr;
  waitable* list_prev = nullptr;
};
static_assert(sizeof(waitable) == cache_line);

// Values of fiber_record::joiner; anything else is the waitable that waits for the end.
inline constexpr uintptr_t joiner_none = 0, joiner_done = 1, joiner_detached = 2;

enum class fiber_state : uint8_t { unused, ready, running, waiting, done };

// What a fiber waits for: shown by dump().
enum class wait_kind : uint8_t {
  nothing,
  mutex,
  condition,
  semaphore,
  latch,
  barrier,
  channel_push,
  channel_pop,
  join,
  sleep,
  io,
  task
};

struct fiber_record : waitable {
  // line 1: waking and joining
  atomic<uintptr_t> joiner{joiner_none};
  uint64_t joiner_wait = 0;  // the joiner's epoch << 1 | timed; written before it publishes itself in `joiner`
  void* wait_arg = nullptr;  // what the primitive hands over (a channel's cell)
  scheduler* home = nullptr;
  const cpu_set* allowed = nullptr;          // null: all
  atomic<const void*> wait_object{nullptr};  // these three are for dump(): a hint, nobody infers anything else
  atomic<int64_t> wait_since{0};
  atomic<wait_kind> waiting_on{wait_kind::nothing};
  int32_t pin = -1;

  // line 2: start and end
  alignas(cache_line) void (*entry)(void* frame) = nullptr;
  void* frame = nullptr;      // closure and result, at the top of the stack
  char* stack_low = nullptr;  // lowest usable byte; the guard lies below
  char* stack_top = nullptr;  // coloured
  std::exception_ptr error;
  uint64_t id = 0;
  locals* local = nullptr;    // fiber-local storage, made at first use
  void* sanitizer = nullptr;  // TSan's fiber, ASan's fake stack

  // line 3: policy memory (affinity/wake.h) and name
  alignas(cache_line) wake_memory wake;
  char name[32] = {};

  // line 4: load tracking and accounting
  alignas(cache_line) pelt::entity load;
  atomic<int64_t> last_ran_ns{0};     // when its last accounted window ended
  atomic<int64_t> unaccounted_ns{0};  // run time not yet in `load` (sched/account.cpp, A2)
  int32_t nice = 0;
  atomic<bool> live{false};
  atomic<bool> stop_requested{false};
  bool idle_class = false;

  // line 5: its place in a weighted order (sched/order.cpp). Not touched for plain fibers under fifo.
  alignas(cache_line) fair_entity fair;
  alignas(cache_line) char spare[cache_line];  // for the odd number
};
static_assert(sizeof(fiber_record) == 7 * cache_line, "design 2b rule 1: at most 512 bytes; an odd number of lines");

// A plain thread that waits in a list: claimed under the list's lock only, so it needs no epoch.
struct thread_waiter : waitable {
  thread_waiter() noexcept { flags = ff_thread; }
  std::atomic<uint32_t> word{0};  // 0 waiting, 1 woken
  void* wait_arg = nullptr;
};

inline fiber_record* as_fiber(waitable* w) noexcept { return static_cast<fiber_record*>(w); }

}  // namespace heddle::core
