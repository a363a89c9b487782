// The atomics of the build `interleave`: std::atomic, except that every access first calls whoever installed himself as
// the schedule. What such a schedule does is its own matter: nap now and then, let another CPU of the virtual machine run.
// Included by runtime/base/atomic.h alone.
#pragma once

#include <atomic>

namespace heddle::core {

// Called before each access, on the accessing thread, with whatever the caller holds; it must not use a core::atomic.
using interleave_fn = void (*)() noexcept;

inline constinit std::atomic<interleave_fn> interleave_schedule{nullptr};

// Null (the beginning): accesses are plain.
inline void set_interleave(interleave_fn schedule) noexcept { interleave_schedule.store(schedule); }

inline void interleave_point() noexcept {
  if (interleave_fn schedule = interleave_schedule.load(std::memory_order_relaxed)) schedule();
}

template <class T>
class interleaved_atomic {
 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  constexpr interleaved_atomic() noexcept = default;
  constexpr interleaved_atomic(T value) noexcept : value_(value) {}  // NOLINT: implicit, as std::atomic's
  interleaved_atomic(const interleaved_atomic&) = delete;
  interleaved_atomic& operator=(const interleaved_atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept { return at_point().load(order); }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept { at_point().store(value, order); }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T desired, Orders... orders) noexcept {
    return at_point().compare_exchange_weak(expected, desired, orders...);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T desired, Orders... orders) noexcept {
    return at_point().compare_exchange_strong(expected, desired, orders...);
  }

  // Templates, so that a T without arithmetic has none here either.
  template <class D>
  T fetch_add(D by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().fetch_add(by, order);
  }
  template <class D>
  T fetch_sub(D by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().fetch_sub(by, order);
  }
  template <class D>
  T fetch_and(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().fetch_and(bits, order);
  }
  template <class D>
  T fetch_or(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().fetch_or(bits, order);
  }
  template <class D>
  T fetch_xor(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_point().fetch_xor(bits, order);
  }

  operator T() const noexcept { return load(); }  // NOLINT: implicit, as std::atomic's
  T operator=(T value) noexcept {
    store(value);
    return value;
  }

 private:
  std::atomic<T>& at_point() noexcept {
    interleave_point();
    return value_;
  }
  const std::atomic<T>& at_point() const noexcept {
    interleave_point();
    return value_;
  }

  std::atomic<T> value_{};
};

}  // namespace heddle::core
