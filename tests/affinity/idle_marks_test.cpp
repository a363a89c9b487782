#include "affinity/idle_marks.h"

#include <doctest/doctest.h>

#include <deque>

#include "runtime/base/rng.h"
#include "tests/affinity/world.h"
#include "tests/seed.h"

using namespace heddle_test;

namespace {

// A machine whose CPUs keep their marks as their workers would.
struct marked_world : world {
  std::deque<idle_marks> marks;
  int64_t now = 1'000;
  int64_t tick_ns = 1'000;

  explicit marked_world(const std::string& spec) : world(spec) {
    for (cpu_id c : machine.all()) {
      marks.emplace_back(state, c, set);
      run(c);
    }
  }
  idle_marks& of(cpu_id c) { return marks[index_of(c)]; }
  void run(cpu_id c, bool idle_class_only = false) {
    state.row(c).nr.store(1, relaxed);
    state.row(c).nr_idle_class.store(idle_class_only ? 1 : 0, relaxed);
    of(c).works(set, nanos{now});
  }
  void stop(cpu_id c) {
    state.row(c).nr.store(0, relaxed);
    state.row(c).nr_idle_class.store(0, relaxed);
    of(c).out_of_work(nanos{now});
    of(c).idles(set);
  }
  int truly_busy(int llc) const {
    int count = 0;
    for (cpu_id c : machine.llcs[static_cast<size_t>(llc)]) count += state.idle(c) ? 0 : 1;
    return count;
  }
};

int64_t after(avg_idle_form_t form, int64_t start, std::initializer_list<int64_t> samples,
              std::vector<int64_t>* all = nullptr) {
  int64_t avg = start;
  for (int64_t s : samples) {
    avg = next_avg_idle(form, avg, s, 1'000'000);
    if (all != nullptr) all->push_back(avg);
  }
  return avg;
}

}  // namespace

TEST_CASE("TV-AI-1 TV-AI-2 TV-AI-3: average idle time, new and old") {
  std::vector<int64_t> seen;
  after(avg_idle_form_t::v312, 1'000'000,
        {100'000, 100'000, 100'000, 100'000, 100'000, 100'000, 100'000, 100'000, 100'000, 100'000}, &seen);
  CHECK(seen == std::vector<int64_t>{887500, 789063, 702931, 627565, 561620, 503918, 453429, 409251, 370595, 336771});
  seen.clear();
  after(avg_idle_form_t::v39, 1'000'000, {100'000, 100'000, 100'000, 5'000'000, 90'000, 90'000, 90'000}, &seen);
  CHECK(seen == std::vector<int64_t>{887500, 789062, 702929, 1000000, 886250, 786718, 699628});
  seen.clear();
  after(avg_idle_form_t::v312, 1'000'000, {100'000, 100'000, 100'000, 5'000'000, 90'000, 90'000, 90'000}, &seen);
  CHECK(seen == std::vector<int64_t>{887500, 789063, 702931, 1000000, 886250, 786719, 699630});
}

TEST_CASE("TV-AI-4: how many idle periods of a length it takes to be below 100 us") {
  for (const auto& [length, count] : {std::pair{0, 18}, {20'000, 19}, {50'000, 23}, {80'000, 29}, {90'000, 34}}) {
    int64_t avg = 1'000'000;
    int n = 0;
    while (avg >= 100'000) {
      avg = next_avg_idle(avg_idle_form_t::v312, avg, length, 1'000'000);
      n++;
    }
    CHECK(n == count);
  }
}

TEST_CASE(
    "idle marks: a period counts from before the search, ends at a wake-up, and a successful search is no sample") {
  marked_world in("pack:1 core:2 pu:1");
  in.set.migration_cost_ns = 500'000;
  idle_marks mine(in.state, cpu(0), in.set);
  board_row& row = in.state.row(cpu(0));
  CHECK(row.avg_idle.load(relaxed) == 1'000'000);
  CHECK(row.max_idle_balance_cost.load(relaxed) == 500'000);

  row.nr.store(0, relaxed);
  mine.out_of_work(nanos{1'000});
  CHECK(!in.state.idle(cpu(0)));  // searching: not to be chosen
  mine.idles(in.set);
  CHECK(in.state.idle(cpu(0)));
  mine.accepts_wakeup(in.set, nanos{101'000});
  CHECK(row.avg_idle.load(relaxed) == 887'500);
  mine.accepts_wakeup(in.set, nanos{500'000});  // the period is over
  CHECK(row.avg_idle.load(relaxed) == 887'500);

  mine.out_of_work(nanos{600'000});
  mine.found_work();
  mine.accepts_wakeup(in.set, nanos{610'000});
  CHECK(row.avg_idle.load(relaxed) == 887'500);

  // INV-NI2: never above twice max_idle_balance_cost; in the old form twice migration_cost.
  mine.out_of_work(nanos{1'000'000});
  mine.accepts_wakeup(in.set, nanos{90'000'000'000});
  CHECK(row.avg_idle.load(relaxed) == 1'000'000);
  row.max_idle_balance_cost.store(700'000, relaxed);
  mine.out_of_work(nanos{90'000'000'000});
  mine.accepts_wakeup(in.set, nanos{190'000'000'000});
  CHECK(row.avg_idle.load(relaxed) == 1'400'000);
  in.set.avg_idle_form = avg_idle_form_t::v39;
  mine.out_of_work(nanos{190'000'000'000});
  mine.accepts_wakeup(in.set, nanos{290'000'000'000});
  CHECK(row.avg_idle.load(relaxed) == 1'000'000);
  // A waker's clock that runs behind makes no negative period.
  mine.out_of_work(nanos{290'000'000'000});
  mine.accepts_wakeup(in.set, nanos{289'999'999'000});
  CHECK(row.avg_idle.load(relaxed) == 875'000);
}

TEST_CASE("INV-I1 INV-I2 INV-I3 INV-I4: mask and busy count after any history") {
  rng chance(heddle_test::seed());
  for (int round = 0; round < 60; round++) {
    marked_world in("pack:2 core:2 pu:2");
    in.set.busy_mark = chance.below(2) == 0 ? busy_mark_t::exact : busy_mark_t::tick;
    in.set.idle_mark = chance.below(2) == 0 ? idle_mark_t::entry : idle_mark_t::long_idle;
    in.set.nr_busy_mode = chance.below(2) == 0 ? nr_busy_mode_t::exact : nr_busy_mode_t::tick;
    std::vector<bool> idle(in.size()), idle_class(in.size());
    for (int step = 0; step < 400; step++) {
      in.now += 100;
      const size_t i = chance.below(in.size());
      const cpu_id c = cpu(i);
      switch (chance.below(4)) {
        case 0:
          if (!idle[i]) in.stop(c);
          idle[i] = true;
          break;
        case 1:
          idle_class[i] = chance.below(3) == 0;
          in.run(c, idle_class[i]);
          idle[i] = false;
          break;
        case 2:
          if (idle[i]) in.of(c).parks(in.set);
          break;
        default: {
          in.of(c).tick(in.set);
          // I2: a tick of busy time corrects the mark; I4: idle-class CPUs stay targets.
          REQUIRE(in.state.marked_idle(c) == (idle[i] || idle_class[i]));
        }
      }
      for (cpu_id k : in.machine.all())
        if (in.state.idle(k) && in.set.idle_mark == idle_mark_t::entry) REQUIRE(in.state.marked_idle(k));
      for (int l = 0; l < 2; l++) {
        const int32_t busy = in.state.llc(l).nr_busy.load(relaxed);
        REQUIRE(busy >= 0);
        REQUIRE(busy <= in.state.llc_size(l));
        if (in.set.nr_busy_mode == nr_busy_mode_t::exact && step > 200) REQUIRE(busy <= in.truly_busy(l) + 4);
      }
    }
    // Quiescence: everybody parks or ticks.
    for (cpu_id c : in.machine.all()) in.state.idle(c) ? in.of(c).parks(in.set) : in.of(c).tick(in.set);
    for (cpu_id c : in.machine.all())
      REQUIRE(in.state.marked_idle(c) == (in.state.idle(c) || in.state.only_idle_class(c)));
    for (int l = 0; l < 2; l++) REQUIRE(in.state.llc(l).nr_busy.load(relaxed) == in.truly_busy(l));
  }
}

TEST_CASE("idle marks: exact counts follow every change, the tick's only those that last") {
  marked_world in("pack:1 core:2 pu:1");
  in.set.nr_busy_mode = nr_busy_mode_t::exact;
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 2);
  in.stop(cpu(0));
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 1);
  in.of(cpu(0)).parks(in.set);  // counted once
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 1);
  in.run(cpu(0));
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 2);

  in.set.nr_busy_mode = nr_busy_mode_t::tick;
  in.stop(cpu(0));
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 2);
  in.of(cpu(0)).parks(in.set);
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 1);
  in.run(cpu(0));
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 1);
  in.of(cpu(0)).tick(in.set);
  CHECK(in.state.llc(0).nr_busy.load(relaxed) == 2);
}

TEST_CASE("INV-I5 F28: a CPU that alternates faster than the tick leaves the shared lines alone") {
  marked_world in("pack:1 core:4 pu:1");
  idle_marks& mine = in.of(cpu(0));
  const auto writes_per_tick = [&](int alternations) {
    const uint64_t before = mine.shared_writes();
    for (int i = 0; i < alternations; i++) {
      in.stop(cpu(0));
      in.run(cpu(0));
    }
    mine.tick(in.set);
    return mine.shared_writes() - before;
  };
  for (int tick = 0; tick < 20; tick++) CHECK(writes_per_tick(50) <= 2);
  in.set.nr_busy_mode = nr_busy_mode_t::exact;
  CHECK(writes_per_tick(50) >= 100);  // what seed 004 disagrees about
  in.set.nr_busy_mode = nr_busy_mode_t::tick;
  in.set.busy_mark = busy_mark_t::exact;
  const uint64_t before = mine.mask_writes();
  CHECK(writes_per_tick(50) >= 99);
  CHECK(mine.mask_writes() - before >= 99);
}

TEST_CASE("idle marks: idle_mark=long_idle waits for the park, or for a tick of idling") {
  marked_world in("pack:1 core:2 pu:1");
  in.set.idle_mark = idle_mark_t::long_idle;
  in.of(cpu(0)).tick(in.set);
  in.of(cpu(1)).tick(in.set);
  CHECK(!in.state.marked_idle(cpu(0)));
  in.stop(cpu(0));
  in.stop(cpu(1));
  CHECK(!in.state.marked_idle(cpu(0)));
  in.of(cpu(0)).parks(in.set);
  in.of(cpu(1)).tick(in.set);
  CHECK(in.state.marked_idle(cpu(0)));
  CHECK(in.state.marked_idle(cpu(1)));
}

TEST_CASE("idle marks: the last sibling to idle offers the core") {
  marked_world in("pack:1 core:2 pu:2");
  llc_row& row = in.state.llc(0);
  in.stop(cpu(0));
  CHECK(row.has_idle_cores.load(relaxed) == 0);
  in.stop(cpu(1));
  CHECK(row.has_idle_cores.load(relaxed) == 1);
  CHECK(row.idle_core.load(relaxed) == idle_core_unknown);

  in.set.idle_core_id = true;
  in.stop(cpu(2));
  CHECK(row.idle_core.load(relaxed) == 0);  // not its own, but it found that one
  in.run(cpu(1));                           // the stored one is gone
  CHECK(row.idle_core.load(relaxed) == idle_core_unknown);
  in.run(cpu(2));
  in.stop(cpu(2));
  CHECK(row.idle_core.load(relaxed) == idle_core_none);
  in.stop(cpu(3));
  CHECK(row.idle_core.load(relaxed) == 2);
  in.stop(cpu(1));
  CHECK(row.idle_core.load(relaxed) == 2);  // one is enough
  in.run(cpu(0));
  CHECK(row.idle_core.load(relaxed) == 2);
}

TEST_CASE("idle marks: what a search may cost") {
  marked_world in("pack:1 core:2 pu:1");
  idle_marks& mine = in.of(cpu(0));
  in.set.tick_ns = 1'000;
  in.state.row(cpu(0)).avg_idle.store(8'000, relaxed);
  in.now = 50'000;
  in.stop(cpu(0));
  in.run(cpu(0));
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{50'500}) == 4'000);
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{51'000}) == 2'000);
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{52'900}) == 1'000);
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{53'000}) == 500);
  mine.searched(nanos{80});
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{53'000}) == 420);
  CHECK(in.state.llc(0).avg_scan_cost.load(relaxed) == 10);
  mine.searched(nanos{1'000'000});
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{53'000}) == 0);
  CHECK(mine.wake_avg_idle_ns(in.set, nanos{900'000'000'000}) == 0);

  CHECK(!idle_marks::wants_search_cost(in.set));
  in.set.sis_limit = sis_limit_t::prop;
  CHECK(idle_marks::wants_search_cost(in.set));
}

TEST_CASE("INV-NI2: average idle time stays below twice the cost of a search, whatever the samples") {
  rng chance(heddle_test::seed());
  for (avg_idle_form_t form : {avg_idle_form_t::v312, avg_idle_form_t::v39}) {
    marked_world in("pack:1 core:2 pu:1");
    in.set.avg_idle_form = form;
    in.set.migration_cost_ns = 500'000;
    board_row& row = in.state.row(cpu(0));
    for (int i = 0; i < 5'000; i++) {
      // The cost falls, too: the next sample brings the average down with it (3.5).
      // Until 3.11 the bound was a constant, twice the cost of a migration.
      const auto more = form == avg_idle_form_t::v312 ? static_cast<int64_t>(chance.below(2'000'000)) : 0;
      row.max_idle_balance_cost.store(500'000 + more, relaxed);
      in.stop(cpu(0));
      in.now += static_cast<int64_t>(chance.below(10'000'000));
      in.of(cpu(0)).accepts_wakeup(in.set, nanos{in.now});
      in.run(cpu(0));
      CHECK(row.avg_idle.load(relaxed) <= 2 * row.max_idle_balance_cost.load(relaxed));
    }
  }
}
