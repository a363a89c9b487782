// What a worker counts about itself: one writer, read by stats() at any time. Reasons of placements are counted by their own
// names (affinity/wake.h).
#pragma once

#include <cstdint>

#include "affinity/fork.h"
#include "affinity/placement.h"
#include "balancer/reasons.h"
#include "runtime/base/atomic.h"
#include "runtime/sched/level_counters.h"

// name, meaning
#define HEDDLE_COUNTERS(X)                                                                       \
  X(spawned, "fibers made")                                                                      \
  X(finished, "fibers ended")                                                                    \
  X(switches, "switches counted at the accounting windows")                                      \
  X(wakes_remote, "of these, pushed to another cpu's inbox")                                     \
  X(unparks, "sleeping cpus woken, a system call each")                                          \
  X(parks, "times this cpu went to sleep")                                                       \
  X(polls_won, "times polling found work before the budget ended")                               \
  X(idle_spin_ns, "time spent polling")                                                          \
  X(idle_park_ns, "time spent asleep")                                                           \
  X(inbox_taken, "fibers accepted from the inbox")                                               \
  X(steals, "searches that found work")                                                          \
  X(answered, "requests of thieves answered")                                                    \
  X(claims, "queues taken over from a cpu that stood still")                                     \
  X(claims_empty, "claims that found nothing")                                                   \
  X(chained, "halves pushed to an idle cpu (wake chain)")                                        \
  X(stolen_from, "fibers given away")                                                            \
  X(timers_fired, "timers that ended a wait")                                                    \
  X(timers_swept, "stale timers removed")                                                        \
  X(waited_switch, "resumptions that had to wait for the fiber's last switch")                   \
  X(rescues, "rescues by the monitor")                                                           \
  X(ticks, "housekeeping points")                                                                \
  X(migrations, "fibers resumed on another cpu than before")                                     \
  X(balance_runs, "balance passes")                                                              \
  X(balance_moved, "balance passes that asked for work")                                         \
  X(kicks, "sleeping cpus woken by a busy one's tick to look for work")                          \
  X(newidle_gated, "times a cpu idled without a search: too briefly, or nobody had two fibers")  \
  X(newidle_tried, "searches of a cpu about to idle")                                            \
  X(newidle_won, "of these, ended by work that arrived")                                         \
  X(moved_by_chain, "ready fibers handed to an idle cpu by the one that had them")               \
  X(moved_by_steal, "given to a thief that asked")                                               \
  X(moved_by_newidle, "pulled by a cpu about to idle")                                           \
  X(moved_by_balance, "pulled by a periodic balance")                                            \
  X(moved_by_push, "sent away because a balance asked for them")                                 \
  X(hot_skipped, "fibers not given away because they were cache-hot")                            \
  X(moved_by_claim, "taken from a cpu that stood still")                                         \
  X(newidle_ns, "time spent in newidle searches")                                                \
  X(wake_busy_idle_llc, "wake-ups put behind another fiber while a cpu of that cache idled")     \
  X(wake_busy_idle_machine, "the same while a cpu elsewhere idled")                              \
  X(wait_ns, "time that ready fibers waited in this queue, as its ticks saw it")                 \
  X(idle_while_waiting_core_ns, "of it, while a sibling idled where one of them might have run") \
  X(idle_while_waiting_llc_ns, "the same: nobody nearer than a cpu of that cache idled")         \
  X(idle_while_waiting_node_ns, "the same: of that node")                                        \
  X(idle_while_waiting_machine_ns, "the same: of another node")                                  \
  X(tasks_stolen, "forked tasks run elsewhere")                                                  \
  X(tasks_taken_over, "of these, taken without the owner's help")                                \
  X(tasks_offered, "idle cpus sent to steal tasks")                                              \
  X(tasks_awaited, "parents that suspended until a stolen task had ended")                       \
  X(io_started, "operations handed to the kernel or to a helper thread")                         \
  X(io_ended, "of these, ended: the difference is in flight")                                    \
  X(io_enters, "system calls that submitted or reaped")                                          \
  X(io_cancels, "operations called off: deadline, stop token, shutdown, close")                  \
  X(uring_busy_retries, "times the kernel refused submissions until completions were reaped")    \
  X(run_ns, "time running fibers, from accounting")

namespace heddle::core {

enum class counter : uint32_t {
#define HEDDLE_COUNTER_ID(name, meaning) name,
  HEDDLE_COUNTERS(HEDDLE_COUNTER_ID)
#undef HEDDLE_COUNTER_ID
      count_
};
inline constexpr size_t counter_count = static_cast<size_t>(counter::count_);

const char* counter_name(counter which) noexcept;
const char* counter_meaning(counter which) noexcept;

struct counters {
  atomic<uint64_t> value[counter_count]{};

  void add(counter which, uint64_t by = 1) noexcept { bump(value[static_cast<size_t>(which)], by); }
  // For the one that others conclude something from (scheduler::live).
  void publish(counter which) noexcept {
    auto& v = value[static_cast<size_t>(which)];
    v.store(v.load(relaxed) + 1, release);
  }
  uint64_t get(counter which) const noexcept { return value[static_cast<size_t>(which)].load(relaxed); }
};

// Placements by reason; names from the lists beside the enums.
struct reason_counters {
  atomic<uint64_t> wake[wake_reason_count]{};
  atomic<uint64_t> affine[affine_reason_count]{};
  atomic<uint64_t> fork[fork_reason_count]{};
  atomic<uint64_t> wide{0}, slow{0}, burst{0}, probes{0}, lost_races{0};
  atomic<uint64_t> searches{0}, searches_failed{0};  // of these placements, those that looked at more than they knew
  // By what waker and wakee no longer share: woken on another cpu than the waker's, and pulled from its own.
  reach_counters woken{}, pulled{}, migrated{};

  atomic<uint64_t> balance[balance_reason_names.size()]{};

  void add(balance_reason r) noexcept { bump(balance[static_cast<size_t>(r)], 1); }
  void add(wake_reason r) noexcept { bump(wake[static_cast<size_t>(r)], 1); }
  void add(const placement& p) noexcept {
    add(p.reason);
    bump(affine[static_cast<size_t>(p.affine)], 1);
    if (p.probes > 0) {
      bump(probes, p.probes);
      bump(searches, 1);
      if (p.reason == wake_reason::wake_miss) bump(searches_failed, 1);
    }
    if (p.wide) bump(wide, 1);
    if (p.slow) bump(slow, 1);
    if (p.burst) bump(burst, 1);
  }
};

}  // namespace heddle::core
