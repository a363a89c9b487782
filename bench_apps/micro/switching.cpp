// The bare switch round a ring of stacks, and yield. Every body has three call sites: a switch that returns into one place only
// is what no program does and what every return predictor likes.
#include <heddle/fiber.h>

#include <array>

#include "bench_apps/micro/bare_switch.h"
#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {
namespace {

constexpr size_t ring_size = 16;
std::array<bare_context, ring_size>* ring;
size_t newest;  // the place whose context was entered last: the first lap enters them in order

template <int Site>
void pass_on() {
  const size_t me = ++newest;
  bare_context& mine = (*ring)[me];
  const bare_context& next = (*ring)[(me + 1) % ring_size];
  for (;;) {
    bare_switch(mine, next);
    keep_apart<Site>();
  }
}

void measure_switching(round& r) {
  if constexpr (!bare_switch_exists) return;
  const int64_t laps = r.count(200'000);
  static constexpr void (*bodies[])() = {pass_on<0>, pass_on<1>, pass_on<2>};
  std::array<bare_context, ring_size> contexts;
  for (size_t i = 1; i < ring_size; i++) contexts[i] = bare_context(bodies[i % 3], i);
  ring = &contexts;
  newest = 0;
  const stopwatch t;
  for (int64_t i = 0; i < laps; i++) bare_switch(contexts[0], contexts[1]);
  r.record("switch_ns", t.wall_ns() / (static_cast<double>(ring_size) * static_cast<double>(laps)));
}

template <int Site>
void yield_often(int64_t triples) {
  for (int64_t i = 0; i < triples; i++) {
    this_fiber::yield();
    keep_apart<3 * Site>();
    this_fiber::yield();
    keep_apart<3 * Site + 1>();
    this_fiber::yield();
    keep_apart<3 * Site + 2>();
  }
}

void measure_yield(round& r, std::string_view figure, int64_t fibers, std::string_view settings = {}) {
  static constexpr void (*bodies[])(int64_t) = {yield_often<0>, yield_often<1>, yield_often<2>};
  const int64_t triples = std::max<int64_t>(1, r.count(1'000'000) / fibers);
  runtime rt(r.options(1, settings));
  rt.run([&] {
    std::vector<fiber<void>> all;
    for (int64_t i = 0; i < fibers; i++) all.push_back(spawn(bodies[i % 3], triples));
    const stopwatch t;
    for (auto& f : all) f.join();
    const auto count = static_cast<double>(triples * 3 * fibers);
    r.record(figure, t.wall_ns() / count, t.cpu_ns() / count);
  });
}

void measure_yield2(round& r) { measure_yield(r, "yield2_ns", 2); }
void measure_yield1000(round& r) { measure_yield(r, "yield1000_ns", 1000); }
void measure_yield2_pelt(round& r) { measure_yield(r, "yield2_pelt_ns", 2, "accounting=exact"); }

constexpr figure_info switch_figure[] = {
    {"switch_ns", "bare inlined switch round 16 stacks, 3 call sites", direction::lower, 1.7, {}, anchor::switch_ns}};
constexpr figure_info yield2_figure[] = {
    {"yield2_ns", "yield, 2 fibers, 1 worker", direction::lower, 1.7, 8, anchor::switch_ns}};
constexpr figure_info yield1000_figure[] = {
    {"yield1000_ns", "yield, 1000 fibers", direction::lower, 5, 10, anchor::switch_ns}};
constexpr figure_info yield2_pelt_figure[] = {
    {"yield2_pelt_ns", "yield with accounting=exact", direction::lower, 12, 25, anchor::switch_ns}};

}  // namespace

const family switching{.figures = switch_figure, .workers = 1, .measure = measure_switching};
const family yield2{.figures = yield2_figure, .workers = 1, .measure = measure_yield2};
const family yield1000{.figures = yield1000_figure, .workers = 1, .measure = measure_yield1000};
const family yield2_pelt{.figures = yield2_pelt_figure, .workers = 1, .measure = measure_yield2_pelt};

}  // namespace heddle::bench::micro
