// The virtual machine: any topology under a virtual clock, all its cpus, the monitor and the thread that made it as strands of
// one kernel thread. What runs on it is the host's own code. Same topology, settings, seed and program: the same trace.
//
// V1 The strand with the least time runs. Whoever would pass the next one hands the kernel thread over, directly. (explore: any
//    that is not far behind may be drawn instead; clocks never run backwards for it.)
// V2 A strand may be left at any call of the machine, as the kernel may preempt a thread anywhere.
// V3 The thread that made it is a strand too; its blocking calls let the others run. No other plain thread may come here.
// V4 Work under way is an entry in the queue at the time at which it will end. A sibling that begins or ends work moves that entry.
#pragma once

#include <memory>

#include "affinity/topology.h"
#include "runtime/base/settings.h"
#include "runtime/machine/machine.h"

namespace heddle::core {

// Throws std::invalid_argument where this thread cannot drive it.
std::unique_ptr<machine> make_virtual(const topology& cpus, const settings& rule, uint64_t seed);

}  // namespace heddle::core
