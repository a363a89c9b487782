// A bounded queue between fibers and plain threads, any number on both sides. In order of publication; push waits while it is
// full, pop while it is empty. A waiting receiver is handed the value directly.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "heddle/detail/runtime.h"
#include "heddle/detail/wait_list.h"
#include "heddle/sync.h"

namespace heddle::core {
enum class wait_kind : uint8_t;
}

namespace heddle {
namespace detail {

// A waiter's value and whether it was taken or given; lies in the waiter's frame.
struct channel_op {
  void* value;
  bool done = false;
};

// Bytes under one lock: for values that may be copied as bytes. Everything else passes indices of cells through two of these.
class byte_channel {
 public:
  byte_channel(size_t capacity, size_t value_bytes);
  byte_channel(const byte_channel&) = delete;
  byte_channel& operator=(const byte_channel&) = delete;

  size_t capacity() const noexcept { return capacity_; }
  size_t size() noexcept;
  bool closed() noexcept;
  void close() noexcept;  // pushes fail from now on; pops drain what is left, then fail

  bool try_push(const void* value) noexcept;
  bool try_pop(void* value) noexcept;
  bool push_until(const void* value, int64_t deadline_ns, bool& timed_out);
  bool pop_until(void* value, int64_t deadline_ns, bool& timed_out);

  switch_target pick_push(channel_op& op);
  switch_target pick_pop(channel_op& op);

 private:
  bool push_locked(const void* value, void*& woken, const void* by) noexcept;
  bool pop_locked(void* value, void*& woken, const void* by) noexcept;
  template <class Attempt>
  bool transfer(Attempt&& attempt, wait_list& list, core::wait_kind kind, channel_op& op, int64_t deadline_ns,
                bool& timed_out);
  void put(const void* value) noexcept;
  void get(void* value) noexcept;

  wait_list receivers_;  // its lock guards everything
  wait_list senders_;
  size_t capacity_, value_bytes_;
  size_t first_ = 0, count_ = 0;
  bool closed_ = false;
  std::unique_ptr<std::byte[]> ring_;
};

}  // namespace detail

template <class T>
class channel {
  static_assert(std::is_nothrow_move_constructible_v<T>, "a value that may throw half-way would be lost");
  static constexpr bool as_bytes = std::is_trivially_copyable_v<T> && sizeof(T) <= 64;

 public:
  // Throws std::invalid_argument for capacity 0.
  explicit channel(size_t capacity) : ready_(checked(capacity), as_bytes ? sizeof(T) : sizeof(uint32_t)) {
    if constexpr (!as_bytes) {
      cells_ = std::make_unique<cell[]>(capacity);
      free_ = std::make_unique<detail::byte_channel>(capacity, sizeof(uint32_t));
      for (uint32_t i = 0; i < capacity; i++) free_->try_push(&i);
    }
  }
  ~channel() {
    if constexpr (!as_bytes)
      while (try_pop()) {
      }
  }

  size_t capacity() const noexcept { return ready_.capacity(); }
  size_t size() noexcept { return ready_.size(); }
  bool closed() noexcept { return ready_.closed(); }
  // Waiting and later pushes return false; pops drain what is left and then return nothing. Idempotent.
  void close() noexcept {
    ready_.close();
    if constexpr (!as_bytes) free_->close();
  }

  // False: the channel is closed and the value is not sent. May suspend.
  bool push(T value) {
    if constexpr (as_bytes) {
      return push_bytes(ready_, &value);
    } else {
      uint32_t i = 0;
      return pop_bytes(*free_, &i) && publish(i, std::move(value));
    }
  }
  // Nothing: the channel is closed and empty. May suspend.
  std::optional<T> pop() {
    if constexpr (as_bytes) {
      raw value;
      if (!pop_bytes(ready_, value.bytes)) return std::nullopt;
      return *value.get();
    } else {
      uint32_t i = 0;
      if (!pop_bytes(ready_, &i)) return std::nullopt;
      return vacate(i);
    }
  }

  // False: full or closed. Never suspends.
  bool try_push(T value) {
    if constexpr (as_bytes) {
      return ready_.try_push(&value);
    } else {
      uint32_t i = 0;
      return !closed() && free_->try_pop(&i) && publish(i, std::move(value));
    }
  }
  std::optional<T> try_pop() {
    if constexpr (as_bytes) {
      raw value;
      if (!ready_.try_pop(value.bytes)) return std::nullopt;
      return *value.get();
    } else {
      uint32_t i = 0;
      if (!ready_.try_pop(&i)) return std::nullopt;
      return vacate(i);
    }
  }

  // False: timed out or closed; the value is then still in `value`.
  template <class Rep, class Period>
  bool push_for(T& value, const std::chrono::duration<Rep, Period>& d) {
    bool late = false;
    if constexpr (as_bytes) {
      return ready_.push_until(&value, detail::deadline_in(d), late);
    } else {
      uint32_t i = 0;
      return free_->pop_until(&i, detail::deadline_in(d), late) && publish(i, std::move(value));
    }
  }
  template <class Rep, class Period>
  std::optional<T> pop_for(const std::chrono::duration<Rep, Period>& d) {
    bool late = false;
    if constexpr (as_bytes) {
      raw value;
      if (!ready_.pop_until(value.bytes, detail::deadline_in(d), late)) return std::nullopt;
      return *value.get();
    } else {
      uint32_t i = 0;
      if (!ready_.pop_until(&i, detail::deadline_in(d), late)) return std::nullopt;
      return vacate(i);
    }
  }

 private:
  struct raw {
    alignas(T) unsigned char bytes[sizeof(T)];
    T* get() noexcept { return std::launder(reinterpret_cast<T*>(bytes)); }
  };
  using cell = raw;

  static size_t checked(size_t capacity) {
    if (capacity == 0) throw std::invalid_argument("heddle::channel: capacity 0 is not at least 1");
    return capacity;
  }
  static bool push_bytes(detail::byte_channel& to, const void* value) {
    detail::channel_op op{const_cast<void*>(value)};
    detail::suspend(to.pick_push(op));
    return op.done;
  }
  static bool pop_bytes(detail::byte_channel& from, void* value) {
    detail::channel_op op{value};
    detail::suspend(from.pick_pop(op));
    return op.done;
  }
  bool publish(uint32_t i, T&& value) {
    ::new (cells_[i].bytes) T(std::move(value));
    if (ready_.try_push(&i)) return true;  // there is room for every cell: only closing refuses
    std::destroy_at(std::addressof(value));
    ::new (static_cast<void*>(std::addressof(value))) T(std::move(*cells_[i].get()));  // nothrow: the caller keeps it
    std::destroy_at(cells_[i].get());
    return false;
  }
  std::optional<T> vacate(uint32_t i) {
    std::optional<T> value(std::move(*cells_[i].get()));
    std::destroy_at(cells_[i].get());
    free_->try_push(&i);
    return value;
  }

  detail::byte_channel ready_;
  std::unique_ptr<detail::byte_channel> free_;
  std::unique_ptr<cell[]> cells_;
};

}  // namespace heddle
