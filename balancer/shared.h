// The few words of balancing that all CPUs of a runtime share. Relaxed hints like the board, written by whoever learns
// something; a lost update costs a search, never a fiber.
#pragma once

#include <memory>
#include <vector>

#include "affinity/domains.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

class balance_shared {
 public:
  // The spans of a domain_tree, which must outlive this.
  explicit balance_shared(const std::vector<std::unique_ptr<sched_span>>& spans);

  // Some CPU has two fibers, so that searching may pay: set on enqueue, recomputed by whoever balances the top level.
  atomic<bool> overloaded{false};
  // The earliest time at which a parked CPU is due (7.9).
  atomic<int64_t> nohz_next_ns{0};
  // With blocked_decay = ilb: some CPU parked with blocked load, and when it is to be aged next.
  atomic<bool> has_blocked{false};
  atomic<int64_t> nohz_age_ns{0};

  // Serialized levels are balanced by one CPU at a time: taken for one level of one pass.
  bool take_token(cpu_id by) noexcept;
  void return_token(cpu_id by) noexcept;

  // Some CPU of the span had two fibers when it was last compared; true before that. Setting ni_spare lives on it.
  bool crowded(const sched_domain& level) const noexcept { return crowded_[index_of(level)].load(relaxed); }
  void set_crowded(const sched_domain& level, bool value) noexcept;

  // Group k of a level was left unbalanced because affinity stood in the way (7.7).
  bool imbalanced(const sched_domain& level, size_t k) const noexcept { return flag(level, k).load(relaxed); }
  void set_imbalanced(const sched_domain& level, size_t k, bool value) noexcept;

 private:
  struct entry {
    const sched_span* span;
    size_t first_flag;
  };
  size_t index_of(const sched_domain& level) const noexcept;
  atomic<bool>& flag(const sched_domain& level, size_t k) const noexcept;

  atomic<int32_t> token_holder_{static_cast<int32_t>(cpu_id::none)};
  std::vector<entry> entries_;  // by address of the span
  std::unique_ptr<atomic<bool>[]> flags_;
  std::unique_ptr<atomic<bool>[]> crowded_;  // as entries_
};

}  // namespace heddle::core
