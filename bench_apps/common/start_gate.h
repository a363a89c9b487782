// Where the roles of a fixed amount of work wait for each other: everybody says that it is ready, the director releases all
// at once and takes the time. Creation is over by then and does not count.
#pragma once

#include <cstdint>
#include <mutex>

#include "bench_apps/common/backend.h"

namespace heddle::bench {

template <backend B>
class start_gate {
 public:
  explicit start_gate(int64_t roles) : missing_(roles) {}

  // A role, when it is ready. False: the start was called off, leave.
  bool arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) complete_.notify_one();
    while (state_ == state::closed) opened_.wait(lock);
    return state_ == state::open;
  }

  // The director.
  void await_all() {
    std::unique_lock lock(mutex_);
    while (missing_ > 0) complete_.wait(lock);
  }
  void open() { set(state::open); }
  void call_off() { set(state::called_off); }  // a role could not be made; those that were must not wait for it

 private:
  enum class state { closed, open, called_off };

  void set(state to) {
    {
      const std::lock_guard guard(mutex_);
      state_ = to;
    }
    opened_.notify_all();
  }

  typename B::mutex mutex_;
  typename B::condition_variable complete_, opened_;
  int64_t missing_;
  state state_ = state::closed;
};

}  // namespace heddle::bench
