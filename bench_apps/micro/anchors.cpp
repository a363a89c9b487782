// What the machine itself costs: a switch, a locked instruction, a line between two cores, a fresh page, a futex wake.
// Targets are read against these, so they contain nothing of heddle but its inlined switch.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/work.h"
#include "bench_apps/micro/bare_switch.h"
#include "bench_apps/micro/families.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::micro {
namespace {

bare_context* here;
bare_context* there;

void switch_back_for_ever() {
  for (;;) bare_switch(*there, *here);
}

void measure_switch(round& r) {
  if constexpr (!bare_switch_exists) return;
  const int64_t count = r.count(4'000'000);
  bare_context mine, other(switch_back_for_ever, 0);
  here = &mine;
  there = &other;
  const stopwatch t;
  for (int64_t i = 0; i < count; i++) bare_switch(*here, *there);
  r.record("anchor_switch_ns", t.wall_ns() / (2.0 * static_cast<double>(count)));
}

void measure_rmw(round& r) {
  const int64_t count = r.count(3'000'000);
  alignas(128) std::atomic<uint64_t> word{0};
  const stopwatch t;
  for (int64_t i = 0; i < count; i++) {
    word.fetch_add(1, std::memory_order_seq_cst);
    keep_apart<0>();
  }
  r.record("anchor_rmw_ns", t.wall_ns() / static_cast<double>(count));
}

// Request and reply on a line each, both cores looking.
void measure_line(round& r) {
  if (r.cpus().size() < 2) return;
  const auto count = static_cast<uint32_t>(r.count(100'000));
  struct alignas(128) line {
    std::atomic<uint32_t> word{0};
  };
  std::array<line, 2> lines;
  double wall_ns = 0;
  std::jthread echo([&] {
    bind_this_thread({r.cpus()[1]});
    for (uint32_t i = 1; i <= count; i++) {
      while (lines[0].word.load(std::memory_order_acquire) != i) work_pause();
      lines[1].word.store(i, std::memory_order_release);
    }
  });
  std::jthread ask([&] {
    bind_this_thread({r.cpus()[0]});
    const stopwatch t;
    for (uint32_t i = 1; i <= count; i++) {
      lines[0].word.store(i, std::memory_order_release);
      while (lines[1].word.load(std::memory_order_acquire) != i) work_pause();
    }
    wall_ns = t.wall_ns();
  });
  ask.join();
  r.record("anchor_line_ns", wall_ns / count);
}

void measure_page(round& r) {
  const auto pages = static_cast<size_t>(r.count(8192));
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, pages * page_bytes, MADV_NOHUGEPAGE);
  const stopwatch t;
  for (size_t i = 0; i < pages; i++) static_cast<volatile char*>(memory)[i * page_bytes] = 1;
  r.record("anchor_page_ns", t.wall_ns() / static_cast<double>(pages));
  munmap(memory, pages * page_bytes);
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}
void futex_post(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value);
  futex(word, FUTEX_WAKE_PRIVATE, 1);
}
void futex_await(std::atomic<uint32_t>& word, uint32_t value) {
  for (uint32_t seen = word.load(); seen != value; seen = word.load()) futex(word, FUTEX_WAIT_PRIVATE, seen);
}

// The waker works 100 us, wakes, and sleeps until it is answered: the kernel then runs the wakee where the waker ran.
void measure_futex(round& r) {
  const auto count = static_cast<uint32_t>(r.count(400));
  std::atomic<uint32_t> go{0}, back{0};
  int64_t woken_at = 0;
  std::vector<double> delays_us;
  std::jthread sleeper([&] {
    for (uint32_t i = 1; i <= count; i++) {
      futex_await(go, i);
      woken_at = stopwatch::wall_now();
      futex_post(back, i);
    }
  });
  for (uint32_t i = 1; i <= count; i++) {
    const int64_t begin = stopwatch::wall_now();
    while (stopwatch::wall_now() - begin < 100'000) work_pause();
    const int64_t posted_at = stopwatch::wall_now();
    futex_post(go, i);
    futex_await(back, i);
    delays_us.push_back(static_cast<double>(woken_at - posted_at) * 1e-3);
  }
  r.record("anchor_futex_us", *percentile(delays_us, 50));
}

void measure_anchors(round& r) {
  measure_switch(r);
  measure_rmw(r);
  measure_line(r);
  measure_page(r);
  measure_futex(r);
}

constexpr figure_info figures[] = {
    {"anchor_switch_ns", "bare inlined switch between two stacks"},
    {"anchor_rmw_ns", "locked read-modify-write of an owned line"},
    {"anchor_line_ns", "round trip over two lines between two cores"},
    {"anchor_page_ns", "first touch of a 4 KiB page"},
    {"anchor_futex_us", "futex wake to running, median, floating threads"},
};

}  // namespace

const family anchors{.figures = figures, .measure = measure_anchors};

}  // namespace heddle::bench::micro
