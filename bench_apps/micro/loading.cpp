// A runtime under load, beside a hog, and without work.
#include <heddle/channel.h>
#include <heddle/fiber.h>
#include <heddle/machine.h>
#include <heddle/sync.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench_apps/micro/families.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::micro {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct paced {
  std::vector<double> delays_us;  // end - due
  double jobs_per_s = 0;
};

// Every millisecond a batch of 100 us jobs falls due, for half a second. An open loop: a batch that starts late was due all the
// same, and nothing is skipped.
paced pace(round& r, size_t jobs_per_ms) {
  const auto batches = static_cast<size_t>(r.count(500));
  const size_t count = batches * jobs_per_ms;
  paced out;
  out.delays_us.resize(count);
  runtime rt(r.options(2));
  rt.run([&] {
    channel<int64_t> due(count);
    std::atomic<size_t> done{0};
    std::vector<fiber<void>> workers;
    for (size_t i = 0; i < 2 * jobs_per_ms; i++)
      workers.push_back(spawn([&] {
        while (const auto at = due.pop()) {
          this_fiber::burn(100us);
          const size_t n = done.fetch_add(1, std::memory_order_relaxed);
          out.delays_us[n] = static_cast<double>(stopwatch::wall_now() - *at) * 1e-3;
        }
      }));
    const int64_t begin = stopwatch::wall_now() + 1'000'000;
    for (size_t b = 0; b < batches; b++) {
      const int64_t at = begin + static_cast<int64_t>(b) * 1'000'000;
      if (const int64_t left = at - stopwatch::wall_now(); left > 0) this_fiber::sleep_for(nanoseconds(left));
      for (size_t i = 0; i < jobs_per_ms; i++) due.push(at);
    }
    due.close();
    for (auto& f : workers) f.join();
    out.jobs_per_s = static_cast<double>(count) * 1e9 / static_cast<double>(stopwatch::wall_now() - begin);
  });
  return out;
}

void measure_paced50(round& r) { r.record("paced50_p99_us", *percentile(pace(r, 10).delays_us, 99)); }
void measure_paced90(round& r) { r.record("paced90_p99_us", *percentile(pace(r, 18).delays_us, 99)); }
void measure_paced100(round& r) { r.record("paced100_per_s", pace(r, 20).jobs_per_s); }

// 50 fibers that sleep 200 us at a time, and one that now and then holds its worker for 50 ms.
void measure_hog(round& r) {
  static constexpr size_t others = 50;
  const int64_t bursts = r.count(10);
  runtime rt(r.options(2));
  std::vector<std::vector<double>> late_us(others);
  rt.run([&] {
    std::atomic<bool> stop{false};
    std::vector<fiber<void>> all;
    for (auto& mine : late_us)
      all.push_back(spawn([&stop, &mine] {
        while (!stop.load(std::memory_order_relaxed)) {
          const int64_t due = stopwatch::wall_now() + 200'000;
          this_fiber::sleep_for(200us);
          mine.push_back(static_cast<double>(stopwatch::wall_now() - due) * 1e-3);
        }
      }));
    this_fiber::sleep_for(10ms);
    for (int64_t i = 0; i < bursts; i++) {
      this_fiber::burn_until(this_fiber::now() + 50ms);
      this_fiber::sleep_for(10ms);
    }
    stop = true;
    for (auto& f : all) f.join();
  });
  std::vector<double> pooled;
  for (const auto& mine : late_us) pooled.insert(pooled.end(), mine.begin(), mine.end());
  r.record("hog_p99_us", *percentile(pooled, 99));
  r.record("hog_max_us", *percentile(pooled, 100));
}

// 100 fibers wait for something that does not come.
void measure_idle(round& r) {
  runtime rt(r.options(r.workers()));
  counting_semaphore<> never(0);
  std::vector<fiber<void>> all;
  for (int i = 0; i < 100; i++) all.push_back(rt.spawn([&] { never.acquire(); }));
  std::this_thread::sleep_for(50ms);  // the workers' own looking around has ended
  const stopwatch t;
  std::this_thread::sleep_for(1s);
  r.record("idle_cpu_pct", t.cpu_ns() / t.wall_ns() * 100);
  never.release(100);
  for (auto& f : all) f.join();
}

constexpr figure_info paced50_figure[] = {
    {"paced50_p99_us", "100 us jobs due every ms, 50 % load, from due time", direction::lower, 400, 500}};
constexpr figure_info paced90_figure[] = {{"paced90_p99_us", "90 % load", direction::lower, 800, 1200}};
constexpr figure_info paced100_figure[] = {
    {"paced100_per_s", "100 % load, jobs a second", direction::higher, 20'000, 19'700}};
constexpr figure_info hog_figures[] = {
    {"hog_p99_us", "others' delay beside 50 ms bursts, 99th percentile", direction::lower, {}, 150},
    {"hog_max_us", "the longest", direction::lower, {}, 4000}};
constexpr figure_info idle_figure[] = {
    {"idle_cpu_pct", "CPU time of a runtime whose 100 fibers wait", direction::lower, 0, 0.01}};

}  // namespace

const family paced50{.figures = paced50_figure, .workers = 2, .rounds_max = 3, .measure = measure_paced50};
const family paced90{.figures = paced90_figure, .workers = 2, .rounds_max = 3, .measure = measure_paced90};
const family paced100{.figures = paced100_figure, .workers = 2, .rounds_max = 3, .measure = measure_paced100};
const family hog{.figures = hog_figures, .workers = 2, .rounds_max = 3, .measure = measure_hog};
const family idle{.figures = idle_figure, .rounds_max = 3, .measure = measure_idle};

}  // namespace heddle::bench::micro
