// Roles as plain kernel threads: the baseline, and the proof that a scenario is the original tool's. Threads float over the
// chosen CPUs as the kernel likes, or are pinned one after the other when asked.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/work.h"
#include "runtime/base/atomic.h"

namespace heddle::bench {

class thread_backend {
 public:
  static constexpr backend_kind kind = backend_kind::threads;

  // Refuses a virtual machine (kernel threads cannot run on one) and CPUs that are not there: usage_error.
  explicit thread_backend(const run_request& request);

  // The protocol of the original tools: a compare-and-swap 0 -> 1 and one FUTEX_WAKE by whoever swapped; the waiter
  // swaps 1 -> 0 around FUTEX_WAIT.
  class word {
   public:
    void reset() noexcept { state_.exchange(0); }
    void post() noexcept;
    void wait() noexcept;
    bool wait_until(nanos deadline) noexcept;  // false: the deadline came first, the flag is still down

   private:
    std::atomic<uint32_t> state_{0};
  };
  using mutex = std::mutex;
  using condition_variable = std::condition_variable;
  using semaphore = std::counting_semaphore<>;

  class role {
   public:
    role() = default;
    void join();  // rethrows what the role threw

   private:
    friend class thread_backend;
    std::thread thread_;
    std::shared_ptr<std::exception_ptr> error_;
  };

  void run(const std::function<void()>& director);
  role spawn(const std::string& name, std::function<void()> body);

  nanos now() const noexcept;
  void sleep_for(nanos duration) const noexcept;
  void sleep_until(nanos deadline) const noexcept;
  void yield() const noexcept { std::this_thread::yield(); }
  int cpu() const noexcept;
  void burn(nanos work) const noexcept;
  void spin_until(nanos deadline) const noexcept;
  void touch(const void* object, size_t bytes, access how) const noexcept;
  // Naive matrix product on the host (work.h); charged by size on a virtual machine.
  void multiply(const uint64_t* a, const uint64_t* b, uint64_t* c, int side) const noexcept {
    work_matrix(a, b, c, side);
  }
  int cpu_count() const noexcept { return static_cast<int>(cpus_.size()); }
  std::vector<int> llc_of_cpu() const;  // by OS id; -1 for CPUs that are not ours
  void describe(run_result& result) const;

 private:
  std::vector<int> cpus_;    // OS ids the threads may use
  bool restricted_ = false;  // fewer than the process may use
  bool pinned_;
  core::atomic<size_t> spawned_{0};  // by any role
  const calibration* work_;
};

static_assert(backend<thread_backend>);

}  // namespace heddle::bench
