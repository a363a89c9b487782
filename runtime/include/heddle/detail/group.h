// What task_group keeps, out of line: the calls that were handed in and not begun, and how many have not ended. No stability promise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "heddle/detail/tasks.h"
#include "heddle/sync.h"

namespace heddle::core {
class scheduler;
}

namespace heddle::detail {

struct group_node {
  static constexpr size_t inline_bytes = 48;
  group_node* next;
  void (*call)(group_node&);  // calls the body and destroys it
  alignas(16) unsigned char body[inline_bytes];
};

class group_core {
 public:
  explicit group_core(core::scheduler& on) noexcept : on_(&on) {}
  group_core(const group_core&) = delete;
  group_core& operator=(const group_core&) = delete;

  group_node& take_node();
  void give_node(group_node& n) noexcept;
  void push(group_node& n);
  void wait() noexcept;  // until all have ended; helps
  std::exception_ptr take_error() noexcept;

 private:
  struct rest;
  void drain(rest& r);
  void help();
  group_node* take_batch(rest& r) noexcept;
  void ended() noexcept;
  void lock() noexcept;
  void unlock() noexcept { lock_.store(0, std::memory_order_release); }
  static void enter_rest(task& t);
  static void enter_fiber(void* frame);

  core::scheduler* on_;
  // Under lock_, held for a few instructions.
  std::atomic<uint32_t> lock_{0};
  bool draining_ = false;  // somebody will look at the list again
  group_node* head_ = nullptr;
  group_node* tail_ = nullptr;
  group_node* free_ = nullptr;
  std::vector<std::unique_ptr<group_node[]>> blocks_;

  alignas(64) std::atomic<uint64_t> pending_{0};
  mutex last_;  // guards the end of the last one, and the error
  condition_variable none_left_;
  std::exception_ptr error_;
};

}  // namespace heddle::detail
