// A machine with its board, for tests of policies: filled by hand, walked whole, or drawn by the seed.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "affinity/board.h"
#include "affinity/discover.h"
#include "affinity/domains.h"
#include "affinity/fork.h"
#include "affinity/placement.h"
#include "affinity/wake.h"
#include "runtime/base/rng.h"
#include "runtime/base/settings.h"
#include "tests/affinity/rows.h"

namespace heddle_test {

using namespace heddle::core;

inline cpu_id cpu(size_t index) { return to_cpu(index); }

inline topology machine_of(const std::string& spec) {
  loaded_machine loaded = load_machine(spec);
  REQUIRE_MESSAGE(loaded.machine.has_value(), loaded.error);
  return std::move(*loaded.machine);
}

// The same machine with CPU i called order[i].
inline topology renamed(const topology& machine, const std::vector<size_t>& order) {
  topology other = machine;
  for (size_t i = 0; i < order.size(); i++) {
    other.cpus[order[i]] = machine.cpus[i];
    other.cpus[order[i]].os_id = static_cast<int>(order[i]);
  }
  for (auto partition : {&topology::cores, &topology::clusters, &topology::llcs, &topology::nodes, &topology::packages})
    for (size_t k = 0; k < (other.*partition).size(); k++) {
      cpu_set members;
      for (cpu_id c : (machine.*partition)[k]) members.add(cpu(order[index_of(c)]));
      (other.*partition)[k] = members;
    }
  return other;
}

struct world {
  topology machine;
  domain_tree domains;
  board state;
  settings set;

  explicit world(topology m) : machine(std::move(m)), domains(machine), state(machine) {}
  explicit world(const std::string& spec) : world(machine_of(spec)) {}
  world(const world&) = delete;

  policy_view view() { return {machine, domains, state, set}; }
  placement place(const wakeup& w) { return place_wakeup(machine, domains, state, set, w); }
  size_t size() const { return machine.cpu_count(); }

  void busy(cpu_id c, uint32_t nr = 1, uint32_t load = 1024) {
    board_row& r = state.row(c);
    r.nr.store(nr, relaxed);
    r.nr_idle_class.store(0, relaxed);
    r.pending.store(0, relaxed);
    r.state.store(cpu_state::running, relaxed);
    load_is(c, load);
    state.mark_idle(c, false);
  }
  void idles(cpu_id c, uint32_t blocked_load = 0) {
    board_row& r = state.row(c);
    r.nr.store(0, relaxed);
    r.nr_idle_class.store(0, relaxed);
    r.pending.store(0, relaxed);
    r.state.store(cpu_state::parked, relaxed);
    load_is(c, 0);
    r.load_avg.store(blocked_load, relaxed);
    state.mark_idle(c, true);
  }
  void idle_class(cpu_id c) {
    busy(c, 1, 3);
    state.row(c).nr_idle_class.store(1, relaxed);
    state.mark_idle(c, true);  // 6.2: such CPUs stay targets
  }
  void load_is(cpu_id c, uint32_t load) {
    board_row& r = state.row(c);
    weighs(r, load);
    r.load_avg.store(load, relaxed);
    r.runnable_load.store(load, relaxed);
    r.runnable_avg.store(load, relaxed);
    r.util_avg.store(std::min<uint32_t>(load, 1024), relaxed);
  }
  void all_busy() {
    for (cpu_id c : machine.all()) busy(c);
  }

  bool core_idles(cpu_id c) const {
    for (cpu_id s : machine.core_of(c))
      if (!state.idle(s)) return false;
    return true;
  }
  bool free(cpu_id c) const { return state.idle(c) || (set.idle_class_free && state.only_idle_class(c)); }

  // The LLC rows as their CPUs would have left them. The hint may promise a core that is gone, never the reverse.
  void settle_hints(rng* chance = nullptr) {
    for (size_t l = 0; l < machine.llcs.size(); l++) {
      llc_row& row = state.llc(static_cast<int>(l));
      int32_t core = idle_core_none;
      int busy_count = 0;
      for (cpu_id c : machine.llcs[l]) {
        if (!state.idle(c)) busy_count++;
        if (core < 0 && core_idles(c)) core = static_cast<int32_t>(machine.core_of(c).lowest());
      }
      row.nr_busy.store(busy_count, relaxed);
      const bool promise = core >= 0 || (chance != nullptr && chance->below(4) == 0);
      row.has_idle_cores.store(promise ? 1 : 0, relaxed);
      if (chance != nullptr && chance->below(3) == 0) core = idle_core_unknown;
      row.idle_core.store(core, relaxed);
    }
  }

  // Any state a board may be in.
  void draw(rng& chance) {
    const uint64_t idle_share = chance.below(11);
    for (cpu_id c : machine.all()) {
      if (chance.below(10) < idle_share) {
        idles(c, static_cast<uint32_t>(chance.below(800)));
        state.row(c).state.store(chance.below(2) == 0 ? cpu_state::parked : cpu_state::polling, relaxed);
      } else if (chance.below(6) == 0) {
        idle_class(c);
      } else {
        const auto nr = static_cast<uint32_t>(1 + chance.below(3));
        busy(c, nr, static_cast<uint32_t>(chance.below(nr * 1024 + 1)));
        // The kinds of load differ: sleepers weigh on one, not on the others.
        weighs(state.row(c), nr * 1024);
        state.row(c).load_avg.store(static_cast<uint32_t>(chance.below(3000)), relaxed);
        if (chance.below(3) == 0) state.mark_idle(c, true);  // not a tick ago
      }
      state.row(c).idle_since.store(static_cast<int64_t>(chance.below(1000)), relaxed);
      state.row(c).avg_idle.store(static_cast<int64_t>(chance.below(20'000)), relaxed);
    }
    settle_hints(&chance);
    for (size_t l = 0; l < machine.llcs.size(); l++) {
      llc_row& row = state.llc(static_cast<int>(l));
      row.nr_idle_scan.store(static_cast<int32_t>(chance.below(machine.llcs[l].count() + 1)), relaxed);
      row.avg_scan_cost.store(static_cast<int64_t>(chance.below(200)), relaxed);
    }
  }
};

// A wake-up with its memories, so that one world can be asked twice.
struct drawn_wakeup {
  wakeup w;
  wake_memory waker;
  wake_memory wakee;
  cpu_set allowed;

  // Pointers into a copy; each question gets fresh memories.
  placement ask(world& in) const {
    drawn_wakeup copy = *this;
    copy.w.memory = &copy.wakee;
    copy.w.waker_memory = w.waker_memory != nullptr ? &copy.waker : nullptr;
    copy.w.allowed = w.allowed != nullptr ? &copy.allowed : nullptr;
    return in.place(copy.w);
  }
};

inline drawn_wakeup draw_wakeup(world& in, rng& chance) {
  drawn_wakeup d;
  const auto any = [&] { return cpu(chance.below(in.size())); };
  d.w.prev = any();
  if (chance.below(8) != 0) d.w.waker = any();
  const bool by_fiber = valid(d.w.waker) && chance.below(6) != 0;
  if (by_fiber && in.state.idle(d.w.waker)) in.busy(d.w.waker);  // it runs the waker
  if (by_fiber) d.w.waker_memory = &d.waker;                     // a mark only; ask() sets it
  d.w.sync = chance.below(3) == 0;
  d.w.waker_exiting = chance.below(16) == 0;
  d.w.idle_class = chance.below(8) == 0;
  d.w.wakee = static_cast<uint32_t>(chance.below(4));
  d.w.load = {1024, static_cast<int64_t>(chance.below(1024)), static_cast<int64_t>(chance.below(1024))};
  d.w.waker_load = {1024, static_cast<int64_t>(chance.below(1024)), static_cast<int64_t>(chance.below(1024))};
  d.w.now = nanos{1'000'000'000};
  d.w.wake_avg_idle_ns = static_cast<int64_t>(chance.below(400));
  for (wake_memory* m : {&d.waker, &d.wakee}) {
    m->flips = static_cast<uint32_t>(chance.below(chance.below(2) == 0 ? 4 : 200));
    m->flip_stamp_ns = static_cast<int64_t>(chance.below(1'000'000'000));
    m->last_wakee = static_cast<uint32_t>(chance.below(4));
    if (chance.below(3) != 0) m->recent = any();
    m->affine_blocked_until_ns = static_cast<int64_t>(chance.below(2'000'000'000));
  }
  if (chance.below(4) == 0) {
    for (cpu_id c : in.machine.all())
      if (chance.below(2) == 0) d.allowed.add(c);
    if (d.allowed.empty()) d.allowed.add(any());
    d.w.allowed = &d.allowed;
  }
  in.settle_hints(&chance);
  return d;
}

}  // namespace heddle_test
