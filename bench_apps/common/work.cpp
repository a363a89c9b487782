#include "bench_apps/common/work.h"

namespace heddle::bench {

uint64_t work_iterations(uint64_t count, uint64_t seed) noexcept {
  uint64_t x = seed | 1;
  for (uint64_t i = 0; i < count; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // keeps the compiler from closing the recurrence
  }
  return x;
}

void work_matrix(const uint64_t* a, const uint64_t* b, uint64_t* c, int side) noexcept {
  for (int i = 0; i < side; i++)
    for (int j = 0; j < side; j++) {
      uint64_t sum = 0;
      for (int k = 0; k < side; k++) sum += a[i * side + k] * b[k * side + j];
      c[i * side + j] = sum;
    }
}

void work_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace heddle::bench
