#include "runtime/io/helpers.h"

#include <csignal>

#include "runtime/io/perform.h"
#include "runtime/sched/suspend.h"

namespace heddle::core {

helpers::~helpers() {
  {
    std::lock_guard guard(lock_);
    over_ = true;
  }
  work_.notify_all();
  for (auto& t : threads_) t.join();
}

void helpers::make_room() {
  std::lock_guard guard(lock_);
  if (idle_ > queued_ || threads_.size() == most) return;
  try {
    threads_.emplace_back([this] { main(); });
    idle_++;
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

void helpers::push(io_request& r) noexcept {
  {
    std::lock_guard guard(lock_);
    queue_.append(r);
    queued_++;
  }
  work_.notify_one();
}

void helpers::main() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "heddle/helper");
  std::unique_lock guard(lock_);
  for (;;) {
    work_.wait(guard, [this] { return over_ || queue_.first; });
    io_request* r = queue_.first;
    if (!r) return;
    queue_.remove(*r);
    queued_--;
    idle_--;
    guard.unlock();
    r->result = perform(*r);
    if (fiber_record* f = end_part(*r)) wake(*f);
    guard.lock();
    idle_++;
  }
}

}  // namespace heddle::core
