// What the scheduler knows of I/O: a carrier may have a port, through which its fibers' operations go out and come back. The
// ports themselves live in runtime/io.
//
// P1 Made by its carrier at the first operation, published in carrier::port, destroyed with the carrier. A runtime without I/O
//    has none and tests one null pointer where a carrier idles or ticks.
// P2 Behind the carrier's bracket, or under its claim: everything but stirs(), post() and the sleeper's two calls.
// P3 Only the owner submits (the ring has a single issuer). A claimant reaps what has completed and takes back what was not yet
//    submitted; whoever waits for that starts again where it wakes.
#pragma once

#include "runtime/machine/machine.h"
#include "runtime/sched/worker.h"

namespace heddle::core {

class io_port : public sleeper {
 public:
  virtual ~io_port() = default;

  // Owner, inside the bracket and left inside; the bracket is opened meanwhile for the system call. Submits what is queued,
  // reaps what has completed; the fibers that waited become ready.
  virtual void serve(carrier& c) = 0;
  // Anyone's cheap look: is there something to serve?
  virtual bool stirs() noexcept = 0;
  // Is anything outstanding, so that a park has to wait for it as well?
  virtual bool awaits() const noexcept = 0;
  // Under the claim of a carrier that stands still inside a fiber (P3): the claimed fibers, oldest first.
  virtual waitable* take_over() noexcept = 0;
};

}  // namespace heddle::core
