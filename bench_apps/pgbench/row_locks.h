// Two-phase row locks with first-come-first-served waiters. A row names its holder; who must wait queues up and parks, and
// the one that unlocks hands the row to the first in the queue, so that nobody can overtake. Deadlock cannot happen because every
// script locks accounts, then tellers, then branches.
#pragma once

#include <array>
#include <mutex>

#include "bench_apps/common/backend.h"
#include "bench_apps/pgbench/storage.h"
#include "runtime/base/check.h"

namespace heddle::bench::pgbench {

template <backend B>
class row_locks {
 public:
  static constexpr uint32_t nobody = 0;

  // `granted` is the caller's own; it is posted once when the row is handed over. How long that took; zero without a wait.
  nanos lock(B& b, row& r, uint32_t session, typename B::word& granted) {
    partition& p = partition_of(r);
    waiter self{.target = &r, .session = session, .granted = &granted};
    {
      const std::lock_guard guard(p.latch);
      if (r.holder == nobody) return r.holder = session, nanos{0};
      (p.last ? p.last->next : p.first) = &self;
      p.last = &self;
    }
    const nanos since = b.now();
    granted.wait();
    HEDDLE_DEBUG_ASSERT(r.holder == session);
    return std::max(b.now() - since, nanos{1});
  }

  void unlock(row& r) {
    partition& p = partition_of(r);
    typename B::word* granted = nullptr;
    {
      const std::lock_guard guard(p.latch);
      r.holder = nobody;
      if (waiter* next = take_first(p, r)) {
        r.holder = next->session;
        granted = next->granted;
      }
    }
    if (granted) granted->post();  // outside the latch: whoever wakes must not run into it
  }

  // How many wait for the row; for tests and for who looks on.
  int waiting(const row& r) {
    partition& p = partition_of(r);
    const std::lock_guard guard(p.latch);
    int count = 0;
    for (const waiter* w = p.first; w; w = w->next) count += w->target == &r;
    return count;
  }

 private:
  // Lives on the stack of the task that waits, which does not return before it is granted.
  struct waiter {
    row* target;
    uint32_t session;
    typename B::word* granted;
    waiter* next = nullptr;
  };
  // A short latch per group of rows; queues of different rows of a group share one list, in order of arrival.
  struct alignas(core::cache_line) partition {
    typename B::mutex latch;
    waiter* first = nullptr;
    waiter* last = nullptr;
  };

  waiter* take_first(partition& p, const row& r) {
    waiter* before = nullptr;
    for (waiter* w = p.first; w; before = w, w = w->next) {
      if (w->target != &r) continue;
      (before ? before->next : p.first) = w->next;
      if (p.last == w) p.last = before;
      return w;
    }
    return nullptr;
  }

  partition& partition_of(const row& r) {
    const auto line = reinterpret_cast<uintptr_t>(&r) / sizeof(row);
    return partitions_[(line * 0x9e3779b97f4a7c15u) >> (64 - partition_bits)];
  }

  static constexpr int partition_bits = 9;
  std::array<partition, size_t{1} << partition_bits> partitions_;
};

}  // namespace heddle::bench::pgbench
