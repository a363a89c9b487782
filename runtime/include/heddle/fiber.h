// Fibers: spawn, join, detach, and what a fiber can ask about itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "heddle/detail/deadline.h"
#include "heddle/detail/errors.h"
#include "heddle/detail/runtime.h"

namespace heddle {

// How a fiber starts. All fields have defaults.
struct fiber_options {
  std::string_view name = {};  // copied, at most 31 bytes
  int cpu = -1;                // OS id of the only CPU it may run on; -1: any the runtime has
  int nice = 0;                // -20 .. 19: each step is a fifth less of a CPU's share, and of load
  bool idle = false;           // of the idle class: runs where nothing else does
};

namespace detail {

template <class T>
struct result {
  alignas(T) unsigned char bytes[sizeof(T)];
  T* get() noexcept { return std::launder(reinterpret_cast<T*>(bytes)); }
};
template <>
struct result<void> {};
template <class T>
struct result<T&> {
  T* pointer;
};

// What lies at the top of a fiber's stack: room for the result, then the call.
template <class T, class... Call>
struct frame {
  result<T> value;
  std::tuple<Call...> call;

  template <class... Args>
  explicit frame(Args&&... args) : call(std::forward<Args>(args)...) {}

  static void enter(void* self) noexcept {
    auto* f = static_cast<frame*>(self);
    try {
      auto invoke = [](auto&&... parts) -> decltype(auto) {
        return std::invoke(std::forward<decltype(parts)>(parts)...);
      };
      if constexpr (std::is_void_v<T>)
        std::apply(invoke, std::move(f->call));
      else if constexpr (std::is_reference_v<T>)
        f->value.pointer = &std::apply(invoke, std::move(f->call));
      else
        ::new (f->value.bytes) T(std::apply(invoke, std::move(f->call)));
    } catch (...) {
      set_error(std::current_exception());
    }
    std::destroy_at(&f->call);
  }
};

}  // namespace detail

// A fiber that can be joined. Destroyed while joinable it requests stop and joins, as std::jthread does.
// Not thread-safe itself: one owner; moving hands it over.
template <class T>
class [[nodiscard]] fiber {
 public:
  fiber() noexcept = default;
  fiber(fiber&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}
  fiber& operator=(fiber&& other) noexcept {
    if (this != &other) {
      finish();
      head_ = std::exchange(other.head_, nullptr);
    }
    return *this;
  }
  ~fiber() { finish(); }

  bool joinable() const noexcept { return head_ != nullptr; }
  uint64_t id() const noexcept { return head_ ? detail::id_of(*head_) : 0; }

  // Suspends until the fiber has ended (a plain thread blocks); returns its result or rethrows its exception.
  // Throws std::logic_error if not joinable or joined from itself, shutdown_error if the runtime shuts down meanwhile.
  T join() {
    detail::fiber_head& f = checked();
    detail::suspend(detail::pick_join(f));
    return take();
  }

  // As join, but at most until `deadline`; false: it still runs and stays joinable. The result waits for join().
  template <class Clock, class Duration>
  bool join_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::join_until(checked(), detail::deadline_at(deadline));
  }

  // The fiber goes on by itself. If it ends by an exception, the process ends, naming it.
  void detach() {
    detail::fiber_head& f = checked();
    head_ = nullptr;
    detail::detach(f);
  }

  void request_stop() { detail::request_stop(checked()); }

 private:
  friend class runtime;
  template <class F, class... Args>
  friend auto detail_spawn(core::scheduler& on, const fiber_options& how, F&& f, Args&&... args);

  explicit fiber(detail::fiber_head* head) noexcept : head_(head) {}

  detail::fiber_head& checked() const {
    if (!head_) throw std::logic_error("heddle::fiber: not joinable");
    return *head_;
  }

  struct releaser {
    detail::fiber_head* head;
    ~releaser() { detail::release(*head); }
  };

  T take() {
    if constexpr (std::is_void_v<T>) {
      if (std::exception_ptr error = detail::take_error_and_release(*std::exchange(head_, nullptr)))
        std::rethrow_exception(std::move(error));
      return;
    }
    releaser done{std::exchange(head_, nullptr)};
    if (std::exception_ptr error = detail::take_error(*done.head)) std::rethrow_exception(std::move(error));
    auto* value = static_cast<detail::result<T>*>(detail::frame_of(*done.head));
    if constexpr (std::is_reference_v<T>) {
      return *value->pointer;
    } else if constexpr (!std::is_void_v<T>) {
      struct destroyer {
        T* object;
        ~destroyer() { std::destroy_at(object); }
      } cleared{value->get()};
      return std::move(*value->get());
    }
  }

  void finish() noexcept {
    if (!head_) return;
    detail::request_stop(*head_);
    detail::join_shielded(*head_);
    try {
      (void)take();
    } catch (...) {  // as std::jthread's: nobody is left to hear of it
    }
  }

  detail::fiber_head* head_ = nullptr;
};

template <class F, class... Args>
auto detail_spawn(core::scheduler& on, const fiber_options& how, F&& f, Args&&... args) {
  using result_type = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;
  using frame_type = detail::frame<result_type, std::decay_t<F>, std::decay_t<Args>...>;
  static_assert(sizeof(frame_type) <= 4096, "a fiber's closure lies on its stack: capture large objects by pointer");
  const auto [head, at] =
      detail::prepare_spawn(on, sizeof(frame_type), alignof(frame_type), {how.name, how.cpu, how.nice, how.idle});
  if constexpr (std::is_nothrow_constructible_v<frame_type, F, Args...>) {
    ::new (at) frame_type(std::forward<F>(f), std::forward<Args>(args)...);
  } else {
    try {
      ::new (at) frame_type(std::forward<F>(f), std::forward<Args>(args)...);
    } catch (...) {
      detail::unprepare(*head);
      throw;
    }
  }
  detail::submit(on, *head, &frame_type::enter);
  return fiber<result_type>(head);
}

// Inside a fiber: starts another one on the same runtime. Elsewhere throws std::logic_error. Does not suspend.
template <class F, class... Args>
  requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
auto spawn(F&& f, Args&&... args) {
  return detail_spawn(detail::current_scheduler(), {}, std::forward<F>(f), std::forward<Args>(args)...);
}
template <class F, class... Args>
  requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
auto spawn(const fiber_options& how, F&& f, Args&&... args) {
  return detail_spawn(detail::current_scheduler(), how, std::forward<F>(f), std::forward<Args>(args)...);
}

namespace this_fiber {

// Lets others run that are ready on this worker; returns at once if there are none. On a plain thread: std::this_thread::yield.
[[gnu::always_inline]] inline void yield() {
  if (const detail::switch_target t = detail::pick_yield(); t.from) detail::switch_to(t);
}

// 0 outside of a fiber.
inline uint64_t id() noexcept { return detail::running() ? detail::id_of(*detail::running()) : 0; }
inline std::string_view name() noexcept {
  return detail::running() ? detail::name_of(*detail::running()) : std::string_view{};
}
// OS id of the CPU whose worker runs this fiber; may be another one after any suspension. -1 outside of a fiber.
inline int cpu() noexcept { return detail::current_cpu(); }
inline bool stop_requested() noexcept { return detail::stop_requested(); }
// Somebody who waits here has the better claim to this CPU: the slice is used up, a wakee is owed more, or this fiber is of the
// idle class. A fiber that computes for long asks now and then, and yields.
inline bool should_yield() noexcept { return detail::should_yield(); }

// Suspends for at least this long (a plain thread blocks). Throws shutdown_error.
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& how_long) {
  if (const int64_t until = detail::deadline_in(how_long)) detail::suspend(detail::pick_sleep(until));
}

template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration>& deadline) {
  // A clock that can be set is asked again after each sleep.
  for (auto now = Clock::now(); now < deadline; now = Clock::now()) sleep_for(deadline - now);
}

}  // namespace this_fiber

// One value per fiber, made at first use, destroyed at the fiber's end. On a plain thread: one per thread.
template <class T>
class fiber_local {
 public:
  fiber_local() : key_(detail::make_local_key([](void* p) { delete static_cast<T*>(p); })) {}
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;

  T& get() {
    void*& slot = detail::local_slot(key_);
    if (!slot) slot = new T();
    return *static_cast<T*>(slot);
  }
  T& operator*() { return get(); }
  T* operator->() { return &get(); }

 private:
  uint32_t key_;
};

}  // namespace heddle
