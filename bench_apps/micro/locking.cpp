// A mutex that many want, and a bounded channel between many.
#include <heddle/channel.h>
#include <heddle/fiber.h>
#include <heddle/sync.h>

#include <mutex>

#include "bench_apps/common/errors.h"
#include "bench_apps/micro/families.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::micro {
namespace {

void measure_mutex(round& r, std::string_view figure, int64_t fibers) {
  const int64_t each = std::max<int64_t>(1, r.count(4'000'000) / fibers);
  runtime rt(r.options(2));
  rt.run([&] {
    mutex guard;
    int64_t value = 0;
    std::vector<fiber<void>> all;
    const stopwatch t;
    for (int64_t i = 0; i < fibers; i++)
      all.push_back(spawn([&] {
        for (int64_t n = 0; n < each; n++) {
          const std::scoped_lock lock(guard);
          value++;
          keep_apart<0>();
        }
      }));
    for (auto& f : all) f.join();
    const auto count = static_cast<double>(each * fibers);
    r.record(figure, count / t.wall_ns() * 1e3, t.cpu_ns() / count);
    if (value != each * fibers) throw run_error("mutex: increments under the lock were lost");
  });
}

void measure_channel(round& r, std::string_view figure, size_t workers) {
  static constexpr int ends = 4;
  const int64_t each = r.count(250'000);
  runtime rt(r.options(workers));
  rt.run([&] {
    channel<int64_t> items(128);
    std::atomic<int64_t> sum{0};
    std::vector<fiber<void>> producers, consumers;
    const stopwatch t;
    for (int i = 0; i < ends; i++) {
      consumers.push_back(spawn([&] {
        int64_t mine = 0;
        while (const auto item = items.pop()) mine += *item;
        sum += mine;
      }));
      producers.push_back(spawn([&] {
        for (int64_t n = 1; n <= each; n++) items.push(n);
      }));
    }
    for (auto& f : producers) f.join();
    items.close();
    for (auto& f : consumers) f.join();
    const auto count = static_cast<double>(ends * each);
    r.record(figure, count / t.wall_ns() * 1e3, t.cpu_ns() / count);
    if (sum != ends * (each * (each + 1) / 2)) throw run_error("channel: items were lost or doubled");
  });
}

void measure_mutex8(round& r) { measure_mutex(r, "mutex8_mops", 8); }
void measure_mutex64(round& r) { measure_mutex(r, "mutex64_mops", 64); }
void measure_channel1(round& r) { measure_channel(r, "channel1_mops", 1); }
void measure_channel2(round& r) { measure_channel(r, "channel2_mops", 2); }

constexpr figure_info mutex8_figure[] = {
    {"mutex8_mops", "8 fibers lock and increment, 2 workers, M/s", direction::higher, 83, 60, anchor::rmw_ns}};
constexpr figure_info mutex64_figure[] = {{"mutex64_mops", "64 fibers", direction::higher, 83, 60, anchor::rmw_ns}};
constexpr figure_info channel1_figure[] = {
    {"channel1_mops", "bounded channel 4 to 4, 1 worker, M/s", direction::higher, 110, 50, anchor::rmw_ns}};
constexpr figure_info channel2_figure[] = {{"channel2_mops", "2 workers", direction::higher, 110, 35, anchor::rmw_ns}};

}  // namespace

const family mutex8{.figures = mutex8_figure, .workers = 2, .measure = measure_mutex8};
const family mutex64{.figures = mutex64_figure, .workers = 2, .measure = measure_mutex64};
const family channel1{.figures = channel1_figure, .workers = 1, .measure = measure_channel1};
const family channel2{.figures = channel2_figure, .workers = 2, .measure = measure_channel2};

}  // namespace heddle::bench::micro
