#include "runtime/machine/host.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/machine/work.h"

namespace heddle::core {
namespace {

timespec to_timespec(nanos t) noexcept { return {t.count() / 1'000'000'000, t.count() % 1'000'000'000}; }

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* until) noexcept {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

long membarrier(int command, unsigned flags = 0, int cpu = 0) noexcept {
  return syscall(SYS_membarrier, command, flags, cpu);
}

// Registered once per process. The form with a cpu (5.10) interrupts that cpu only.
struct barrier_forms {
  bool any = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  bool one_cpu = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0;
};
const barrier_forms& barriers() {
  static const barrier_forms forms;
  return forms;
}

// One wake-up token per carrier, each on its own line: the waker writes it, the sleeper reads it.
struct alignas(cache_line) token {
  std::atomic<uint32_t> word{0};
  std::atomic<sleeper*> in{
      nullptr};  // who sleeps elsewhere; dereferenced by wakers, so it lives as long as the carriers
};

bool pin_to(int os_id) noexcept {
  const auto bytes = CPU_ALLOC_SIZE(os_id + 1);
  cpu_set_t* set = CPU_ALLOC(os_id + 1);
  if (!set) return false;
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(os_id, bytes, set);
  const bool pinned = pthread_setaffinity_np(pthread_self(), bytes, set) == 0;
  CPU_FREE(set);
  return pinned;
}

// How many forks lie between the process that the program began as and this one.
constinit std::atomic<uint32_t> forks{0};
constinit std::atomic<void (*)()> in_child{nullptr};

void count_forks() noexcept {
  static const int once = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, relaxed);
    if (auto* hook = in_child.load(relaxed)) hook();
  });
  HEDDLE_ASSERT(once == 0);
}

class host final : public machine {
 public:
  host(const topology& cpus, std::function<void(std::string_view)> warn) : warn_(std::move(warn)) {
    for (const auto& cpu : cpus.cpus) os_ids_.push_back(cpu.os_id);
    tokens_ = std::make_unique<token[]>(os_ids_.size());
    barriers();
    count_forks();
    born_ = forks.load(relaxed);
  }
  ~host() override { HEDDLE_ASSERT(threads_.empty()); }

  bool is_virtual() const noexcept override { return false; }
  nanos now() noexcept override { return steady_now(); }
  bool has_barrier() const noexcept override { return barriers().any; }

  cpu_id current_cpu() const noexcept override {
    const int os_id = sched_getcpu();
    const auto at = std::lower_bound(os_ids_.begin(), os_ids_.end(), os_id);
    return at != os_ids_.end() && *at == os_id ? to_cpu(static_cast<size_t>(at - os_ids_.begin())) : cpu_id::none;
  }

  void park(cpu_id cpu, nanos deadline) noexcept override {
    std::atomic<uint32_t>& word = tokens_[index_of(cpu)].word;
    if (word.exchange(0, acquire) != 0) return;
    const timespec until = to_timespec(deadline);
    futex(&word, FUTEX_WAIT_BITSET, 0, deadline == never ? nullptr : &until);
    word.exchange(0, acquire);
  }
  // Both sides seq_cst: either the sleeper sees the token, or the waker sees where it sleeps.
  void park_in(cpu_id cpu, nanos deadline, sleeper& in) noexcept override {
    token& t = tokens_[index_of(cpu)];
    t.in.store(&in, seq_cst);
    if (t.word.exchange(0, seq_cst) == 0) in.sleep(deadline);
    t.in.store(nullptr, relaxed);
    t.word.exchange(0, acquire);
  }
  void unpark(cpu_id cpu) noexcept override {
    token& t = tokens_[index_of(cpu)];
    if (t.word.exchange(1, seq_cst) != 0) return;
    if (sleeper* in = t.in.load(seq_cst))
      in->wake();
    else
      futex(&t.word, FUTEX_WAKE, 1, nullptr);
  }

  void relax() noexcept override { relax_cpu(); }
  void poll(nanos) noexcept override { relax_cpu(); }
  void look(cpu_id) noexcept override {}
  nanos burn(nanos duration, size_t) override {
    work_for(duration);
    return nanos{0};
  }
  bool burn_until(nanos time) override {
    while (steady_now() < time) relax_cpu();
    return true;
  }
  void touch(void* object, size_t bytes, access how) override { touch_memory(object, bytes, how == access::write); }

  void barrier(cpu_id cpu) noexcept override {
    // A cpu the carrier is not pinned to cannot be named.
    if (valid(cpu) && barriers().one_cpu && pinned_ &&
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_FLAG_CPU, os_ids_[index_of(cpu)]) == 0)
      return;
    if (barriers().any)
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the owners' own fences (att_fence)
  }

  void nap(nanos duration) noexcept override {
    futex_wait(monitor_.word, 0, saturating_add(steady_now(), duration));
    monitor_.word.exchange(0, acquire);
  }
  void poke() noexcept override {
    if (monitor_.word.exchange(1, release) == 0) futex_wake(monitor_.word);
  }

  bool wait(std::atomic<uint32_t>& word, uint32_t expected, nanos deadline) noexcept override {
    return futex_wait(word, expected, deadline);
  }
  void notify(std::atomic<uint32_t>& word) noexcept override { futex_wake(word); }
  void point(op) override {}
  bool forked() const noexcept override { return forks.load(relaxed) != born_; }
  void check_thread() const override {
    if (forked())
      throw std::logic_error(
          "heddle: this runtime's workers stayed in the parent of a fork(); the child may make a new runtime");
  }

  void start(size_t cpus, std::function<void(cpu_id)> body, std::function<void()> monitor) override {
    try {
      for (size_t i = 0; i < cpus; i++) threads_.emplace_back([this, body, i] { carrier(to_cpu(i), body); });
      if (monitor)
        threads_.emplace_back([this, monitor] {
          pthread_setname_np(pthread_self(), "heddle/monitor");
          prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
          monitor();
          ended();
        });
    } catch (const std::system_error& e) {
      throw std::system_error(e.code(), "starting a carrier thread failed (see ulimit -u and the cgroup's pids.max)");
    }
    // So that the caller sees refused pins reported, and barrier() knows whether cpus can be named.
    while (started_.load(acquire) < cpus)
      futex_wait(started_, started_.load(acquire), saturating_add(steady_now(), nanos{10'000'000}));
    if (refused_.load(acquire)) {
      pinned_ = false;
      warn_("pinning was refused (" + std::to_string(refused_.load(relaxed)) + " of " + std::to_string(cpus) +
            " carriers); they run unpinned");
    }
  }

  bool join(nanos deadline) override {
    const auto all = static_cast<uint32_t>(threads_.size());
    for (uint32_t seen; (seen = ended_.load(acquire)) < all;)
      if (!futex_wait(ended_, seen, deadline)) break;
    const bool complete = ended_.load(acquire) == all;
    for (auto& t : threads_) complete ? t.join() : t.detach();
    threads_.clear();
    return complete;
  }

 private:
  void carrier(cpu_id cpu, const std::function<void(cpu_id)>& body) {
    const int os_id = os_ids_[index_of(cpu)];
    char name[16];
    std::snprintf(name, sizeof name, "heddle/%d", os_id);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // the default 50 us would be added to every parked deadline
    if (!pin_to(os_id)) refused_.fetch_add(1, relaxed);
    started_.fetch_add(1, release);
    futex_wake(started_);
    body(cpu);
    ended();
  }
  void ended() {
    ended_.fetch_add(1, release);
    futex_wake(ended_);
  }

  std::vector<int> os_ids_;
  std::function<void(std::string_view)> warn_;
  std::unique_ptr<token[]> tokens_;
  token monitor_;
  std::atomic<uint32_t> started_{0}, refused_{0}, ended_{0};
  bool pinned_ = true;
  uint32_t born_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<machine> make_host(const topology& cpus, std::function<void(std::string_view)> warn) {
  return std::make_unique<host>(cpus, std::move(warn));
}

nanos steady_now() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return nanos{t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec};
}

bool futex_wait(std::atomic<uint32_t>& word, uint32_t expected, nanos deadline) noexcept {
  const timespec until = to_timespec(deadline);
  while (word.load(acquire) == expected) {
    if (futex(&word, FUTEX_WAIT_BITSET, expected, deadline == never ? nullptr : &until) != 0 && errno == ETIMEDOUT)
      return word.load(acquire) != expected;
  }
  return true;
}

void after_fork(void (*child)()) noexcept { in_child.store(child, relaxed); }

void futex_wake(std::atomic<uint32_t>& word) noexcept { futex(&word, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace heddle::core
