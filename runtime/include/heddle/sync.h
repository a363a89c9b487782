// Synchronisation from fibers and plain threads alike: names and meaning are the standard's. A fiber that waits gives its worker
// to others; a plain thread blocks. Nothing here needs a runtime to exist. Waits throw shutdown_error while a fiber's runtime
// shuts down.
#pragma once

#include <chrono>
#include <condition_variable>  // std::cv_status
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>  // std::unique_lock
#include <utility>

#include "heddle/detail/deadline.h"
#include "heddle/detail/runtime.h"
#include "heddle/detail/wait_list.h"

namespace heddle::core {
struct waitable;
struct carrier;
}  // namespace heddle::core

namespace heddle {

// Not recursive. Waiters are served in order, but a running fiber may take a free lock first; a waiter that lost once is handed it.
class mutex {
 public:
  constexpr mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  [[gnu::always_inline]] inline void lock() {
    uint32_t free = 0;
    if (__builtin_expect(word_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed),
                         1))
      return;
    lock_slow();
  }
  bool try_lock() noexcept {
    uint32_t free = 0;
    return word_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::always_inline]] inline void unlock() {
    uint32_t alone = 1;
    if (__builtin_expect(word_.compare_exchange_strong(alone, 0, std::memory_order_release, std::memory_order_relaxed),
                         1))
      return;
    unlock_slow();
  }

 private:
  friend class condition_variable;
  void lock_slow();
  void unlock_slow();
  core::waitable* unlock_inside(core::carrier* c) noexcept;

  detail::wait_list waiters_;
  std::atomic<uint32_t> word_{0};  // 0 free, 1 locked, 2 locked and somebody may wait
};

class condition_variable {
 public:
  constexpr condition_variable() noexcept = default;
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  void notify_one() noexcept;
  void notify_all() noexcept;

  void wait(std::unique_lock<mutex>& lock);
  template <class Predicate>
  void wait(std::unique_lock<mutex>& lock, Predicate ready) {
    while (!ready()) wait(lock);
  }
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d) {
    return wait_deadline(lock, detail::deadline_in(d)) ? std::cv_status::no_timeout : std::cv_status::timeout;
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& t) {
    return wait_deadline(lock, detail::deadline_at(t)) ? std::cv_status::no_timeout : std::cv_status::timeout;
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d, Predicate ready) {
    const int64_t deadline = detail::deadline_in(d);
    while (!ready())
      if (!wait_deadline(lock, deadline)) return ready();
    return true;
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& t, Predicate ready) {
    while (!ready())
      if (wait_until(lock, t) == std::cv_status::timeout) return ready();
    return true;
  }

 private:
  bool wait_deadline(std::unique_lock<mutex>& lock, int64_t deadline_ns);  // false: timed out
  void notify(uint32_t most) noexcept;

  detail::wait_list waiters_;
};

template <std::ptrdiff_t LeastMax = std::numeric_limits<int32_t>::max()>
class counting_semaphore;

namespace detail {

struct semaphore_core {
  wait_list waiters;
  std::ptrdiff_t count;

  constexpr explicit semaphore_core(std::ptrdiff_t desired) noexcept : count(desired) {}
  bool acquire_until(int64_t deadline_ns);
  bool try_acquire() noexcept;
  void release(std::ptrdiff_t n) noexcept;
  void release_one() noexcept;
};
switch_target pick_acquire(semaphore_core& s);

}  // namespace detail

template <std::ptrdiff_t LeastMax>
class counting_semaphore {
 public:
  constexpr explicit counting_semaphore(std::ptrdiff_t desired) noexcept : core_(desired) {}
  counting_semaphore(const counting_semaphore&) = delete;
  counting_semaphore& operator=(const counting_semaphore&) = delete;
  static constexpr std::ptrdiff_t max() noexcept { return LeastMax; }

  [[gnu::always_inline]] inline void acquire() { detail::suspend(detail::pick_acquire(core_)); }
  bool try_acquire() noexcept { return core_.try_acquire(); }
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) {
    return core_.acquire_until(detail::deadline_in(d));
  }
  template <class Clock, class Duration>
  bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& t) {
    return core_.acquire_until(detail::deadline_at(t));
  }
  // Wakes up to n waiters, in order; never suspends.
  void release(std::ptrdiff_t n = 1) noexcept {
    if (__builtin_expect(n == 1, 1))
      core_.release_one();
    else
      core_.release(n);
  }

 private:
  detail::semaphore_core core_;
};
using binary_semaphore = counting_semaphore<1>;

class latch {
 public:
  constexpr explicit latch(std::ptrdiff_t expected) noexcept : left_(expected) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  void count_down(std::ptrdiff_t n = 1) noexcept;
  bool try_wait() const noexcept { return left_.load(std::memory_order_acquire) == 0; }
  void wait() const;
  void arrive_and_wait(std::ptrdiff_t n = 1) {
    count_down(n);
    wait();
  }

 private:
  mutable detail::wait_list waiters_;
  std::atomic<std::ptrdiff_t> left_;
};

namespace detail {

struct barrier_core {
  wait_list waiters;
  std::ptrdiff_t expected, left;
  uint64_t phase = 0;

  constexpr explicit barrier_core(std::ptrdiff_t n) noexcept : expected(n), left(n) {}
  // True for the last arrival, which completes the phase and then calls release().
  bool arrive(std::ptrdiff_t n, bool drop, uint64_t& phase_out) noexcept;
  void release() noexcept;
  void wait(uint64_t phase_arrived);
};

struct no_completion {
  void operator()() const noexcept {}
};

}  // namespace detail

template <class Completion = detail::no_completion>
class barrier {
 public:
  class arrival_token {
   public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend class barrier;
    explicit arrival_token(uint64_t phase) : phase_(phase) {}
    uint64_t phase_;
  };

  constexpr explicit barrier(std::ptrdiff_t expected, Completion completion = {})
      : core_(expected), completion_(std::move(completion)) {}
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1) { return arrival_token(arrive_some(n, false)); }
  void wait(arrival_token&& token) { core_.wait(token.phase_); }
  void arrive_and_wait() { wait(arrive()); }
  void arrive_and_drop() { arrive_some(1, true); }

 private:
  uint64_t arrive_some(std::ptrdiff_t n, bool drop) {
    uint64_t phase = 0;
    if (core_.arrive(n, drop, phase)) {
      completion_();
      core_.release();
    }
    return phase;
  }

  detail::barrier_core core_;
  Completion completion_;
};

}  // namespace heddle
