// A worker's inbox: an intrusive multi-producer stack, linked inside the fiber. Never full, never allocates; any claimant may
// take all, so there is no ABA: nothing is popped singly.
//
// I1 A push is seq_cst and then reads the worker's state on the same line: parked -> unpark it; running and the inbox was empty
//    -> set its attention; polling -> nothing, it looks by itself.
// I2 Whoever leaves polling or parked stores state = running, then exchanges the inbox: the exchange is the fence. A pusher that
//    still read `polling` pushed before the exchange.
#pragma once

#include "runtime/sched/worker.h"

namespace heddle::core {

// `first` .. `last` linked through next, newest first. Outside the bracket where possible: unpark is a system call.
void push_inbox(worker& to, waitable* first, waitable* last) noexcept;
inline void push_inbox(worker& to, waitable* one) noexcept { push_inbox(to, one, one); }
// A chain that is oldest first.
void send(worker& to, waitable* oldest_first) noexcept;

// Behind w's bracket: what lies in the inbox goes to the queue, oldest first. Returns how many.
uint32_t accept_inbox(worker& w) noexcept;
inline uint32_t accept_inbox_if_any(worker& w) noexcept {
  return w.inbox.load(relaxed) == nullptr ? 0 : accept_inbox(w);
}

// Timers of a worker that stands still, on their way to another one.
struct timer_message : waitable {
  timer_message() noexcept { flags = ff_message; }
  std::vector<timer> timers;
};

}  // namespace heddle::core
