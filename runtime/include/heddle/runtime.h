// The runtime as a value: workers on chosen CPUs, and the fibers on them. Several may be alive at once.
#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/fiber.h"
#include "heddle/machine.h"
#include "heddle/settings.h"

namespace heddle::core {
class settings_list;
}

namespace heddle {

class runtime;
namespace detail {
core::scheduler& scheduler_of(runtime& on) noexcept;
}

enum class severity { info, warning, error };

struct runtime_options {
  heddle::machine machine = heddle::machine::host();
  std::string cpus = {};      // OS ids, "0-3,8"; empty: all this process may use
  size_t workers = 0;         // 0: as many as CPUs chosen, cgroup quota respected
  std::string settings = {};  // "ws_plain,NO_WAKE_AFFINE"
  size_t stack_bytes = 0;     // 0: the setting stack_bytes; a fiber's stack without its guard page
  uint64_t seed = 1;          // of every random choice
  std::chrono::nanoseconds shutdown_deadline = std::chrono::seconds(5);
  std::function<void(severity, std::string_view)> log = {};  // empty: stderr
  bool read_environment = true;       // HEDDLE_WORKERS, HEDDLE_CPUS, HEDDLE_SETTINGS, HEDDLE_SEED
  bool handle_stack_overflow = true;  // a SIGSEGV handler that names the fiber; chains to the one before it
};

// Counters by name, and what is alive now.
struct runtime_stats {
  std::map<std::string, uint64_t> counters;
  uint64_t fibers_live = 0;
  size_t workers = 0;
};

struct shutdown_report {
  struct survivor {
    uint64_t id;
    std::string name, state, waiting_on;
  };
  std::vector<survivor> stuck;  // empty: everything ended
};

// After fork() the child has none of the workers: calls on the parent's runtimes throw std::logic_error, their destructors do
// nothing, and a fiber that forked goes on as a plain thread, which must not return from its function. New runtimes may be made.
class runtime {
 public:
  // Starts the workers. Throws std::invalid_argument (what, which value, what would be accepted) and std::system_error.
  runtime() : runtime(runtime_options{}) {}
  explicit runtime(runtime_options options);
  // shutdown() with the deadline of the options.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  // From fibers and plain threads. Throws shutdown_error after shutdown, std::system_error when stacks run out.
  template <class F, class... Args>
    requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
  auto spawn(F&& f, Args&&... args) {
    return detail_spawn(*scheduler_, {}, std::forward<F>(f), std::forward<Args>(args)...);
  }
  template <class F, class... Args>
    requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
  auto spawn(const fiber_options& how, F&& f, Args&&... args) {
    return detail_spawn(*scheduler_, how, std::forward<F>(f), std::forward<Args>(args)...);
  }

  // main_fn as a fiber; the caller waits and gets its result.
  template <class F>
  auto run(F&& main_fn) {
    return spawn({.name = "main"}, std::forward<F>(main_fn)).join();
  }

  size_t workers() const noexcept;
  std::string workers_reason() const;
  runtime_stats stats() const;
  // The counters of CPUs and domains so far, in the layout of /proc/schedstat (docs/counters.md says what stands where).
  void schedstat(std::ostream& out) const;
  // Every fiber: name, state, waiting on what, for how long. At any time, from any thread.
  void dump(std::ostream& out) const;
  // A settings list; settings that only a start may change are refused. Throws std::invalid_argument.
  void set(std::string_view settings);
  // Spawning is refused, stop is requested of all, waits throw shutdown_error; at the deadline what is left is listed and leaked.
  // From a plain thread or another runtime's fiber; throws std::logic_error from one of its own, and in the child of a fork. Idempotent.
  shutdown_report shutdown(std::chrono::nanoseconds deadline);

 private:
  friend core::scheduler& detail::scheduler_of(runtime& on) noexcept;

  std::unique_ptr<core::settings_list> settings_;  // what was asked for, by source
  std::unique_ptr<core::scheduler> scheduler_;
  std::string reason_;
  std::chrono::nanoseconds shutdown_deadline_;
};

}  // namespace heddle
