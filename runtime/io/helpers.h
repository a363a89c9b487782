// Threads that do for fibers what can only be done by blocking: files on the epoll rung. Started as they are needed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/io/request.h"

namespace heddle::core {

class helpers {
 public:
  ~helpers();
  // Behind the bracket of the fiber that will wait; never fails: where no thread can be started, what exists serves in turn.
  void push(io_request& r) noexcept;
  // Outside of brackets, before push: throws std::system_error if not even one thread can be had.
  void make_room();

 private:
  static constexpr size_t most = 32;
  void main() noexcept;

  std::mutex lock_;
  std::condition_variable work_;
  io_list queue_;
  size_t queued_ = 0, idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heddle::core
