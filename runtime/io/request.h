// One operation: what is to be done, and who waits for it. It lies on the waiting fiber's stack, so it lives exactly as long as
// the kernel may touch the buffers it names.
//
// R1 word = epoch of the wait << 3 | last << 2 | parts that are not over: the operation itself, and a cancellation under way. Whoever
//    ends the last part claims that epoch and touches the request no more.
// R2 A wait that ends otherwise (deadline, stop token, close, shutdown) leaves its operation under way. The fiber opens a second
//    epoch, adds the part "cancellation" by compare-exchange and waits for both, unconditionally: what the kernel did is what
//    counts, so nothing that was read is lost to a deadline.
// R3 The cancellation goes to the port that has the operation (`at`), wherever the fiber wakes.
#pragma once

#include <cstdint>

#include "runtime/base/atomic.h"
#include "runtime/fiber/fiber.h"
#include "runtime/sched/wait.h"

namespace heddle::core {

struct carrier;

enum class io_op : uint8_t {
  read,
  write,
  recv,
  send,
  recvmsg,
  sendmsg,
  accept,
  connect,
  poll,
  fsync,
  fdatasync,
  open,
  stat,
  unlink,
  splice
};

struct io_request {
  io_op what;
  int fd = -1;
  void* address = nullptr;  // buffer, path, msghdr, sockaddr
  uint64_t bytes = 0;
  int64_t offset = -1;  // -1: the descriptor's own position
  uint32_t flags = 0;
  void* second = nullptr;  // accept: length of the address; stat: the result
  int other_fd = -1;       // splice: where to

  int32_t result = 0;  // valid once all parts are over
  atomic<uint64_t> word{0};
  fiber_record* fiber = nullptr;
  carrier* at = nullptr;
  // Behind at's bracket: in the port's list of what is queued or of what the kernel has.
  io_request* next = nullptr;
  io_request* prev = nullptr;
  bool submitted = false;
  io_request* posted = nullptr;  // link of the cancellation that is on its way
  atomic<bool> stopped{false};   // by its stop token
  atomic<bool> closed{false};    // its descriptor was closed

  static constexpr uint64_t waits(uint64_t epoch) noexcept { return epoch << 3 | 1; }
  static constexpr uint64_t called_off(uint64_t epoch) noexcept { return epoch << 3 | 6; }
  // Waited for to the end, whatever happens (R2).
  bool last() const noexcept { return (word.load(relaxed) & 4) != 0; }
  uint64_t epoch() const noexcept { return word.load(relaxed) >> 3; }
};

inline constexpr int32_t io_again = -512;  // taken back from a stuck carrier before it was submitted: start again

// R1. The fiber, if it is now the caller's to make ready.
inline fiber_record* end_part(io_request& r) noexcept {
  fiber_record* f = r.fiber;
  uint64_t word = r.word.load(relaxed);
  while (!r.word.compare_exchange_weak(word, word - 1, acq_rel, relaxed)) {
  }
  if (((word - 1) & 3) != 0) return nullptr;
  return claim_epoch(*f, word >> 3, wait_phase::notified) ? f : nullptr;
}

struct io_list {
  io_request* first = nullptr;
  io_request* last = nullptr;
  atomic<uint32_t> size{0};  // what others may look at, without the right to touch the list

  bool any() const noexcept { return size.load(relaxed) != 0; }
  void append(io_request& r) noexcept {
    bump(size, 1);
    r.next = nullptr;
    r.prev = last;
    (last ? last->next : first) = &r;
    last = &r;
  }
  void remove(io_request& r) noexcept {
    bump(size, -1);
    (r.prev ? r.prev->next : first) = r.next;
    (r.next ? r.next->prev : last) = r.prev;
  }
};

}  // namespace heddle::core
