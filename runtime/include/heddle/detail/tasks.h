// The hot half of fork-join: a task is pushed, and taken back by the fiber that pushed it, with a handful of plain loads and
// stores. Everything else is out of line (runtime/parallel/tasks.cpp). The rules T1-T9 named here are stated and proved in
// runtime/parallel/README.md. No stability promise.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>

namespace heddle::detail {

// A word of a deque. The library's own build that tries interleavings names another template.
#if defined(HEDDLE_SHARED_WORD)
template <class T>
using shared_word = HEDDLE_SHARED_WORD<T>;
#else
template <class T>
using shared_word = std::atomic<T>;
#endif

// A task lies in the frame of whoever forks it. `word`: its entry; then, once it was stolen, perhaps who waits for its end; then
// how it ended (T7).
struct task {
  using entry = void (*)(task&);
  std::atomic<uintptr_t> word;
  entry saved;  // where a waiter stands in `word`
  union {
    std::exception_ptr error;  // where task_failed does
  };
  task() noexcept {}  // NOLINT: nothing of it is initialised before it is needed
  ~task() {}          // NOLINT: `error` is taken out before
  task(const task&) = delete;
  task& operator=(const task&) = delete;
};
inline constexpr uintptr_t task_done = 1, task_failed = 2;
inline constexpr uintptr_t task_detached = uintptr_t{1} << 62;  // beside the entry: nobody will ask how it ended

// More tasks pending in one fiber than this: the next one becomes a fiber at once.
inline constexpr uint32_t deque_capacity = 1024;
inline constexpr uint32_t gate_closed = UINT32_MAX;

// Tasks [tail, split) are for everybody, [split, head) the owner's alone; tail and split share a word.
struct task_deque {
  shared_word<uint32_t> head{0};                        // T1: the owner's
  alignas(64) shared_word<uint32_t> gate{gate_closed};  // T3: at or above it the owner needs to ask nobody
  alignas(64) shared_word<uint64_t> shared{0};          // T2
  alignas(64)
      shared_word<task*> slots[deque_capacity + 1] = {};  // one more than may be used: the push looks after it wrote
};

// Out of line. The deque on which it lies now; null: it became a fiber.
task_deque* fork_slow(task_deque* d, task& t);
// True: it is the caller's to run. False: it has ended elsewhere.
bool join_slow(task_deque* d, task& t);
// The same without waiting for what somebody else has: such a task must not lie in a frame (T7).
bool take_back(task_deque* d);
// Somebody idles, and there is nothing here that he could take.
bool wanted_slow(task_deque* d) noexcept;
[[noreturn]] void rethrow(task& t);

// The deque that is cached in this kernel thread's carrier, or null. A fiber may be on another thread after any suspension, so the
// compiler must not remember the address of a thread-local: it is read by hand.
#if defined(__x86_64__) && defined(__ELF__)
[[gnu::always_inline]] inline task_deque* deque_here() noexcept {
  task_deque* d;
  asm volatile(
      "movq heddle_tasks_here@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(d));
  return d;
}
#else
task_deque* deque_here() noexcept;
#endif

[[gnu::always_inline]] inline task_deque* push_task(task& t) {
  task_deque* d = deque_here();
  if (__builtin_expect(d == nullptr, 0)) return fork_slow(nullptr, t);
  const uint32_t h = d->head.load(std::memory_order_relaxed);
  d->slots[h].store(&t, std::memory_order_relaxed);
  d->head.store(h + 1, std::memory_order_release);      // T1: the slot before the head
  std::atomic_signal_fence(std::memory_order_seq_cst);  // T4
  const uint32_t g = d->gate.load(std::memory_order_relaxed);
  if (__builtin_expect((h < g) | (h >= deque_capacity), 0)) return fork_slow(d, t);
  return d;
}

// The newest task of this fiber comes back. False: it has ended elsewhere.
[[gnu::always_inline]] inline bool pop_task(task_deque* d, task& t) {
  if (__builtin_expect(d != nullptr, 1)) {
    const uint32_t h = d->head.load(std::memory_order_relaxed) - 1;
    d->head.store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // T4
    if (__builtin_expect(h >= d->gate.load(std::memory_order_relaxed), 1)) return true;
  }
  return join_slow(d, t);
}

// The same for a task_detached one. False: whoever has it goes on with it.
[[gnu::always_inline]] inline bool pop_detached(task_deque* d) {
  if (__builtin_expect(d != nullptr, 1)) {
    const uint32_t h = d->head.load(std::memory_order_relaxed) - 1;
    d->head.store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // T4
    if (__builtin_expect(h >= d->gate.load(std::memory_order_relaxed), 1)) return true;
  }
  return take_back(d);
}

// Whether it is time to split off work: a load and a compare while nobody asks.
[[gnu::always_inline]] inline bool wanted() noexcept {
  task_deque* d = deque_here();
  if (d && __builtin_expect(d->gate.load(std::memory_order_relaxed) != gate_closed, 1)) return false;
  return wanted_slow(d);
}

// A forked call. The deque and the body are the caller's to remember: what lies here has its address taken, and would be read back
// from memory. Joined or settled before its frame ends, the newest first.
template <class Body>
class forked : task {
 public:
  explicit forked(Body& body) noexcept : body_(&body) {
    word.store(reinterpret_cast<uintptr_t>(&enter), std::memory_order_relaxed);
  }
  [[gnu::always_inline]] task_deque* fork() { return push_task(*this); }
  // Runs it here if nobody has taken it; else waits for its end, and rethrows.
  [[gnu::always_inline]] void join(task_deque* on, Body& body) {
    if (cancel(on)) body();
  }
  // True: nobody has taken it, and nobody will. Else waits for its end, and rethrows.
  [[gnu::always_inline]] bool cancel(task_deque* on) {
    if (__builtin_expect(pop_task(on, *this), 1)) return true;
    if (__builtin_expect(word.load(std::memory_order_relaxed) == task_failed, 0)) rethrow(*this);
    return false;
  }
  // The same where an exception is under way: that one wins.
  [[gnu::noinline, gnu::cold]] void drop(task_deque* on) noexcept {
    try {
      (void)cancel(on);
    } catch (...) {  // NOLINT: the first exception wins
    }
  }
  // And this one runs it all the same.
  [[gnu::noinline, gnu::cold]] void settle(task_deque* on) noexcept {
    try {
      join(on, *body_);
    } catch (...) {  // NOLINT: likewise
    }
  }

 private:
  static void enter(task& t) { (*static_cast<forked&>(t).body_)(); }

  Body* body_;
};

}  // namespace heddle::detail
