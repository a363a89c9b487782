// A flow of control of the virtual machine while another one has the kernel thread: a cpu's carrier, the monitor, the thread
// that drives. All share one kernel thread, so what belongs to such a thread travels with the hand-over: the carrier pointer,
// the C++ runtime's exception state, errno. A strand is left on whatever stack it stands: its own, or a fiber's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/fiber/context.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {

struct strand {
  void* sp = nullptr;
  carrier* runs = nullptr;  // this_carrier() while it has the kernel thread
  void* eh_caught = nullptr;
  uint32_t eh_uncaught = 0;
  int err = 0;
  const void* stack_low = nullptr;  // these three for the sanitizers: the stack it stands on, and TSan's name for it
  size_t stack_bytes = 0;
  void* sanitizer = nullptr;
};

// A strand that begins in entry() on the stack of `memory`, which lends nothing else. entry never returns.
void prepare_strand(strand& s, fiber_record& memory, void (*entry)()) noexcept;
// The kernel thread's own flow of control becomes a strand.
void adopt_strand(strand& s) noexcept;
// First thing in entry().
void entered_strand() noexcept;
// `from` has the kernel thread and loses it to `to`; returns when somebody hands back.
void hand_over(strand& from, strand& to) noexcept;

}  // namespace heddle::core
