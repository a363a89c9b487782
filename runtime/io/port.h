// What ring and poller have in common: the lists of a carrier's operations, and cancellations posted from anywhere.
#pragma once

#include <memory>
#include <string>

#include "runtime/io/request.h"
#include "runtime/sched/io_port.h"

namespace heddle::core {

class port : public io_port {
 public:
  explicit port(carrier& c) noexcept : at_(c) {}

  // Behind the bracket: goes out with the next serve.
  void start(io_request& r) noexcept;
  // From anywhere: call this operation off. Inbox and state protocol as in sched/inbox.h (I1, I2), with att_io.
  void post(io_request& r) noexcept;
  // Behind the bracket or under the claim: ends the waits for this descriptor. Their fibers, oldest first.
  waitable* close(int fd) noexcept;
  // Only readiness comes from here; operations are then tried by whoever waited.
  virtual bool by_readiness() const noexcept { return false; }

  // A hint for who closes: whether anybody here waits for a descriptor like this one.
  bool may_wait_for(int fd) const noexcept { return by_fd_[slot(fd)].load(acquire) != 0; }
  bool awaits() const noexcept override { return flight_.first || queue_.first; }
  waitable* take_over() noexcept override;

 protected:
  bool posted() const noexcept { return posted_.load(relaxed) != nullptr; }
  // What is called off before it went out has ended at once; the others are the rung's to cancel.
  void take_posted() noexcept;
  virtual void cancel(io_request& r) noexcept = 0;
  // The operation is over: out of the lists, and its fiber among the woken if nobody was faster.
  void end(io_request& r, int32_t result) noexcept;
  void wake_later(fiber_record* f) noexcept;
  void wake_all(carrier& c) noexcept;  // inside c's bracket
  virtual void reap() noexcept = 0;

  carrier& at_;
  io_list queue_, flight_;
  waitable* woken_ = nullptr;  // oldest first, until wake_all
  waitable** woken_end_ = &woken_;

 private:
  static constexpr size_t fd_slots = 4096;
  static size_t slot(int fd) noexcept { return static_cast<size_t>(fd) % fd_slots; }
  waitable* take_woken() noexcept;

  atomic<io_request*> posted_{nullptr};
  atomic<uint16_t> by_fd_[fd_slots] = {};
};

// Two rungs. Null and errno where the kernel has none for us.
std::unique_ptr<port> make_ring(carrier& c, unsigned entries, bool defer, int& error);
std::unique_ptr<port> make_poller(carrier& c, int& error);

}  // namespace heddle::core
