#include "runtime/machine/work.h"

#include <algorithm>

#include "runtime/base/atomic.h"
#include "runtime/machine/host.h"

namespace heddle::core {
namespace {
atomic<double> speed{0.0};
atomic<uint64_t> sink{0};
}  // namespace

[[gnu::noinline]] uint64_t work_iterations(uint64_t count, uint64_t seed) noexcept {
  uint64_t x = seed | 1;
  for (uint64_t i = 0; i < count; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // one iteration is one multiply-add of latency, in every build
  }
  return x;
}

double measure_work_speed() noexcept {
  constexpr uint64_t iterations = 1 << 16;
  double best = 1e18;
  for (int attempt = 0; attempt < 15; attempt++) {
    const nanos began = steady_now();
    sink.store(work_iterations(iterations, static_cast<uint64_t>(attempt)), relaxed);
    best = std::min(best, static_cast<double>((steady_now() - began).count()));
  }
  return best / (iterations / 1024);
}

void set_work_speed(double ns_per_1024) noexcept { speed.store(ns_per_1024, relaxed); }

double work_ns_per_1024() noexcept {
  double known = speed.load(relaxed);
  if (known == 0.0) {
    known = measure_work_speed();
    set_work_speed(known);
  }
  return known;
}

void work_for(nanos duration) noexcept {
  if (duration.count() <= 0) return;
  const double iterations = static_cast<double>(duration.count()) * 1024 / work_ns_per_1024();
  sink.store(work_iterations(static_cast<uint64_t>(iterations), sink.load(relaxed)), relaxed);
}

void touch_memory(void* object, size_t bytes, bool write) noexcept {
  auto* p = static_cast<volatile unsigned char*>(object);
  for (size_t i = 0; i < bytes; i += cache_line_bytes) {
    const unsigned char value = p[i];
    if (write) p[i] = value;  // moves the line, and leaves in it what the caller has there
  }
}

}  // namespace heddle::core
