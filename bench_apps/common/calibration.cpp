#include "bench_apps/common/calibration.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "bench_apps/common/work.h"

namespace heddle::bench {
namespace {

constexpr uint64_t iterations_per_try = 1'000'000;  // about a millisecond: long for the clock, short for a preemption
constexpr int tries = 40;

double best_try() {
  double best = INFINITY;
  for (int i = 0; i < tries; i++) {
    const auto start = std::chrono::steady_clock::now();
    const volatile uint64_t sink = work_iterations(iterations_per_try, static_cast<uint64_t>(i));
    (void)sink;
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return best / static_cast<double>(iterations_per_try);
}

// On a thread of its own, so that pinning leaves no trace on the caller. An unpinned answer is still an answer.
double measure_pinned() {
  double ns = 0;
  std::thread([&ns] {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (const int cpu = sched_getcpu(); cpu >= 0 && cpu < CPU_SETSIZE) {
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
    ns = best_try();
  }).join();
  return ns;
}

}  // namespace

calibration calibration::measure() { return calibration(measure_pinned()); }

std::optional<std::string> calibration::recheck() const {
  const double now = measure_pinned();
  const double change_pct = (now / ns_per_iteration_ - 1) * 100;
  if (std::fabs(change_pct) <= 5) return std::nullopt;
  return fmt::format(
      "work took {:.3f} ns per iteration at the start and {:.3f} at the end ({:+.1f} %): clock speed or a neighbour "
      "changed",
      ns_per_iteration_, now, change_pct);
}

}  // namespace heddle::bench
