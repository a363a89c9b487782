// A worker's timers: a 4-ary heap of {deadline, fiber, epoch}. Cancelling is free: a wait that ended by other means has moved
// its fiber's epoch on, and the node is stale. Stale nodes are swept when the heap has doubled since the last sweep, so both
// insertion and cancellation are O(log n) and O(1) amortised. Behind the worker's bracket (worker.h, W1).
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "runtime/fiber/fiber.h"

namespace heddle::core {

struct timer {
  int64_t at;
  uint64_t order;  // among equal deadlines first armed, first served
  fiber_record* fiber;
  uint64_t epoch;

  bool stale() const noexcept { return fiber->wait_state.load(relaxed) != wait_word(epoch, wait_phase::waiting); }
};

class timer_heap {
 public:
  bool empty() const noexcept { return nodes_.empty(); }
  size_t size() const noexcept { return nodes_.size(); }
  int64_t first() const noexcept { return nodes_.empty() ? never.count() : nodes_.front().at; }

  // Returns how many stale nodes a sweep removed.
  size_t arm(nanos at, fiber_record& fiber, uint64_t epoch);
  timer pop();
  // Everything, in no order; the heap is empty afterwards. For a timer that moves house.
  std::vector<timer> take_all();

 private:
  size_t sweep();
  void sift_up(size_t i) noexcept;
  void sift_down(size_t i) noexcept;

  std::vector<timer> nodes_;
  uint64_t order_ = 0;
  size_t sweep_at_ = 64;
};

}  // namespace heddle::core
