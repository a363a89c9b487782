// The door to std::atomic. Every shared word of the runtime is a core::atomic, so that the build `interleave` can turn
// each access into a scheduling point with a store buffer, and everybody else gets std::atomic and nothing more.
#pragma once

#include <atomic>

#include "runtime/base/ids.h"

#if defined(HEDDLE_INTERLEAVE)
#include "runtime/base/atomic_interleave.h"
#endif

namespace heddle::core {

#if defined(HEDDLE_INTERLEAVE)
template <class T>
using atomic = interleaved_atomic<T>;
#else
template <class T>
using atomic = std::atomic<T>;
inline void interleave_point() noexcept {}
inline void show_own_stores() noexcept {}
struct [[maybe_unused]] unbroken {};
#endif

// A word of the public header, which knows std::atomic only, through the door.
template <class T>
inline atomic<T>& door(std::atomic<T>& word) noexcept {
  static_assert(sizeof(atomic<T>) == sizeof(std::atomic<T>));
  return reinterpret_cast<atomic<T>&>(word);
}

inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr auto acquire = std::memory_order_acquire;
inline constexpr auto release = std::memory_order_release;
inline constexpr auto acq_rel = std::memory_order_acq_rel;
inline constexpr auto seq_cst = std::memory_order_seq_cst;

inline constexpr size_t cache_line = cache_line_bytes;

// Orders the owner's plain accesses as seen by whoever issues a membarrier (asymmetric fence, light side).
inline void compiler_barrier() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// A counter with one writer: no read-modify-write.
template <class T, class D>
inline void bump(atomic<T>& counter, D by) noexcept {
  counter.store(static_cast<T>(counter.load(relaxed) + static_cast<T>(by)), relaxed);
}

}  // namespace heddle::core
