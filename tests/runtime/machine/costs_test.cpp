// Each cost of the virtual machine: something takes longer when it is dearer, and nothing else is needed to see it.
#include "runtime/machine/costs.h"

#include <doctest/doctest.h>

#include "affinity/discover.h"
#include "runtime/machine/caches.h"
#include "tests/runtime/machine/program.h"

using namespace heddle_test;
using heddle::spawn;
namespace this_fiber = heddle::this_fiber;

namespace {

using program = void (*)();

std::chrono::nanoseconds took(const char* machine, const std::string& settings, program p) {
  heddle::runtime rt(on(machine, 1, settings));
  return rt.run([p] {
    const auto began = this_fiber::now();
    p();
    return this_fiber::now() - began;
  });
}

void yields() {
  auto other = spawn([] {
    for (int i = 0; i < 100; i++) this_fiber::yield();
  });
  for (int i = 0; i < 100; i++) this_fiber::yield();
  other.join();
}
void spawns() {
  for (int i = 0; i < 100; i++) spawn([] {}).join();
}

// Two fibers wake each other, on the first and the last cpu; `pause`: the other cpu sleeps meanwhile.
void wakes(std::chrono::nanoseconds pause, int other_cpu) {
  heddle::counting_semaphore<> there(0), back(0);
  auto partner = spawn({.cpu = other_cpu}, [&] {
    for (int i = 0; i < 20; i++) {
      there.acquire();
      back.release();
    }
  });
  auto first = spawn({.cpu = 0}, [&] {
    for (int i = 0; i < 20; i++) {
      if (pause.count() > 0) this_fiber::burn(pause);
      there.release();
      back.acquire();
    }
  });
  first.join();
  partner.join();
}
void wakes_here() { wakes(0ns, 0); }
void wakes_there() { wakes(0ns, 1); }
void wakes_rarely() { wakes(1ms, 1); }

// Free placements: nobody is pinned.
void placements() {
  heddle::counting_semaphore<> there(0), back(0);
  auto partner = spawn([&] {
    for (int i = 0; i < 50; i++) there.acquire(), back.release();
  });
  for (int i = 0; i < 50; i++) there.release(), back.acquire();
  partner.join();
}

// One object is written by the first and the last cpu in turns.
void shares_an_object() {
  static int object;
  heddle::counting_semaphore<> there(0), back(0);
  auto partner = spawn({.cpu = 1}, [&] {
    for (int i = 0; i < 20; i++) {
      there.acquire();
      this_fiber::touch(&object, 64, heddle::touch_kind::write);
      back.release();
    }
  });
  auto first = spawn({.cpu = 0}, [&] {
    for (int i = 0; i < 20; i++) {
      this_fiber::touch(&object, 64, heddle::touch_kind::write);
      there.release();
      back.acquire();
    }
  });
  first.join();
  partner.join();
}

void works_in_turns() {
  std::vector<heddle::fiber<void>> all;
  for (int f = 0; f < 2; f++)
    all.push_back(spawn({.cpu = 0}, [] {
      for (int i = 0; i < 50; i++) {
        this_fiber::burn(1us);
        this_fiber::yield();
      }
    }));
  for (auto& f : all) f.join();
}
void works_on_siblings() {
  std::vector<heddle::fiber<void>> all;
  for (int cpu = 0; cpu < 2; cpu++) all.push_back(spawn({.cpu = cpu}, [] { this_fiber::burn(1ms); }));
  for (auto& f : all) f.join();
}
// More fibers than cpus, none of which ever waits: ticks, balance and idle searches.
void works_unevenly() {
  std::vector<heddle::fiber<void>> all;
  for (int f = 0; f < 7; f++)
    all.push_back(spawn([f] {
      for (int i = 0; i < 50 + 20 * f; i++) {
        this_fiber::burn(5us);
        this_fiber::yield();
      }
    }));
  for (auto& f : all) f.join();
}
// Everybody wakes fibers of one cpu.
void floods_one_cpu() {
  heddle::counting_semaphore<> wanted(0);
  std::vector<heddle::fiber<void>> all;
  for (int f = 0; f < 7; f++)
    all.push_back(spawn({.cpu = 0}, [&] {
      for (int i = 0; i < 20; i++) wanted.acquire();
    }));
  for (int cpu = 1; cpu < 8; cpu++)
    all.push_back(spawn({.cpu = cpu}, [&] {
      for (int i = 0; i < 20; i++) wanted.release();
    }));
  for (auto& f : all) f.join();
}

struct effect {
  const char* setting;
  const char *cheap, *dear;
  const char* machine;
  const char* with;
  program p;
};

const effect effects[] = {
    {"vm_op_ns", "0", "500", "pu:1", "default", yields},
    {"vm_switch_ns", "0", "500", "pu:1", "default", yields},
    {"vm_wake_ns", "0", "500", "pu:1", "default", wakes_here},
    {"vm_spawn_ns", "0", "500", "pu:1", "default", spawns},
    {"vm_wake_polling_ns", "0", "5000", "core:2 pu:1", "idle=poll", wakes_there},
    {"vm_unpark_ns", "0", "50000", "core:2 pu:1", "idle=park", wakes_there},
    {"vm_park_ns", "0", "50000", "core:2 pu:1", "idle=park", wakes_there},
    {"vm_wake_parked_ns", "0", "50000", "core:2 pu:1", "idle=park", wakes_there},
    {"vm_deep_idle_ns", "0", "500000", "core:2 pu:1", "idle=park", wakes_rarely},
    {"vm_deep_after_ns", "1s", "1us", "core:2 pu:1", "idle=park", wakes_rarely},
    {"vm_line_core_ns", "0", "5000", "core:1 pu:2", "idle=poll", shares_an_object},
    {"vm_line_llc_ns", "0", "5000", "core:2 pu:1", "idle=poll", shares_an_object},
    {"vm_line_node_ns", "0", "5000", "pack:1 l3:2 core:1 pu:1", "idle=poll", shares_an_object},
    {"vm_line_far_ns", "0", "5000", "pack:2 [numa] core:1 pu:1", "idle=poll", shares_an_object},
    {"vm_refill_overlap", "100", "1", "pu:1", "default", works_in_turns},
    {"vm_working_set_bytes", "0", "65536", "pu:1", "default", works_in_turns},
    {"vm_core_cache_bytes", "1MiB", "4096", "pu:1", "default", works_in_turns},
    {"vm_smt_pct", "100", "200", "core:1 pu:2", "default", works_on_siblings},
    {"vm_tick_ns", "0", "5000", "core:2 pu:1", "default", works_unevenly},
    {"probe_ns", "0", "2000", "core:8 pu:2", "k6.12", placements},
    {"place_ns", "0", "5000", "core:8 pu:1", "k6.12", placements},
    {"lb_pass_ns", "0", "50000", "core:4 pu:1", "default", works_unevenly},
    {"lock_ns", "0", "20000", "core:8 pu:1", "default", floods_one_cpu},
};

}  // namespace

TEST_CASE("costs: each is a setting whose price somebody pays") {
  for (const effect& e : effects) {
    CAPTURE(e.setting);
    const auto run = [&](const char* value) {
      return took(e.machine, std::string(e.with) + "," + e.setting + "=" + value, e.p);
    };
    const auto cheap = run(e.cheap), dear = run(e.dear);
    CAPTURE(cheap.count());
    CHECK(dear > cheap + cheap / 20);
  }
}

TEST_CASE("costs: every one is in the table above, and auto is the profile's figure") {
  for (const auto& row : heddle::core::setting_rows()) {
    if (row.section != "vm" || !row.takes_auto()) continue;
    CAPTURE(row.name);
    bool found = false;
    for (const effect& e : effects) found |= row.name == e.setting;
    CHECK(found);
  }
  CHECK(took("2x4", "vm_costs=a53", yields) > 2 * took("2x4", "vm_costs=xeon", yields));
}

TEST_CASE("costs: a sibling's work slows only while it lasts, and wall time not at all") {
  heddle::runtime rt(on("core:2 pu:2", 1, "vm_working_set_bytes=0,vm_smt_pct=200"));
  CHECK(rt.workers() == 4);
  const auto times = rt.run([] {
    const auto timed = [](int cpu, auto work) {
      return spawn({.cpu = cpu}, [work] {
        const auto began = this_fiber::now();
        work();
        return this_fiber::now() - began;
      });
    };
    std::vector<heddle::fiber<std::chrono::nanoseconds>> all;
    all.push_back(timed(0, [] { this_fiber::burn(10ms); }));
    all.push_back(timed(1, [] { this_fiber::burn(1ms); }));
    all.push_back(timed(2, [] { this_fiber::burn_until(this_fiber::now() + 3ms); }));
    all.push_back(timed(3, [] { this_fiber::burn_until(this_fiber::now() + 3ms); }));
    std::vector<std::chrono::nanoseconds> out;
    for (auto& f : all) out.push_back(f.join());
    return out;
  });
  CHECK(times[0] > 10900us);  // 2 ms beside the other's 1 ms, alone otherwise
  CHECK(times[0] < 11100us);
  CHECK(times[1] > 1900us);
  CHECK(times[1] < 2100us);
  CHECK(times[2] == 3ms);
  CHECK(times[3] == 3ms);
}

TEST_CASE("costs: a touch leaves what is there as it was, on both machines") {
  for (const char* name : {"host", "2x4"}) {
    CAPTURE(name);
    std::array<unsigned char, 200> object;
    object.fill(0xff);
    heddle::runtime rt({.machine = heddle::machine::named(name), .workers = 1});
    rt.run([&] {
      this_fiber::touch(object.data(), object.size(), heddle::touch_kind::write);
      this_fiber::touch(object.data(), object.size(), heddle::touch_kind::read);
    });
    CHECK(std::ranges::all_of(object, [](unsigned char byte) { return byte == 0xff; }));
  }
}

TEST_CASE("costs: slow cpus take longer for the same work") {
  heddle::runtime rt(on("hybrid", 1, "vm_working_set_bytes=0"));
  const auto on_cpu = [&](int cpu) {
    return rt.run([cpu] {
      return spawn({.cpu = cpu},
                   [] {
                     const auto began = this_fiber::now();
                     this_fiber::burn(3ms);
                     return this_fiber::now() - began;
                   })
          .join();
    });
  };
  CHECK(on_cpu(0) == 3ms);
  CHECK(on_cpu(19) == 4ms);  // capacity 768 of 1024
}

TEST_CASE("caches: a line costs by distance from its last writer, once") {
  using namespace heddle::core;
  const topology cpus = *load_machine("pack:2 [numa] l3:2 core:2 pu:2").machine;
  machine_costs cost = costs_of(settings{});
  cost.line_core = 1;
  cost.line_llc = 10;
  cost.line_node = 100;
  cost.line_far = 1000;
  cache_model caches(cpus, cost);
  int object = 0;
  const auto read = [&](size_t cpu) { return caches.touch(&object, 64, access::read, to_cpu(cpu)); };
  const auto write = [&](size_t cpu) { return caches.touch(&object, 64, access::write, to_cpu(cpu)); };
  CHECK(write(0) == 0);
  CHECK(write(0) == 0);
  CHECK(read(1) == 1);
  CHECK(read(2) == 10);
  CHECK(read(4) == 100);
  CHECK(read(8) == 1000);
  CHECK(read(8) == 0);
  CHECK(write(0) == 1000);  // taken back from the farthest reader
  CHECK(write(4) == 100);
  CHECK(caches.touch(&object, 6400, access::read, to_cpu(0)) == 100 + 99 * 100 / cost.refill_overlap);
}

TEST_CASE("caches: what is left of a working set depends on who used the cache since, and on the way from there") {
  using namespace heddle::core;
  const topology cpus = *load_machine("pack:2 [numa] core:2 pu:1").machine;
  machine_costs cost = costs_of(settings{});
  cost.refill_overlap = 1;
  cost.core_cache_bytes = 1 << 20;
  cache_model caches(cpus, cost);
  int a = 0, b = 0;
  const auto uses = [&](int& who, size_t cpu, size_t bytes) { return caches.refill(&who, 1, to_cpu(cpu), bytes); };
  constexpr size_t set = 64 << 10;
  const int64_t lines = set / 64;
  CHECK(uses(a, 0, set) == lines * cost.line_node);  // from memory at first
  CHECK(uses(a, 0, set) == 0);
  CHECK(uses(a, 1, set) == lines * cost.line_llc);
  CHECK(uses(a, 2, set) == lines * cost.line_far);
  CHECK(uses(a, 2, set) == 0);
  uses(b, 2, 512 << 10);  // half of the core's cache
  const int64_t half = uses(a, 2, set);
  CHECK(half > lines * cost.line_llc * 4 / 10);
  CHECK(half < lines * cost.line_llc * 6 / 10);
  uses(b, 3, 256 << 20);  // more than the LLC holds
  CHECK(uses(a, 2, set) == lines * cost.line_node);
  CHECK(caches.refill(&a, 2, to_cpu(2), set) == lines * cost.line_node);  // the record's next fiber
}
