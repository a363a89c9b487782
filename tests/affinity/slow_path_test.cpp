#include "affinity/slow_path.h"

#include <doctest/doctest.h>

#include "tests/affinity/world.h"
#include "tests/seed.h"

using namespace heddle_test;

namespace {

slow_answer ask(world& in, slow_query q) { return find_idlest(in.view(), in.domains.chain(q.from).back(), q); }

group_contest both_busy(int64_t local_avg, int64_t best_avg) {
  group_contest c;
  c.local = {.load = local_avg, .util = 1024, .runnable = 1024, .capacity = 1024, .nr = 1, .weight = 1};
  c.best = {.load = best_avg, .util = 1024, .runnable = 1024, .capacity = 1024, .nr = 1, .weight = 1};
  return c;
}

}  // namespace

TEST_CASE("TV-SLOW-1: of two fully busy groups the other must be clearly lighter") {
  CHECK(class_of(both_busy(1500, 0).local, 117) == spare_class::fully_busy);
  CHECK(!goes_to_best_v55(both_busy(1500, 1283)));
  CHECK(goes_to_best_v55(both_busy(1500, 1282)));
  // Between nodes a margin of a sixth of a fiber comes on top.
  group_contest numa = both_busy(1500, 1282);
  CHECK(goes_to_best_v55(numa));
  numa.numa = true;
  numa.best.load = 1326;
  CHECK(!goes_to_best_v55(numa));
  numa.best.load = 1200;
  CHECK(goes_to_best_v55(numa));
}

TEST_CASE("TV-GC-1: classes of groups, as the slow path sees them") {
  const auto kind = [](int64_t nr, int64_t util, int64_t runnable) {
    return class_of({.util = util, .runnable = runnable, .capacity = 4096, .nr = nr, .weight = 4}, 117);
  };
  CHECK(kind(3, 3500, 3500) == spare_class::has_spare);
  CHECK(kind(4, 3500, 3500) == spare_class::has_spare);
  CHECK(kind(4, 3501, 3501) == spare_class::fully_busy);
  CHECK(kind(4, 3400, 4800) == spare_class::fully_busy);
  CHECK(kind(5, 3501, 5000) == spare_class::overloaded);
  CHECK(kind(5, 3000, 4000) == spare_class::has_spare);
  CHECK(kind(5, 3000, 4792) == spare_class::has_spare);
  CHECK(kind(5, 3000, 4793) == spare_class::overloaded);
  CHECK(kind(0, 0, 0) == spare_class::has_spare);
}

TEST_CASE("TV-DOM-8: the NUMA allowance") {
  CHECK(adjust_numa_imbalance(2, 1, 2) == 0);
  CHECK(adjust_numa_imbalance(2, 3, 2) == 2);
  CHECK(adjust_numa_imbalance(4, 1, 2) == 4);
  CHECK(adjust_numa_imbalance(1, 9, 8) == 1);
  CHECK(adjust_numa_imbalance(2, 8, 8) == 0);
}

TEST_CASE("slow path: groups with room are told apart by idle CPUs, and a tie stays") {
  group_contest c;
  c.local = {.capacity = 4096, .nr = 2, .idle = 2, .weight = 4};
  c.best = {.capacity = 4096, .nr = 2, .idle = 2, .weight = 4};
  CHECK(!goes_to_best_v55(c));
  c.best.idle = 3;
  CHECK(goes_to_best_v55(c));
  c.numa = true;
  c.numa_allowance = 4;  // two more may run here before it is worth crossing
  CHECK(!goes_to_best_v55(c));
  c.numa_allowance = 2;
  CHECK(goes_to_best_v55(c));
  c.best = {.util = 4096, .runnable = 9000, .capacity = 4096, .nr = 9, .weight = 4};
  CHECK(!goes_to_best_v55(c));  // class decides first
  std::swap(c.local, c.best);
  CHECK(goes_to_best_v55(c));
}

TEST_CASE("slow path: older comparisons") {
  group_contest c = both_busy(1080, 1000);
  c.pct = 117;
  CHECK(goes_to_best_v310(c));  // 108000 >= 108000
  c.local.load = 1079;
  CHECK(!goes_to_best_v310(c));

  // 4.19: room first, unless the fiber is new; loads within a sixth of a fiber are alike.
  c.local.spare = 100;
  c.best.spare = 600;
  c.fiber_util = 1000;
  CHECK(goes_to_best_v419(c));
  c.local.spare = 600;
  CHECK(!goes_to_best_v419(c));
  c.fork = true;
  c.local.load = 1500;
  CHECK(goes_to_best_v419(c));
  c.local.load = 1000;
  c.best.load = 1175;
  CHECK(!goes_to_best_v419(c));
}

TEST_CASE("slow path: the least loaded CPU of the machine, and the fiber does not flee from its own load") {
  for (slow_form_t form : {slow_form_t::v310, slow_form_t::v419, slow_form_t::v55}) {
    world in("pack:2 core:2 pu:2");
    in.set.slow_form = form;
    for (cpu_id c : in.machine.all()) in.busy(c, 2, 2048);
    in.idles(cpu(6));
    CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(6));
    // All alike: where one is.
    in.busy(cpu(6), 2, 2048);
    if (form != slow_form_t::v310) CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(0));
    // Nothing runs anywhere, and what weighs on cpu 0 is the sleeper itself.
    for (cpu_id c : in.machine.all()) in.idles(c);
    in.state.row(cpu(0)).load_avg.store(900, relaxed);
    in.state.row(cpu(0)).util_avg.store(900, relaxed);
    if (form == slow_form_t::v55)
      CHECK(ask(in, {.from = cpu(0), .prev = cpu(0), .load = {1024, 900, 900}}).cpu == cpu(0));
  }
}

TEST_CASE(
    "slow path: within a group an idle-class CPU, then the lightest sleeper, then the warmest, then the lightest "
    "load") {
  // One group of four beside the local one: both LLCs, no SMT, so the remote LLC is judged CPU by CPU.
  world in("pack:2 core:4 pu:1");
  for (cpu_id c : in.machine.all()) in.busy(c, 3, 3072);
  for (size_t i = 4; i < 8; i++) in.busy(cpu(i), 2, static_cast<uint32_t>(2000 - i));
  CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(7));
  for (size_t i = 5; i < 8; i++) {
    in.idles(cpu(i));
    in.state.row(cpu(i)).idle_since.store(static_cast<int64_t>(10 + i % 3), relaxed);  // 5: 12, 6: 10, 7: 11
  }
  CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(5));
  in.state.row(cpu(6)).state.store(cpu_state::polling, relaxed);
  CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(6));
  for (size_t i = 5; i < 8; i++) in.busy(cpu(i), 2, 2000);
  in.idle_class(cpu(4));
  in.state.row(cpu(4)).load_avg.store(2500, relaxed);  // blocked ones: not in anybody's way now
  CHECK(ask(in, {.from = cpu(0)}).cpu == cpu(4));
}

TEST_CASE("slow path: where it may look") {
  world in("pack:2 [numa] core:2 pu:2");
  const policy_view v = in.view();
  CHECK(widest_for_wake(v, cpu(0))->span() == in.machine.llc_of(cpu(0)));
  in.set.wake_idle_levels = wake_idle_levels_t::numa;
  CHECK(widest_for_wake(v, cpu(0))->span() == in.machine.all());
  CHECK(widest_with(v, cpu(0), df_balance_fork)->span() == in.machine.all());

  topology far = machine_of("pack:2 [numa] core:2 pu:2");
  far.distances = {{10, 40}, {40, 10}};
  world apart(std::move(far));
  const policy_view a = apart.view();
  apart.set.wake_idle_levels = wake_idle_levels_t::numa;
  CHECK(widest_for_wake(a, cpu(0))->span() == apart.machine.llc_of(cpu(0)));
  apart.set.wake_idle_levels = wake_idle_levels_t::all;
  CHECK(widest_for_wake(a, cpu(0))->span() == apart.machine.all());
  world alone("pack:1 core:1 pu:1");
  CHECK(widest_for_wake(alone.view(), cpu(0)) == nullptr);
}

TEST_CASE("slow path: the answer is allowed, on any board and any machine") {
  rng chance(heddle_test::seed());
  for (const char* spec : {"pack:2 core:3 pu:2", "4n192", "8x10x2", "hybrid", "pack:3 core:1 pu:1"}) {
    world in(spec);
    for (int i = 0; i < (in.size() > 100 ? 200 : 3000); i++) {
      in.draw(chance);
      in.set.slow_form = static_cast<slow_form_t>(chance.below(3));
      cpu_set allowed;
      for (cpu_id c : in.machine.all())
        if (chance.below(in.size()) < 3) allowed.add(c);
      if (allowed.empty()) continue;
      slow_query q{.from = cpu(chance.below(in.size())),
                   .load = {1024, 500, 300},
                   .allowed = &allowed,
                   .fork = chance.below(2) == 0};
      if (!q.fork) q.prev = cpu(chance.below(in.size()));
      const slow_answer a = ask(in, q);
      REQUIRE(allowed.has(a.cpu));
      REQUIRE(allowed.has(nearest_allowed(in.view(), q.from, allowed)));
    }
  }
}

TEST_CASE("fork: local, pinned, near or idlest") {
  world in("pack:2 core:2 pu:2");
  const auto fork = [&](cpu_id parent, const cpu_set* allowed = nullptr) {
    return place_fork(in.machine, in.domains, in.state, in.set, {.parent = parent, .allowed = allowed});
  };
  for (cpu_id c : in.machine.all()) in.busy(c, 2, 2048);
  in.idles(cpu(7));
  CHECK(fork(cpu(1)).cpu == cpu(1));
  CHECK(fork(cpu(1)).reason == fork_reason::fork_local);
  in.set.fork_path = fork_path_t::slow;
  CHECK(fork(cpu(1)).cpu == cpu(7));
  CHECK(fork(cpu(1)).reason == fork_reason::fork_idlest);
  in.set.fork_path = fork_path_t::local;
  CHECK(fork(cpu_id::none).cpu == cpu(7));  // from outside there is nothing to be local to
  const cpu_set only{5};
  CHECK(fork(cpu(1), &only).cpu == cpu(5));
  CHECK(fork(cpu(1), &only).reason == fork_reason::fork_pinned);
  const cpu_set elsewhere{3, 6, 7};
  CHECK(fork(cpu(1), &elsewhere).cpu == cpu(3));  // its LLC's before an idle one further off
  CHECK(fork(cpu(1), &elsewhere).reason == fork_reason::fork_near);
  const cpu_set far{6, 7};
  CHECK(fork(cpu(1), &far).cpu == cpu(7));
  for (size_t i = 0; i < fork_reason_count; i++) CHECK(!to_string(static_cast<fork_reason>(i)).empty());

  world alone("pack:1 core:1 pu:1");
  alone.set.fork_path = fork_path_t::slow;
  CHECK(place_fork(alone.machine, alone.domains, alone.state, alone.set, {.parent = cpu_id::none}).cpu == cpu(0));
}
