#include "runtime/fiber/overflow.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "runtime/base/atomic.h"

namespace heddle::core {
namespace {

constexpr size_t signal_stack_bytes = 32 * 1024;

// Read by the signal handler: fixed slots, no allocation.
std::array<std::atomic<const fiber_pool*>, 64> pools{};
std::mutex install_lock;
int watchers = 0;
struct sigaction before{};

void pass_on(int number, siginfo_t* info, void* context) {
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  signal(number, SIG_DFL);  // returning repeats the access, which now ends the process as it would have without us
}

void on_fault(int number, siginfo_t* info, void* context) {
  for (auto& slot : pools) {
    const fiber_pool* pool = slot.load(std::memory_order_acquire);
    const fiber_record* f = pool ? pool->guard_hit(info->si_addr) : nullptr;
    if (!f) continue;
    char text[512];
    const int length = std::snprintf(
        text, sizeof text,
        "heddle: stack overflow in fiber %llu '%s': its stack of %zu bytes ended at %p, the access was to %p.\n"
        "heddle: give its runtime larger stacks (runtime_options::stack_bytes, setting stack_bytes) or recurse less.\n",
        static_cast<unsigned long long>(f->id), f->name, pool->stack_bytes(), static_cast<const void*>(f->stack_low),
        info->si_addr);
    if (length > 0) [[maybe_unused]]
      auto ignored = write(STDERR_FILENO, text, std::min(static_cast<size_t>(length), sizeof text - 1));
    signal(number, SIG_DFL);
    return;
  }
  pass_on(number, info, context);
}

}  // namespace

void watch_stacks(const fiber_pool& pool) {
  std::lock_guard guard(install_lock);
  for (auto& slot : pools)
    if (!slot.load(std::memory_order_relaxed)) {
      slot.store(&pool, std::memory_order_release);
      break;
    }
  if (watchers++ > 0) return;
  struct sigaction ours{};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &before);
}

void unwatch_stacks(const fiber_pool& pool) {
  std::lock_guard guard(install_lock);
  bool was = false;
  for (auto& slot : pools)
    if (slot.load(std::memory_order_relaxed) == &pool) {
      slot.store(nullptr, std::memory_order_release);
      was = true;
    }
  if (!was || --watchers > 0) return;
  // Somebody who installed a handler after us keeps it.
  struct sigaction now{};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) sigaction(SIGSEGV, &before, nullptr);
}

signal_stack::signal_stack() {
  memory_ = mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    return;
  }
  stack_t s{};
  s.ss_sp = memory_;
  s.ss_size = signal_stack_bytes;
  sigaltstack(&s, nullptr);
}

signal_stack::~signal_stack() {
  if (!memory_) return;
  stack_t off{};
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
  munmap(memory_, signal_stack_bytes);
}

}  // namespace heddle::core
