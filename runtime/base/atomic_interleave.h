// The atomics of the build `interleave`: std::atomic, except that every access first calls whoever installed himself as
// the schedule, and that stores may wait in a buffer before others see them (store_buffer.h). What such a schedule does is its own
// matter: nap now and then, let another CPU of the virtual machine run. Included by runtime/base/atomic.h alone.
#pragma once

#include <atomic>
#include <cstring>

#include "runtime/base/store_buffer.h"

namespace heddle::core {

// Called before each access, on the accessing thread, with whatever the caller holds; it must not use a core::atomic.
using interleave_fn = void (*)() noexcept;

inline constinit std::atomic<interleave_fn> interleave_schedule{nullptr};
// A thread's own schedule goes before the one of all.
inline constinit thread_local interleave_fn interleave_here = nullptr;
inline constinit thread_local int unbroken_depth = 0;

// Null (the beginning): accesses are plain.
inline void set_interleave(interleave_fn schedule) noexcept { interleave_schedule.store(schedule); }

inline void interleave_point() noexcept {
  if (unbroken_depth > 0) return;
  if (interleave_here) return interleave_here();
  if (interleave_fn schedule = interleave_schedule.load(std::memory_order_relaxed)) schedule();
}

// Before a release store to a word that does not go through the door (the public headers').
inline void show_own_stores() noexcept {
  if (my_stores) my_stores->drain();
}

// No point while one of these lives: the caller holds a lock of the kernel thread, which all virtual cpus share.
struct unbroken {
  unbroken() noexcept { unbroken_depth++; }
  ~unbroken() { unbroken_depth--; }
  unbroken(const unbroken&) = delete;
  unbroken& operator=(const unbroken&) = delete;
};

template <class T>
class interleaved_atomic {
  static_assert(sizeof(T) <= sizeof(uint64_t));

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  constexpr interleaved_atomic() noexcept = default;
  constexpr interleaved_atomic(T value) noexcept : value_(value) {}  // NOLINT: implicit, as std::atomic's
  interleaved_atomic(const interleaved_atomic&) = delete;
  interleaved_atomic& operator=(const interleaved_atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    interleave_point();
    uint64_t bits = 0;
    if (!my_stores || !my_stores->newest(&value_, bits)) return value_.load(order);
    T own;
    std::memcpy(static_cast<void*>(&own), &bits, sizeof own);
    return own;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    interleave_point();
    if (!my_stores) return value_.store(value, order);
    if (order == std::memory_order_seq_cst) {
      my_stores->drain();
      return value_.store(value, order);
    }
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const void*>(&value), sizeof value);
    my_stores->put(&value_, bits, &apply, order == std::memory_order_release);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst,
                             Orders... failure) noexcept {
    return at_update(order).compare_exchange_weak(expected, desired, order, failure...);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst,
                               Orders... failure) noexcept {
    return at_update(order).compare_exchange_strong(expected, desired, order, failure...);
  }

  // Templates, so that a T without arithmetic has none here either.
  template <class D>
  T fetch_add(D by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).fetch_add(by, order);
  }
  template <class D>
  T fetch_sub(D by, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).fetch_sub(by, order);
  }
  template <class D>
  T fetch_and(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).fetch_and(bits, order);
  }
  template <class D>
  T fetch_or(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).fetch_or(bits, order);
  }
  template <class D>
  T fetch_xor(D bits, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return at_update(order).fetch_xor(bits, order);
  }

  operator T() const noexcept { return load(); }  // NOLINT: implicit, as std::atomic's
  T operator=(T value) noexcept {
    store(value);
    return value;
  }

 private:
  static void apply(void* word, uint64_t bits) noexcept {
    T value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    static_cast<std::atomic<T>*>(word)->store(value, std::memory_order_seq_cst);
  }
  // A read-modify-write acts on memory itself. One that only acquires lets earlier stores to other words wait.
  std::atomic<T>& at_update(std::memory_order order) noexcept {
    interleave_point();
    uint64_t own = 0;
    const bool only_acquires = order == std::memory_order_relaxed || order == std::memory_order_acquire;
    if (my_stores && (!only_acquires || my_stores->newest(&value_, own))) my_stores->drain();
    return value_;
  }

  std::atomic<T> value_{};
};

}  // namespace heddle::core
