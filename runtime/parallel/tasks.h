// The slow half of fork-join, as the scheduler sees it: deques that travel between carriers and fibers, and stealing from them.
// The protocol and its proof: README.md.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "heddle/detail/tasks.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

using detail::task;
using detail::task_deque;

class scheduler;
struct carrier;
struct worker;
struct fiber_record;

// Type-stable: a thief may look at a deque whose owner has changed (T9).
struct deque_record : task_deque {
  fiber_record* runner = nullptr;  // T8: ready to be posted while the deque is listed
  deque_record* next = nullptr;    // in the pool
};

class deque_pool {
 public:
  deque_record& take();
  void give(deque_record& d) noexcept;

 private:
  std::mutex lock_;
  std::vector<std::unique_ptr<deque_record>> all_;
  deque_record* free_ = nullptr;
};

// A fiber of its own that calls entry(&argument), which may not throw; from anywhere.
void start_task(scheduler& s, void (*entry)(void*), void* argument);

// While it lives, shutdown does not end this fiber's waits: others use its stack.
class shielded {
 public:
  shielded() noexcept;
  ~shielded();
  shielded(const shielded&) = delete;
  shielded& operator=(const shielded&) = delete;

 private:
  fiber_record* me_;  // null: a plain thread, or it was shielded already
};

// The running fiber is about to give up its cpu with tasks pending: they become everybody's. Inside c's bracket.
void leave_tasks(carrier& c, worker& w) noexcept;
// This kernel thread runs `c` now (null: none).
void show_tasks(const carrier* c) noexcept;

// Something in it that a thief could take, now or by claim.
bool has_tasks(const task_deque& d) noexcept;

}  // namespace heddle::core
