#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/atomic.h"
#include "runtime/base/rng.h"
#include "tests/seed.h"

#if defined(HEDDLE_INTERLEAVE)
#include <cerrno>
#include <chrono>
#include <thread>
#endif

namespace {

uint64_t chosen_seed = 1;

#if defined(HEDDLE_INTERLEAVE)
// The schedule on real threads: one access in 4096 naps for up to 50 us, which stretches windows of a few nanoseconds to
// where another CPU can fall into them. Each thread draws from a sequence of its own.
void nap_at_times() noexcept {
  using namespace heddle::core;
  static std::atomic<uint64_t> threads{0};
  thread_local rng chance{chosen_seed * 1'000'003 + threads.fetch_add(1)};
  if (chance.below(4096) != 0) return;
  const int kept = errno;  // an access to an atomic does not change it
  std::this_thread::sleep_for(std::chrono::microseconds(chance.below(50)));
  errno = kept;
}
#endif

}  // namespace

uint64_t heddle_test::seed() { return chosen_seed; }

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], "--seed") == 0) chosen_seed = std::strtoull(argv[i + 1], nullptr, 0);
  std::printf("seed %llu (repeat with --seed N)\n", static_cast<unsigned long long>(chosen_seed));
#if defined(HEDDLE_INTERLEAVE)
  heddle::core::set_interleave(nap_at_times);
#endif
  doctest::Context context(argc, argv);
  return context.run();
}
