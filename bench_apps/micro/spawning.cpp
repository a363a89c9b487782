// Spawn and join: one at a time, a thousand at once, a million alive.
#include <heddle/fiber.h>
#include <heddle/sync.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {
namespace {

template <int Site>
void empty() {
  keep_apart<Site>();
}

void measure_spawn_join(round& r) {
  const int64_t triples = r.count(100'000);
  runtime rt(r.options(1));
  rt.run([&] {
    for (int i = 0; i < 1000; i++) spawn(empty<0>).join();  // the first stack is made, its page touched
    const stopwatch t;
    for (int64_t i = 0; i < triples; i++) {
      spawn(empty<0>).join();
      spawn(empty<1>).join();
      spawn(empty<2>).join();
    }
    const double count = 3.0 * static_cast<double>(triples);
    r.record("spawn_join_ns", t.wall_ns() / count, t.cpu_ns() / count);
  });
}

void measure_spawn_batch(round& r) {
  static constexpr int size = 1000;
  const int64_t batches = r.count(200);
  runtime rt(r.options(2));
  rt.run([&] {
    std::vector<fiber<void>> all;
    all.reserve(size);
    const auto batch = [&all] {
      for (int i = 0; i < size; i++) all.push_back(spawn(empty<0>));
      for (auto& f : all) f.join();
      all.clear();
    };
    batch();
    const stopwatch t;
    for (int64_t i = 0; i < batches; i++) batch();
    const auto count = static_cast<double>(batches * size);
    r.record("spawn_batch_ns", t.wall_ns() / count, t.cpu_ns() / count);
  });
}

double resident_kib() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident * (sysconf(_SC_PAGESIZE) / 1024));
}

void measure_live(round& r) {
  if (r.live() == 0) return;
  const auto count = static_cast<double>(r.live());
  runtime rt(r.options(r.workers()));
  try {
    rt.run([&] {
      counting_semaphore<> gate(0);
      latch waiting(r.live());
      std::vector<fiber<void>> all;
      all.reserve(static_cast<size_t>(r.live()));
      const double before_kib = resident_kib();
      const stopwatch spawning;
      for (int64_t i = 0; i < r.live(); i++)
        all.push_back(spawn([&] {
          waiting.count_down();
          gate.acquire();
        }));
      waiting.wait();
      r.record("live1m_ns", spawning.wall_ns() / count, spawning.cpu_ns() / count);
      r.record("live1m_kib", (resident_kib() - before_kib) / count);
      const stopwatch releasing;
      gate.release(r.live());
      for (auto& f : all) f.join();
      r.record("release1m_ns", releasing.wall_ns() / count, releasing.cpu_ns() / count);
    });
  } catch (const std::system_error& e) {
    r.note(std::string("live1m: ") + e.what() + "; --live N asks for fewer");
  }
}

constexpr figure_info spawn_join_figure[] = {
    {"spawn_join_ns", "spawn and join an empty fiber, 1 worker", direction::lower, 13, 45, anchor::rmw_ns}};
constexpr figure_info spawn_batch_figure[] = {
    {"spawn_batch_ns", "1000 spawned at once, 2 workers, per fiber", direction::lower, 20, 100, anchor::rmw_ns}};
constexpr figure_info live_figures[] = {
    {"live1m_ns", "spawn, run and block a guarded fiber, 1e6 alive", direction::lower, 1600, 2200, anchor::page_ns},
    {"live1m_kib", "resident memory of each", direction::lower, 4.0, 4.6, anchor::none},
    {"release1m_ns", "release and join each", direction::lower, 150, 350, anchor::rmw_ns}};

}  // namespace

const family spawn_join{.figures = spawn_join_figure, .workers = 1, .measure = measure_spawn_join};
const family spawn_batch{.figures = spawn_batch_figure, .workers = 2, .measure = measure_spawn_batch};
const family live{.figures = live_figures, .rounds_max = 1, .measure = measure_live};

}  // namespace heddle::bench::micro
