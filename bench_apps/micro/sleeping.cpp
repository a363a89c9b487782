// Sleepers: how late they wake, what a sleep costs, how many the timers carry.
#include <heddle/fiber.h>
#include <heddle/sync.h>

#include <chrono>

#include "bench_apps/micro/families.h"
#include "runtime/base/rng.h"

namespace heddle::bench::micro {
namespace {

using namespace std::chrono_literals;

struct slept {
  std::vector<double> late_us;
  double wall_ns = 0;
  double cpu_ns = 0;
};

// All sleep twice, 1 to 100 ms; the clock runs from the moment all are there.
slept sleep_all(round& r, size_t sleepers) {
  static constexpr size_t naps = 2;
  slept out;
  out.late_us.resize(sleepers * naps);
  runtime rt(r.options(r.workers()));
  rt.run([&] {
    core::rng random(r.seed());
    latch ready(static_cast<std::ptrdiff_t>(sleepers) + 1);
    latch go(1);
    std::vector<fiber<void>> all;
    all.reserve(sleepers);
    for (size_t i = 0; i < sleepers; i++) {
      const auto nap = [&random] { return 1ms + std::chrono::nanoseconds(random.below(99'000'000)); };
      const std::chrono::nanoseconds how_long[naps] = {nap(), nap()};
      all.push_back(spawn([&ready, &go, how_long, late = &out.late_us[i * naps]] {
        ready.count_down();
        go.wait();
        for (size_t n = 0; n < naps; n++) {
          const int64_t due = stopwatch::wall_now() + how_long[n].count();
          this_fiber::sleep_for(how_long[n]);
          late[n] = static_cast<double>(stopwatch::wall_now() - due) * 1e-3;
        }
      }));
    }
    ready.arrive_and_wait();
    const stopwatch t;
    go.count_down();
    for (auto& f : all) f.join();
    out.wall_ns = t.wall_ns();
    out.cpu_ns = t.cpu_ns();
  });
  return out;
}

void measure_sleep5k(round& r) {
  slept s = sleep_all(r, static_cast<size_t>(r.count(5'000)));
  const double naps = static_cast<double>(s.late_us.size());
  r.record("sleep5k_p50_us", *percentile(s.late_us, 50));
  r.record("sleep5k_p99_us", *percentile(s.late_us, 99));
  r.record("sleep5k_cpu_us", s.cpu_ns * 1e-3 / naps);
}

void measure_sleep100k(round& r) {
  const slept s = sleep_all(r, static_cast<size_t>(r.count(100'000)));
  r.record("sleep100k_s", s.wall_ns * 1e-9, s.cpu_ns / static_cast<double>(s.late_us.size()));
}

constexpr figure_info sleep5k_figures[] = {
    {"sleep5k_p50_us", "5000 sleepers, 1-100 ms: how late, median", direction::lower, 27, 35, anchor::none},
    {"sleep5k_p99_us", "99th percentile", direction::lower, 80, 120, anchor::none},
    {"sleep5k_cpu_us", "CPU time per sleep", direction::lower, 0.2, 2.5, anchor::none}};
constexpr figure_info sleep100k_figure[] = {
    {"sleep100k_s", "100 000 sleepers twice up to 100 ms, wall", direction::lower, 0.20, 0.25, anchor::none}};

}  // namespace

const family sleep5k{.figures = sleep5k_figures, .measure = measure_sleep5k};
const family sleep100k{.figures = sleep100k_figure, .rounds_max = 3, .measure = measure_sleep100k};

}  // namespace heddle::bench::micro
