#include "bench_apps/common/thread_backend.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "bench_apps/common/calibration.h"
#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/machine_facts.h"

namespace heddle::bench {
namespace {

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) noexcept {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

timespec to_timespec(nanos t) {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(t);
  return {.tv_sec = s.count(), .tv_nsec = (t - s).count()};
}

}  // namespace

thread_backend::thread_backend(const run_request& request) : pinned_(request.pin_threads), work_(request.work) {
  if (!request.on_host())
    throw usage_error(
        fmt::format("--backend: 'threads' is not fibers, all that runs on a virtual machine ({})", request.machine));
  cpus_ = chosen_cpus(request.cpus, request.workers);
  restricted_ = cpus_ != allowed_cpus();
}

void thread_backend::word::post() noexcept {
  uint32_t down = 0;
  if (state_.compare_exchange_strong(down, 1)) futex(state_, FUTEX_WAKE_PRIVATE, 1);
}

void thread_backend::word::wait() noexcept {
  for (;;) {
    uint32_t up = 1;
    if (state_.compare_exchange_strong(up, 0)) return;
    futex(state_, FUTEX_WAIT_PRIVATE, 0);
  }
}

bool thread_backend::word::wait_until(nanos deadline) noexcept {
  const timespec until = to_timespec(deadline);
  for (bool late = false;;) {
    uint32_t up = 1;
    if (state_.compare_exchange_strong(up, 0)) return true;
    if (late) return false;
    const long slept = syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAIT_BITSET_PRIVATE, 0, &until,
                               nullptr, FUTEX_BITSET_MATCH_ANY);
    late = slept < 0 && errno == ETIMEDOUT;
  }
}

void thread_backend::role::join() {
  thread_.join();
  if (*error_) std::rethrow_exception(*error_);
}

void thread_backend::run(const std::function<void()>& director) {
  // Threads inherit the mask; the caller gets its own back.
  const std::vector<int> before = allowed_cpus();
  if (restricted_ && !bind_this_thread(cpus_))
    throw run_error(fmt::format("could not bind to CPUs {}", show_cpu_list(cpus_)));
  struct restore {
    const std::vector<int>& cpus;
    bool wanted;
    ~restore() {
      if (wanted) bind_this_thread(cpus);
    }
  } at_the_end{before, restricted_};
  director();
}

thread_backend::role thread_backend::spawn(const std::string& name, std::function<void()> body) {
  role r;
  r.error_ = std::make_shared<std::exception_ptr>();
  const size_t number = spawned_.fetch_add(1, core::relaxed);
  const int pin = pinned_ ? cpus_[number % cpus_.size()] : -1;
  try {
    r.thread_ = std::thread([name = name.substr(0, 15), body = std::move(body), error = r.error_, pin] {
      pthread_setname_np(pthread_self(), name.c_str());
      if (pin >= 0) bind_this_thread({pin});
      try {
        body();
      } catch (...) {
        *error = std::current_exception();
      }
    });
  } catch (const std::system_error& e) {
    throw run_error(fmt::format("the system refuses thread number {}: {} (see ulimit -u and the cgroup's pids.max)",
                                number + 1, e.code().message()));
  }
  return r;
}

nanos thread_backend::now() const noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::chrono::seconds{t.tv_sec} + nanos{t.tv_nsec};
}

// Relative, as usleep is: the timer slack and the wake-up are the caller's to measure.
void thread_backend::sleep_for(nanos duration) const noexcept {
  timespec rest = to_timespec(duration);
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR) {
  }
}

void thread_backend::sleep_until(nanos deadline) const noexcept {
  const timespec until = to_timespec(deadline);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

int thread_backend::cpu() const noexcept { return sched_getcpu(); }

void thread_backend::burn(nanos work) const noexcept {
  if (work.count() > 0) work_iterations(work_->iterations_for(work), 1);
}

void thread_backend::spin_until(nanos deadline) const noexcept {
  while (now() < deadline) work_pause();
}

void thread_backend::touch(const void* object, size_t bytes, access how) const noexcept {
  // One byte a line is what moves the line.
  auto* at = const_cast<volatile char*>(static_cast<const volatile char*>(object));
  for (size_t i = 0; i < bytes; i += 64) {
    const char value = at[i];
    if (how == access::write) at[i] = value;
  }
}

std::vector<int> thread_backend::llc_of_cpu() const { return facts_of("host").llc_of_cpu; }

void thread_backend::describe(run_result& result) const {
  result.workers = static_cast<int>(cpus_.size());
  result.machine = facts_of("host").record;
  result.idle_policy = "kernel";
}

}  // namespace heddle::bench
