// How fast the virtual machine runs: scheduling events per second of this process's wall clock.
#include <heddle/fiber.h>
#include <heddle/machine.h>
#include <heddle/sync.h>

#include <memory>
#include <string_view>
#include <vector>

#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {
namespace {

using namespace std::chrono_literals;

// Pairs that wake each other, two fibers a cpu, every wake-up followed by a microsecond of work. Start and end are not counted.
void simulate(round& r, const char* described, std::string_view name, int64_t wakes) {
  runtime_options options;
  options.machine = heddle::machine::named(described);
  options.seed = r.seed();
  options.read_environment = false;
  runtime rt(options);
  const size_t pairs = rt.workers();
  const int64_t each = std::max<int64_t>(1, r.count(wakes) / static_cast<int64_t>(pairs));
  struct pair {
    counting_semaphore<> there{0}, back{0};
  };
  const auto all = std::make_unique<pair[]>(pairs);
  uint64_t events = 0;
  double wall_ns = 0;
  const auto events_now = [&] { return rt.stats().counters["vm_events"]; };
  rt.run([&] {
    std::vector<fiber<void>> fibers;
    latch ready(static_cast<std::ptrdiff_t>(2 * pairs));
    latch go(1);
    const auto role = [&](counting_semaphore<>& waits, counting_semaphore<>& wakes_it, bool begins) {
      fibers.push_back(spawn([&waits, &wakes_it, &ready, &go, begins, each] {
        ready.count_down();
        go.wait();
        for (int64_t i = 0; i < each; i++) {
          if (!begins || i > 0) waits.acquire();
          this_fiber::burn(1us);
          wakes_it.release();
        }
      }));
    };
    for (size_t i = 0; i < pairs; i++) {
      role(all[i].back, all[i].there, true);
      role(all[i].there, all[i].back, false);
    }
    ready.wait();
    const uint64_t before = events_now();
    const stopwatch t;
    go.count_down();
    for (auto& f : fibers) f.join();
    wall_ns = t.wall_ns();
    events = events_now() - before;
  });
  r.record(name, static_cast<double>(events) * 1e3 / wall_ns);
}

void measure_40(round& r) { simulate(r, "2n40", "virtual40_mevents_per_s", 400'000); }
void measure_4096(round& r) { simulate(r, "n4096", "virtual4096_mevents_per_s", 400'000); }

constexpr figure_info figure40[] = {
    {"virtual40_mevents_per_s", "virtual machine of 40 CPUs, M scheduling events a second", direction::higher, 11, 3}};
constexpr figure_info figure4096[] = {{"virtual4096_mevents_per_s", "of 4096 CPUs", direction::higher, 3.7, 1}};

}  // namespace

const family virtual40{.figures = figure40, .workers = 1, .rounds_max = 5, .measure = measure_40};
const family virtual4096{.figures = figure4096, .workers = 1, .rounds_max = 1, .measure = measure_4096};

}  // namespace heddle::bench::micro
