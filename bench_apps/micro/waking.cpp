// Wake-ups: there and back over two semaphores, one way on a worker, to another worker, from a plain thread.
#include <heddle/fiber.h>
#include <heddle/machine.h>
#include <heddle/sync.h>

#include <algorithm>
#include <deque>

#include "bench_apps/common/work.h"
#include "bench_apps/micro/families.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::micro {
namespace {

struct pair {
  counting_semaphore<> to{0};
  counting_semaphore<> back{0};
};

void ping(pair& p, int64_t triples) {
  for (int64_t i = 0; i < triples; i++) {
    p.to.release();
    p.back.acquire();
    keep_apart<0>();
    p.to.release();
    p.back.acquire();
    keep_apart<1>();
    p.to.release();
    p.back.acquire();
    keep_apart<2>();
  }
}
void pong(pair& p, int64_t triples) {
  for (int64_t i = 0; i < triples; i++) {
    p.to.acquire();
    p.back.release();
    keep_apart<3>();
    p.to.acquire();
    p.back.release();
    keep_apart<4>();
    p.to.acquire();
    p.back.release();
    keep_apart<5>();
  }
}

// cpu_ping, cpu_pong: OS ids, -1 leaves the choice to placement.
void measure_pingpong(round& r, std::string_view figure, size_t workers, int64_t rounds, int cpu_ping, int cpu_pong) {
  const int64_t triples = r.count(rounds);
  runtime rt(r.options(workers));
  rt.run([&] {
    pair p;
    const stopwatch t;
    auto echo = spawn({.name = "pong", .cpu = cpu_pong}, [&] { pong(p, triples); });
    auto ask = spawn({.name = "ping", .cpu = cpu_ping}, [&] { ping(p, triples); });
    ask.join();
    echo.join();
    const auto count = static_cast<double>(3 * triples);
    r.record(figure, t.wall_ns() / count, t.cpu_ns() / count);
  });
}

void measure_pingpong1(round& r) { measure_pingpong(r, "pingpong1_ns", 1, 200'000, -1, -1); }
void measure_pingpong2(round& r) { measure_pingpong(r, "pingpong2_ns", 2, 200'000, -1, -1); }
void measure_pingpong_cross(round& r) { measure_pingpong(r, "pingpong_cross_ns", 2, 30'000, r.cpus()[0], r.cpus()[1]); }

// One fiber wakes 64 that wait each on a semaphore of its own, and lets them run until they wait again.
void measure_wake(round& r) {
  static constexpr int waiters = 64;
  const int64_t laps = r.count(10'000);
  runtime rt(r.options(1));
  rt.run([&] {
    std::deque<counting_semaphore<>> gates;
    std::vector<fiber<void>> all;
    for (int i = 0; i < waiters; i++) {
      counting_semaphore<>& gate = gates.emplace_back(0);
      all.push_back(spawn([&gate, laps] {
        for (int64_t lap = 0; lap <= laps; lap++) gate.acquire();
      }));
    }
    const auto wake_all = [&] {
      for (auto& gate : gates) gate.release();
      this_fiber::yield();
    };
    wake_all();
    const stopwatch t;
    for (int64_t lap = 0; lap < laps; lap++) wake_all();
    for (auto& f : all) f.join();
    const auto count = static_cast<double>(waiters * laps);
    r.record("wake_ns", t.wall_ns() / count, t.cpu_ns() / count);
  });
}

// The waker stays on its worker and looks at a word for the answer, so that only one wake-up is in the figure.
void measure_wake_remote(round& r) {
  const int64_t count = r.count(20'000);
  runtime rt(r.options(2));
  rt.run([&] {
    counting_semaphore<> gate(0);
    alignas(128) std::atomic<int64_t> ran_at{0};
    std::vector<double> delays_ns;
    auto wakee = spawn({.name = "wakee", .cpu = r.cpus()[1]}, [&] {
      for (int64_t i = 0; i < count; i++) {
        gate.acquire();
        ran_at.store(stopwatch::wall_now(), std::memory_order_release);
      }
    });
    auto waker = spawn({.name = "waker", .cpu = r.cpus()[0]}, [&] {
      for (int64_t i = 0; i < count; i++) {
        const int64_t begin = stopwatch::wall_now();
        while (stopwatch::wall_now() - begin < 5'000) work_pause();  // the other worker is idle again, and still awake
        ran_at.store(0, std::memory_order_relaxed);
        const int64_t woke_at = stopwatch::wall_now();
        gate.release();
        int64_t seen = 0;
        while ((seen = ran_at.load(std::memory_order_acquire)) == 0) work_pause();
        delays_ns.push_back(static_cast<double>(seen - woke_at));
      }
    });
    waker.join();
    wakee.join();
    r.record("wake_remote_ns", *percentile(delays_ns, 50));
  });
}

// As the anchor: the plain thread works 100 us, wakes a fiber, and sleeps until that answers.
void measure_extwake(round& r) {
  const int64_t count = r.count(2'000);
  runtime rt(r.options(r.workers()));
  counting_semaphore<> go(0), back(0);
  int64_t ran_at = 0;
  auto wakee = rt.spawn([&] {
    for (int64_t i = 0; i < count; i++) {
      go.acquire();
      ran_at = stopwatch::wall_now();
      back.release();
    }
  });
  std::vector<double> delays_us;
  for (int64_t i = 0; i < count; i++) {
    const int64_t begin = stopwatch::wall_now();
    while (stopwatch::wall_now() - begin < 100'000) work_pause();
    const int64_t woke_at = stopwatch::wall_now();
    go.release();
    back.acquire();
    delays_us.push_back(static_cast<double>(ran_at - woke_at) * 1e-3);
  }
  wakee.join();
  r.record("extwake_p50_us", *percentile(delays_us, 50));
  r.record("extwake_p99_us", *percentile(delays_us, 99));
}

constexpr figure_info pingpong1_figure[] = {
    {"pingpong1_ns", "round trip over two semaphores, 1 worker", direction::lower, 10, 30, anchor::rmw_ns}};
constexpr figure_info pingpong2_figure[] = {
    {"pingpong2_ns", "the same, 2 workers, placement ours", direction::lower, 10, 60, anchor::rmw_ns}};
constexpr figure_info pingpong_cross_figure[] = {
    {"pingpong_cross_ns", "the same, pinned to two awake CPUs", direction::lower, 300, 750, anchor::line_ns}};
constexpr figure_info wake_figure[] = {
    {"wake_ns", "wake one of 64 on this worker, run it, it waits again", direction::lower, 10, {}, anchor::rmw_ns}};
constexpr figure_info wake_remote_figure[] = {{"wake_remote_ns",
                                               "wake to run on another worker that is awake, median",
                                               direction::lower,
                                               200,
                                               {},
                                               anchor::line_ns}};
constexpr figure_info extwake_figures[] = {
    {"extwake_p50_us", "plain thread wakes an idle runtime, median", direction::lower, 2, 2, anchor::futex_us},
    {"extwake_p99_us", "99th percentile", direction::lower, {}, 10, anchor::futex_us}};

}  // namespace

const family pingpong1{.figures = pingpong1_figure, .workers = 1, .measure = measure_pingpong1};
const family pingpong2{.figures = pingpong2_figure, .workers = 2, .measure = measure_pingpong2};
const family pingpong_cross{.figures = pingpong_cross_figure, .workers = 2, .measure = measure_pingpong_cross};
const family wake{.figures = wake_figure, .workers = 1, .measure = measure_wake};
const family wake_remote{.figures = wake_remote_figure, .workers = 2, .measure = measure_wake_remote};
const family extwake{.figures = extwake_figures, .measure = measure_extwake};

}  // namespace heddle::bench::micro
