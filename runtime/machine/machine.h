// The one seam between the runtime and what it runs on. The host machine is real threads on real cores; the virtual machine
// is any topology under a virtual clock. Only cold calls are here: hot operations know no machine (they test one attention
// word, which the virtual machine keeps set).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

// What a scheduling point was reached by: what the virtual machine charges for and what a trace shows.
enum class op : uint8_t { yield, suspend, wake, spawn, exit, idle, join, sleep, fork, access };
inline constexpr size_t op_count = static_cast<size_t>(op::access) + 1;

enum class access : uint8_t { read, write };

// Where a carrier sleeps if not in the machine's own bed: in its ring, which wakes it by a completion too.
class sleeper {
 public:
  virtual void sleep(nanos deadline) noexcept = 0;  // may return early
  virtual void wake() noexcept = 0;                 // from anywhere; a wake that comes before the sleep ends that sleep

 protected:
  ~sleeper() = default;
};

// What policies and the mechanism themselves do, where time is only counted (the host's clock sees it anyway).
enum class chore : uint8_t {
  tick,     // housekeeping
  place,    // a placement around a cpu, having read `count` rows
  balance,  // a pass over a domain of `count` cpus
  marks,    // `count` writes to the words that an LLC shares
  queue,    // a run queue is held for a push or a detach
};

class machine {
 public:
  virtual ~machine() = default;

  virtual bool is_virtual() const noexcept = 0;
  virtual nanos now() noexcept = 0;
  // False: no asymmetric fence here, owners must fence for themselves.
  virtual bool has_barrier() const noexcept = 0;

  // The cpu of ours that this plain thread runs on, or none.
  virtual cpu_id current_cpu() const noexcept = 0;

  // The carrier of `cpu` sleeps until unpark(cpu) or the deadline; an unpark that came before is not lost. May return early.
  virtual void park(cpu_id cpu, nanos deadline) noexcept = 0;
  // The same, asleep in `in`. The host only: the virtual machine has no descriptors.
  virtual void park_in(cpu_id cpu, nanos deadline, sleeper& in) noexcept {
    (void)in;
    park(cpu, deadline);
  }
  virtual void unpark(cpu_id cpu) noexcept = 0;
  // Every wait loop calls it.
  virtual void relax() noexcept = 0;
  // The same for a carrier that polls for work: with nothing new it would do nothing else before `until`.
  virtual void poll(nanos until) noexcept = 0;
  // `cpu` polls and has something new in its inbox. On the host it sees that by itself, and nobody calls this.
  virtual void look(cpu_id cpu) noexcept = 0;
  // Work of a calibrated length; own_bytes is the working set it drags along (virtual machine only).
  // What is left of it: nothing, except where it was cut short for the scheduler to have a look (preempt=on).
  virtual nanos burn(nanos duration, size_t own_bytes) = 0;
  // Spins until the clock says so: finishes on time although others ran meanwhile. False: cut short likewise.
  virtual bool burn_until(nanos time) = 0;
  // What `cpu` works on is cut short: something came that may want its place.
  virtual void interrupt(cpu_id) noexcept {}
  // A memory access that communicates.
  virtual void touch(void* object, size_t bytes, access how) = 0;
  // Every plain access before this call is seen by whoever runs on `cpu` (none: on all cpus of the process), and the other
  // way round. The heavy side of an asymmetric fence.
  virtual void barrier(cpu_id cpu) noexcept = 0;
  // The monitor sleeps; poke() ends it early.
  virtual void nap(nanos duration) noexcept = 0;
  virtual void poke() noexcept = 0;
  // A plain thread waits while word == expected; false: the deadline passed, or (virtual machine, no deadline) nothing will ever
  // happen again.
  virtual bool wait(std::atomic<uint32_t>& word, uint32_t expected, nanos deadline) noexcept = 0;
  virtual void notify(std::atomic<uint32_t>& word) noexcept = 0;

  // A scheduling point: the virtual machine charges for it and may run any other cpu. The host never gets here.
  virtual void point(op kind) = 0;

  // Inside a bracket too: whoever wants in meanwhile waits as for an owner that the kernel preempted there.
  virtual void charge(chore, cpu_id, uint64_t) noexcept {}

  // Starts one carrier per cpu, each running body(cpu), and the monitor where one is given. Throws std::system_error.
  virtual void start(size_t cpus, std::function<void(cpu_id)> body, std::function<void()> monitor) = 0;
  // Where the carrier of `cpu` runs its own code; empty: on a kernel thread's stack.
  virtual std::span<char> stack_of(cpu_id) const noexcept { return {}; }
  // Called when a plain thread waits without a deadline and nothing can ever happen: true if it changed that.
  virtual void when_stuck(std::function<bool()>) {}
  // Throws std::logic_error where this plain thread may not use the runtime.
  virtual void check_thread() const {}
  // True in the child of a fork, which has none of the carriers.
  virtual bool forked() const noexcept { return false; }
  // What the machine counts about itself, by name.
  virtual void count(const std::function<void(std::string_view, uint64_t)>&) const {}
  // Waits for the carriers to return from body. False: the deadline passed; what still runs is leaked.
  virtual bool join(nanos deadline) = 0;
};

}  // namespace heddle::core
