// Real work of a known length, and real memory accesses: what burn() and touch() are on the host. In a translation unit of its
// own with fixed flags, so that two builds do the same work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/ids.h"

namespace heddle::core {

inline void relax_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// A dependent chain of multiplications; returns its result so that nothing is optimised away.
uint64_t work_iterations(uint64_t count, uint64_t seed) noexcept;

// Nanoseconds per 1024 iterations: the least of several tries, measured at first use or by set_work_speed.
double work_ns_per_1024() noexcept;
double measure_work_speed() noexcept;
void set_work_speed(double ns_per_1024) noexcept;

// Iterations worth `duration` at the calibrated speed: fixed work, however long it takes.
void work_for(nanos duration) noexcept;

void touch_memory(void* object, size_t bytes, bool write) noexcept;

}  // namespace heddle::core
