// Fork-join: what a fork costs, and how far two workers get, each beside the same program without forks, in the same round.
#include <heddle/parallel.h>
#include <heddle/task_group.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "bench_apps/micro/families.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::micro {
namespace {

constexpr uint64_t mix(uint64_t x) noexcept {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Both programs are one text: `serial` runs the calls in order.
struct serial {
  template <class F, class G>
  [[gnu::always_inline]] static void both(F&& f, G&& g) {
    f();
    g();
  }
  template <class F>
  [[gnu::always_inline]] static void all(int count, F&& f) {
    for (int i = 0; i < count; i++) f(i);
  }
};
struct forking {
  template <class F, class G>
  [[gnu::always_inline]] static void both(F&& f, G&& g) {
    invoke(f, g);
  }
  template <class F>
  [[gnu::always_inline]] static void all(int count, F&& f) {
    bulk(count, f);
  }
};

template <class How>
[[gnu::noinline]] uint64_t fib(int n) {
  if (n < 2) return static_cast<uint64_t>(n);
  uint64_t a = 0, b = 0;
  How::both([&] { b = fib<How>(n - 2); },
            [&] {
              keep_apart<0>();  // the compiler may not make one loop of the two calls
              a = fib<How>(n - 1);
            });
  return a + b;
}

template <class How>
uint64_t skynet(uint64_t base, uint64_t size) {
  if (size == 1) return base;
  uint64_t parts[10];
  How::all(10, [&, each = size / 10](int i) { parts[i] = skynet<How>(base + each * static_cast<uint64_t>(i), each); });
  uint64_t sum = 0;
  for (const uint64_t part : parts) sum += part;
  return sum;
}

constexpr int queens = 12;
using board = std::array<signed char, 16>;

bool safe(const board& b, int row, int column) noexcept {
  for (int r = 0; r < row; r++)
    if (b[static_cast<size_t>(r)] == column || std::abs(b[static_cast<size_t>(r)] - column) == row - r) return false;
  return true;
}

template <class How>
int place(const board& b, int row) {
  if (row == queens) return 1;
  signed char columns[queens];
  int count = 0, found[queens];
  for (int c = 0; c < queens; c++)
    if (safe(b, row, c)) columns[count++] = static_cast<signed char>(c);
  How::all(count, [&](int i) {
    board next = b;
    next[static_cast<size_t>(row)] = columns[i];
    found[i] = place<How>(next, row + 1);
  });
  int sum = 0;
  for (int i = 0; i < count; i++) sum += found[i];
  return sum;
}

// Unbalanced trees (UTS), with a cheap hash for SHA-1: a node's children are drawn from its own number.
struct node {
  uint64_t number;
  int height;
  node child(int i) const noexcept {
    return {mix(number + 0x632be59bd9b4e019u * static_cast<uint64_t>(i + 1)), height + 1};
  }
  double draw() const noexcept { return static_cast<double>(mix(number ^ 0xabcdef) >> 11) * 0x1p-53; }
};
struct geometric {  // four children on average, ten high; 1 352 801 nodes
  static constexpr node root(bool whole) noexcept { return {mix(1), whole ? 0 : 7}; }
  static int children(const node& n) noexcept {
    if (n.height >= 10) return 0;
    static const double scale = std::log(1.0 - 1.0 / 5.0);
    return std::min(100, static_cast<int>(std::log(1.0 - n.draw()) / scale));
  }
};
struct binomial {  // 2000 children of the root; of the others one in eight has eight; 2 432 657 nodes
  static constexpr node root(bool whole) noexcept { return {mix(8), whole ? 0 : 1}; }
  static int children(const node& n) noexcept { return n.height == 0 ? 2000 : n.draw() < 0.124875 ? 8 : 0; }
};

template <class How, class Shape>
uint64_t walk(const node n) {
  const int count = Shape::children(n);
  if (count == 0) return 1;
  uint64_t few[100];
  std::vector<uint64_t> many(count > 100 ? static_cast<size_t>(count) : 0);
  uint64_t* const sizes = count > 100 ? many.data() : few;
  How::all(count, [&](int i) { sizes[i] = walk<How, Shape>(n.child(i)); });
  uint64_t sum = 1;
  for (int i = 0; i < count; i++) sum += sizes[i];
  return sum;
}

// Trees are deep, and the serial programs run on a fiber too.
runtime_options deep(round& r, size_t workers) {
  runtime_options o = r.options(workers);
  o.stack_bytes = 4 << 20;
  return o;
}

volatile uint64_t sink;

template <class Program>
double timed(Program&& program) {
  const stopwatch t;
  sink = static_cast<uint64_t>(program());
  return t.wall_ns();
}

// The forking program's time, and the serial one's just before it on the same worker.
struct pair_of_times {
  double alone, forked;
  double ratio() const { return forked / alone; }
};
template <class Alone, class Forked>
pair_of_times compare(runtime& rt, Alone&& alone, Forked&& forked) {
  pair_of_times t{};
  rt.run([&] {
    t.alone = timed(alone);
    t.forked = timed(forked);
  });
  return t;
}

void measure_recursion(round& r, size_t workers) {
  runtime rt(deep(r, workers));
  const std::string w = std::to_string(workers);
  int n = 20;
  uint64_t calls = 10'946;  // fib(n + 1): of them one less fork
  for (uint64_t before = 6765; calls < static_cast<uint64_t>(r.count(4'000'000)); n++)
    before = std::exchange(calls, calls + before);
  const auto forks = static_cast<double>(calls - 1);
  const auto f = compare(rt, [n] { return fib<serial>(n); }, [n] { return fib<forking>(n); });
  r.record("fib" + w + "_ns", f.forked / forks);
  if (workers == 1) r.record("anchor_serial_fib_ns", f.alone / forks);

  const uint64_t leaves = r.count(1000) < 1000 ? 1000 : 1'000'000;  // a power of ten
  const auto s = compare(rt, [&] { return skynet<serial>(0, leaves); }, [&] { return skynet<forking>(0, leaves); });
  const double scale = 1e-6 * 1e6 / static_cast<double>(leaves);
  r.record("skynet" + w + "_ms", s.forked * scale);
  if (workers == 1) r.record("anchor_serial_skynet_ms", s.alone * scale);
}

void measure_search(round& r, size_t workers) {
  const bool whole = r.count(1000) == 1000;
  const int row = whole ? 0 : queens - 4;
  const node geo = geometric::root(whole), bin = binomial::root(whole);
  runtime rt(deep(r, workers));
  const std::string w = std::to_string(workers);
  r.record("nqueens" + w + "_ratio",
           compare(rt, [row] { return place<serial>({}, row); }, [row] { return place<forking>({}, row); }).ratio());
  r.record("uts_geo" + w + "_ratio",
           compare(
               rt, [geo] { return walk<serial, geometric>(geo); }, [geo] { return walk<forking, geometric>(geo); })
               .ratio());
  r.record("uts_bin" + w + "_ratio",
           compare(
               rt, [bin] { return walk<serial, binomial>(bin); }, [bin] { return walk<forking, binomial>(bin); })
               .ratio());
}

void measure_loops(round& r) {
  runtime rt(r.options(2));
  const auto items = static_cast<size_t>(r.count(10'000'000));
  std::vector<uint32_t> out(items, 1);
  const auto part = [&](size_t from, size_t to) {
    uint32_t* const o = out.data();
    for (size_t i = from; i < to; i++) o[i] = static_cast<uint32_t>(mix(i) >> 32);
  };
  const auto alone = [&] {
    part(0, items);
    return out[items / 2];
  };
  const auto loop = [&](size_t grain) {
    parallel_for(size_t{0}, items, grain, part);
    return out[items / 2];
  };
  r.record("pfor_ratio", compare(rt, alone, [&] { return loop(0); }).ratio());
  r.record("pfor100_ratio", compare(rt, alone, [&] { return loop(100); }).ratio());
}

// A square of cells, each after the one above and the one to the left.
struct wavefront {
  explicit wavefront(int side) : n(side), value(cells()), waits_for(std::make_unique<std::atomic<int>[]>(cells())) {}
  size_t cells() const { return static_cast<size_t>(n) * static_cast<size_t>(n); }
  size_t at(int i, int j) const { return static_cast<size_t>(i) * static_cast<size_t>(n) + static_cast<size_t>(j); }

  void work(int i, int j) {
    uint64_t x = (i ? value[at(i - 1, j)] : 1) * 31 + (j ? value[at(i, j - 1)] : 2);
    for (int k = 0; k < 24; k++) x = mix(x);
    value[at(i, j)] = x;
  }
  bool ready(int i, int j) {
    return i < n && j < n && waits_for[at(i, j)].fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  uint64_t alone() {
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) work(i, j);
    return value.back();
  }
  uint64_t forked() {
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) waits_for[at(i, j)].store((i > 0) + (j > 0), std::memory_order_relaxed);
    task_group group;
    go(group, 0, 0);
    group.wait();
    return value.back();
  }
  void go(task_group& group, int i, int j) {
    for (;;) {
      work(i, j);
      const bool right = ready(i, j + 1), below = ready(i + 1, j);
      if (right && below) group.run([this, &group, i, j] { go(group, i + 1, j); });
      if (!right && !below) return;
      right ? j++ : i++;
    }
  }

  int n;
  std::vector<uint64_t> value;
  std::unique_ptr<std::atomic<int>[]> waits_for;
};

void measure_wavefront(round& r) {
  runtime rt(r.options(2));
  wavefront w(r.count(1000) < 1000 ? 50 : 500);
  r.record("wavefront_ratio", compare(rt, [&] { return w.alone(); }, [&] { return w.forked(); }).ratio());
}

// One plain thread hands in a million empty calls.
void measure_inject(round& r) {
  const int64_t count = r.count(1'000'000);
  runtime rt(r.options(2));
  std::atomic<int64_t> ran{0};
  task_group group(rt);
  const auto batch = [&](int64_t calls) {
    for (int64_t i = 0; i < calls; i++) group.run([&ran] { ran.store(1, std::memory_order_relaxed); });
    group.wait();
  };
  batch(1000);
  const stopwatch t;
  batch(count);
  r.record("inject1m_ns", t.wall_ns() / static_cast<double>(count), t.cpu_ns() / static_cast<double>(count));
}

constexpr figure_info fork1_figures[] = {
    {"anchor_serial_fib_ns", "the same without forks"},
    {"fib1_ns", "a fork of fib, no cut-off, 1 worker", direction::lower, 2.8, 5, anchor::switch_ns},
    {"anchor_serial_skynet_ms", "skynet without forks"},
    {"skynet1_ms", "1e6 leaves, ten per fork, 1 worker", direction::lower, 2.6, 5, anchor::switch_ns},
    {"nqueens1_ratio", "12 queens, no cut-off, to the serial program, 1 worker", direction::lower, 1, 1.18},
    {"uts_geo1_ratio", "unbalanced tree, geometric, to serial, 1 worker", direction::lower, 1, 1.45},
    {"uts_bin1_ratio", "unbalanced tree, binomial, to serial, 1 worker", direction::lower, 1, 1.15}};
constexpr figure_info fork2_figures[] = {
    {"fib2_ns", "a fork of fib, 2 workers", direction::lower, 1.4, 2.8, anchor::switch_ns},
    {"skynet2_ms", "1e6 leaves, 2 workers", direction::lower, 1.3, 2.7, anchor::switch_ns},
    {"nqueens2_ratio", "12 queens to serial, 2 workers", direction::lower, 0.5, 0.62},
    {"uts_geo2_ratio", "geometric tree to serial, 2 workers", direction::lower, 0.5, 0.78},
    {"uts_bin2_ratio", "binomial tree to serial, 2 workers", direction::lower, 0.5, 0.70}};
constexpr figure_info loop_figures[] = {
    {"pfor_ratio", "1e7 items, automatic grain, to serial, 2 workers", direction::lower, 0.5, 0.58},
    {"pfor100_ratio", "the same with a grain of 100", direction::lower, 0.5, 0.65}};
constexpr figure_info wavefront_figure[] = {
    {"wavefront_ratio", "500x500 cells of 100 ns to serial, 2 workers", direction::lower, 0.5, 0.53}};
constexpr figure_info inject_figure[] = {
    {"inject1m_ns", "1e6 calls from one plain thread, 2 workers, each", direction::lower, 10, 105, anchor::rmw_ns}};

void measure_fork1(round& r) {
  measure_recursion(r, 1);
  measure_search(r, 1);
}
void measure_fork2(round& r) {
  measure_recursion(r, 2);
  measure_search(r, 2);
}

}  // namespace

const family fork1{.figures = fork1_figures, .workers = 1, .measure = measure_fork1};
const family fork2{.figures = fork2_figures, .workers = 2, .measure = measure_fork2};
const family loops{.figures = loop_figures, .workers = 2, .measure = measure_loops};
const family waves{.figures = wavefront_figure, .workers = 2, .measure = measure_wavefront};
const family inject{.figures = inject_figure, .workers = 2, .measure = measure_inject};

}  // namespace heddle::bench::micro
