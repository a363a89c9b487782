// Who has had how much of a CPU, and who is next by that: CFS's virtual runtime and EEVDF's eligible deadline (policy-reference
// 9.1, 9.2), and when the one that runs should make room. Values in, decisions out; nothing here knows a queue.
//
// Virtual time passes at 1024/weight of real time, so that equal virtual times are service in proportion to the weights. It is
// a CPU's own: who moves takes along only the distance to where its queue stood (leave_queue, join_queue).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "balancer/pelt.h"
#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

// The settings as plain numbers, tunable_scaling applied.
struct fair_rules {
  pick_order_t order = pick_order_t::fifo;
  int64_t base_slice = 0;  // ns, like all of these
  int64_t latency = 0;
  int64_t min_granularity = 0;
  int64_t wakeup_gran = 0;
  bool gentle = true;
  bool start_debit = true;
  bool wakeup_preemption = true;
  bool run_to_parity = true;
  bool place_lag = true;

  bool weighted() const noexcept { return order != pick_order_t::fifo; }
};
fair_rules fair_rules_of(const settings& set, size_t cpu_count) noexcept;

// A fiber's account. Lies in its record, written by whoever owns the fiber.
struct fair_entity {
  int64_t v = 0;         // virtual runtime
  int64_t deadline = 0;  // virtual, of the present request (EEVDF)
  int64_t lag = 0;       // what it was owed when it left (EEVDF)
  int64_t ran = 0;       // ns since it was picked
  uint32_t weight = pelt::nice_0_weight;
  bool fresh = true;    // was never placed
  bool asleep = false;  // placed anew when it comes back
  bool away = false;    // between two queues: its times are distances
  bool idle_class = false;
};

// What a queue looks like to who is placed on it: all that compete, the running one included.
struct fair_view {
  int64_t min_v = 0;   // never goes back
  int64_t mean_v = 0;  // V: the mean virtual time by weight
  int64_t weight = 0;
  uint32_t nr = 0;
};

// Service of `exec` as virtual time.
constexpr int64_t virtual_time(int64_t exec, uint32_t weight) noexcept {
  return weight == pelt::nice_0_weight ? exec : exec * pelt::nice_0_weight / weight;
}

// How long one of `nr` fibers may run before another's turn.
int64_t slice_of(const fair_rules& rules, uint32_t weight, int64_t total_weight, uint32_t nr) noexcept;

// It ran for `exec`. EEVDF: a used-up request is followed by the next.
void charge(const fair_rules& rules, fair_entity& f, int64_t exec) noexcept;

// ---- where a fiber begins, between those that compete
// It blocks or ends.
void sleep_on(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept;
// It is new, or woken on the queue where it went to sleep.
void place(const fair_rules& rules, const fair_view& queue, fair_entity& f) noexcept;
// It goes from one queue to another, asleep or ready; between the two its times are distances.
void leave_queue(const fair_rules& rules, const fair_view& from, fair_entity& f) noexcept;
void join_queue(const fair_rules& rules, const fair_view& to, fair_entity& f) noexcept;

// ---- who is next
// Sums over those that compete: offer each once, then ask.
class fair_sums {
 public:
  void add(const fair_entity& f) noexcept {
    if (nr_ == 0) zero_ = f.v;
    weighted_ += (f.v - zero_) * f.weight;
    lowest_ = nr_ == 0 ? f.v : std::min(lowest_, f.v);
    weight_ += f.weight;
    nr_++;
  }
  // Nobody owes it anything any more: v <= V, without the rounding of V.
  bool eligible(const fair_entity& f) const noexcept { return weighted_ >= (f.v - zero_) * weight_; }
  fair_view view(int64_t min_v_before) const noexcept;

 private:
  int64_t zero_ = 0, weighted_ = 0, weight_ = 0, lowest_ = 0;
  uint32_t nr_ = 0;
};

// Is `a` to run before `b`?
inline bool goes_first(const fair_rules& rules, const fair_sums& sums, const fair_entity& a,
                       const fair_entity& b) noexcept {
  if (rules.order != pick_order_t::eevdf) return a.v < b.v;
  const bool a_may = sums.eligible(a), b_may = sums.eligible(b);
  return a_may != b_may ? a_may : a.deadline < b.deadline;
}

// The first of those that `each` offers; `each(visit)` calls visit(entity) once for everybody. Index, or -1.
template <class Each>
int choose(const fair_rules& rules, const fair_sums& sums, Each&& each) noexcept {
  int best = -1, i = 0;
  const fair_entity* first = nullptr;
  each([&](const fair_entity& f) {
    if (!first || goes_first(rules, sums, f, *first)) {
      first = &f;
      best = i;
    }
    i++;
  });
  return best;
}

// The buddy in the slot goes before `first`, the queue's choice, while that is not too unfair (9.3). fifo has no measure of
// fairness: the slot wins.
bool buddy_may_run(const fair_rules& rules, const fair_sums& sums, const fair_entity& buddy,
                   const fair_entity* first) noexcept;

// One that yields goes on nevertheless: the queue's choice is not within reach of it.
bool keeps(const fair_rules& rules, const fair_sums& sums, const fair_entity& yielder,
           const fair_entity& first) noexcept;

// ---- when the running fiber should make room
#define HEDDLE_PREEMPT_REASONS(X)                                   \
  X(none, "goes on")                                                \
  X(slice_used, "ran for its slice, and another waits")             \
  X(behind, "the one that waits is behind it by more than a slice") \
  X(wakeup, "the wakee has a better claim")                         \
  X(idle_class, "an idle-class fiber makes room for any other")

enum class preempt_reason : uint8_t {
#define X(name, meaning) name,
  HEDDLE_PREEMPT_REASONS(X)
#undef X
};
std::string_view to_string(preempt_reason reason) noexcept;

// At a tick. `first`: who would run next, null if nobody waits.
preempt_reason tick_preempts(const fair_rules& rules, const fair_view& queue, const fair_entity& running,
                             const fair_entity* first) noexcept;
// `wakee` has just been placed on the queue of `running`.
preempt_reason wakeup_preempts(const fair_rules& rules, const fair_view& queue, const fair_entity& running,
                               const fair_entity& wakee) noexcept;

}  // namespace heddle::core
