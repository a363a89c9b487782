// The host machine: one kernel thread per chosen cpu, pinned; futex, steady clock, membarrier.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "affinity/topology.h"
#include "runtime/machine/machine.h"

namespace heddle::core {

// `warn` gets one line when pins are refused (the carriers then run unpinned).
std::unique_ptr<machine> make_host(const topology& cpus, std::function<void(std::string_view)> warn);

// A futex wait without any machine, for plain threads; false: the deadline (steady clock) passed.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t expected, nanos deadline) noexcept;
void futex_wake(std::atomic<uint32_t>& word) noexcept;
nanos steady_now() noexcept;

// `child` runs in the child of every later fork, in the thread that forked; one per process.
void after_fork(void (*child)()) noexcept;

}  // namespace heddle::core
