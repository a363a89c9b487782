// Roles as fibers of a runtime made for the run, through the public API alone: what a benchmark shows is what an embedder
// gets.
#pragma once

#include <heddle/heddle.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/work.h"
#include "runtime/base/atomic.h"
#include "runtime/base/settings_list.h"

namespace heddle::bench {

class fiber_backend {
 public:
  static constexpr backend_kind kind = backend_kind::fibers;

  // Starts the workers. usage_error for what the runtime refuses, run_error for what the system does.
  explicit fiber_backend(const run_request& request);

  // The flag is a semaphore's token that only the post finding it down hands out. A reset may leave a token behind;
  // wait() takes such a one for what it is by looking at the flag.
  class word {
   public:
    void reset() noexcept { up_.exchange(0); }
    void post() noexcept {
      if (up_.exchange(1) == 0) token_.release();
    }
    void wait() {
      do token_.acquire();
      while (up_.exchange(0) == 0);
    }
    bool wait_until(nanos deadline) {
      do {
        if (!token_.try_acquire_for(deadline - heddle::this_fiber::now())) return false;
      } while (up_.exchange(0) == 0);
      return true;
    }

   private:
    core::atomic<uint32_t> up_{0};
    heddle::counting_semaphore<> token_{0};
  };
  using mutex = heddle::mutex;
  using condition_variable = heddle::condition_variable;
  using semaphore = heddle::counting_semaphore<>;

  class role {
   public:
    role() = default;
    void join() { fiber_.join(); }

   private:
    friend class fiber_backend;
    explicit role(heddle::fiber<void> fiber) : fiber_(std::move(fiber)) {}
    heddle::fiber<void> fiber_;
  };

  void run(const std::function<void()>& director);
  role spawn(const std::string& name, std::function<void()> body);

  nanos now() const noexcept { return heddle::this_fiber::now(); }
  void sleep_for(nanos duration) const { heddle::this_fiber::sleep_for(duration); }
  void sleep_until(nanos deadline) const { heddle::this_fiber::sleep_for(deadline - now()); }
  void yield() const { heddle::this_fiber::yield(); }
  int cpu() const noexcept { return heddle::this_fiber::cpu(); }
  void burn(nanos work) const;
  void spin_until(nanos deadline) const { heddle::this_fiber::burn_until(deadline); }
  void touch(void* object, size_t bytes, access how) const {
    heddle::this_fiber::touch(object, bytes, how == access::read ? touch_kind::read : touch_kind::write);
  }
  void multiply(const uint64_t* a, const uint64_t* b, uint64_t* c, int side) const;
  int cpu_count() const noexcept { return static_cast<int>(runtime_->workers()); }
  std::vector<int> llc_of_cpu() const;
  void describe(run_result& result) const;

 private:
  std::string machine_;
  core::chosen_settings settings_;
  const calibration* work_;
  std::unique_ptr<heddle::runtime> runtime_;
};

static_assert(backend<fiber_backend>);

}  // namespace heddle::bench
