#include "balancer/newidle.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "balancer/victims.h"
#include "runtime/base/rng.h"
#include "tests/balancer/lab.h"
#include "tests/seed.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

constexpr int64_t second = 1'000'000'000;

settings kernel_scale() {
  settings s;
  s.migration_cost_ns = 500'000;
  s.ni_decay_period_ns = second;
  s.ni_rate_shift = 22;
  return s;
}

// A lab whose CPU 0 is about to idle, with every gate off.
struct search : lab {
  explicit search(const std::string& description) : lab(description), mine(tree, set, to_cpu(0), nanos{0}) {
    set.ni_gate = ni_gate_t::none;
    set.ni_overload_gate = false;
    set.ni_domain_cost = false;
    set.ni_random = false;
    shared.overloaded.store(true, relaxed);
  }
  balance_plan next(uint64_t random = 0) { return newidle_next(world(), mine, to_cpu(0), now, random); }
  balance_plan report(const balance_plan& plan, const pull_outcome& outcome, uint64_t random = 0) {
    return newidle_report(world(), mine, to_cpu(0), plan, outcome, now, random);
  }
  balance_reason first() { return next().reason; }
  // The levels looked at, none of them having anything, each for `cost`.
  std::vector<int> levels_searched(nanos cost) {
    std::vector<int> levels;
    for (balance_plan plan = next(); !plan.over(); plan = next()) {
      if (plan.reason != balance_reason::diced) levels.push_back(plan.level);
      last = plan.reason;
      now += cost;
    }
    return levels;
  }

  balance_state mine;
  nanos now{0};
  balance_reason last = balance_reason::not_due;
};

constexpr const char* three_levels = "pack:2 core:2 pu:2";
}  // namespace

TEST_CASE("seed 001: how long the fractions take to forget") {
  struct vector {
    ni_decay_t fraction;
    int to_half, to_tenth;
  };
  for (const vector& v : {vector{ni_decay_t::f254_256, 89, 294}, vector{ni_decay_t::f253_256, 59, 196},
                          vector{ni_decay_t::f63_64, 45, 147}}) {
    settings set = kernel_scale();
    set.ni_decay = v.fraction;
    newidle_level level{.max_cost = nanos{1'000'000}};
    nanos now{0};
    int steps = 0, to_half = 0, to_tenth = 0;
    for (; level.max_cost > nanos{0}; steps++) {
      const nanos before = level.max_cost;
      REQUIRE(decay_cost(level, now += nanos{second + 1}, set));
      REQUIRE(level.max_cost < before);  // rounding down brings all of them to 0
      if (to_half == 0 && level.max_cost <= nanos{500'000}) to_half = steps + 1;
      if (to_tenth == 0 && level.max_cost <= nanos{100'000}) to_tenth = steps + 1;
    }
    CHECK(to_half == v.to_half);
    CHECK(to_tenth == v.to_tenth);
    CHECK_FALSE(decay_cost(level, now + nanos{second}, set));
  }
}

TEST_CASE("newidle: failed searches bump the cost up to a migration's, successes do not") {
  settings set = kernel_scale();
  set.ni_bump = true;
  newidle_level level{.max_cost = nanos{1000}};
  for (int64_t expected : {1500, 2250, 3375, 5062, 7593, 11389, 17083, 25624, 38436, 57654, 86481, 129721, 194581,
                           291871, 437806, 500200, 500200}) {
    note_cost(level, nanos{10}, false, nanos{5}, set);
    CHECK(level.max_cost == nanos{expected});
  }
  note_cost(level, nanos{600'000}, true, nanos{5}, set);
  CHECK(level.max_cost == nanos{600'000});
  set.ni_cap_slack_ns = 1000;
  newidle_level other{.max_cost = nanos{499'000}};
  note_cost(other, nanos{10}, false, nanos{5}, set);
  CHECK(other.max_cost == nanos{501'000});
}

TEST_CASE("newidle: the cost of a level is its maximum, renewed or decayed") {
  const settings set = kernel_scale();
  newidle_level level;
  note_cost(level, nanos{700}, false, nanos{10}, set);
  CHECK(level.max_cost == nanos{700});
  CHECK(level.cost_stamp == nanos{10});
  note_cost(level, nanos{600}, false, nanos{second}, set);
  CHECK(level.max_cost == nanos{700});
  note_cost(level, nanos{600}, false, nanos{second + 11}, set);
  CHECK(level.max_cost == nanos{700 * 253 / 256});
}

TEST_CASE("TV-NI-1, INV-NI6: admission and reward by ratio") {
  struct vector {
    uint32_t ratio;
    double probability;
    uint32_t reward;
  };
  const settings set;
  for (const vector& v : {vector{0, 0.0020, 1024}, vector{64, 0.0645, 16}, vector{256, 0.2520, 4},
                          vector{511, 0.5010, 2}, vector{512, 0.5020, 2}, vector{1023, 1, 1}}) {
    const newidle_level level{.ratio = v.ratio};
    uint32_t admitted = 0;
    for (uint32_t dice = 0; dice < 1024; dice++)
      if (const uint32_t reward = admission_reward(level, dice, set); reward > 0) {
        admitted++;
        CHECK(reward == v.reward);
      }
    CHECK(admitted == std::min(1024u, v.ratio + 2));
    CHECK(admitted / 1024.0 == doctest::Approx(v.probability).epsilon(0.03));
  }
}

TEST_CASE("TV-NI-2: the ratio of a level where all fails") {
  newidle_level level;
  const settings set;
  for (int i = 0; i < 512; i++) note_result(level, 0, nanos{0}, set);
  CHECK(level.ratio == 256);
  CHECK(level.calls == 512);
  CHECK(level.wins == 128);
  for (uint32_t expected : {128u, 64u, 32u, 16u}) {
    for (int i = 0; i < 512; i++) note_result(level, 0, nanos{0}, set);
    CHECK(level.ratio == expected);
  }
}

TEST_CASE("TV-NI-3, INV-NI5: sampling follows the true rate of success, without bias") {
  const settings set;
  rng random(heddle_test::seed());
  for (const double rate : {0.0, 0.01, 0.1, 0.5, 1.0}) {
    newidle_level level;
    constexpr int calls = 1'000'000, warm_up = 20'000;
    int run = 0;
    double wins = 0;
    for (int i = 0; i < warm_up + calls; i++) {
      const uint32_t reward = admission_reward(level, static_cast<uint32_t>(random.below(1024)), set);
      const bool got = reward > 0 && random.unit() < rate;
      note_result(level, got ? reward : 0, nanos{0}, set);
      if (i < warm_up) continue;
      run += reward > 0;
      wins += got ? reward : 0;
    }
    const double share = run / double(calls);
    CAPTURE(rate);
    if (rate == 0.0) CHECK(share == doctest::Approx(0.0045).epsilon(0.6));
    if (rate == 0.01) CHECK(share == doctest::Approx(0.017).epsilon(0.4));
    if (rate == 0.1) CHECK(share == doctest::Approx(0.105).epsilon(0.1));
    if (rate == 0.5) CHECK(share == doctest::Approx(0.53).epsilon(0.1));
    if (rate == 1.0) CHECK(share >= 0.8);
    // Rewards are rounded, 2 for anything between 410 and 682: the estimate carries that rounding.
    if (rate > 0) CHECK(wins / calls == doctest::Approx(rate).epsilon(0.25));
  }
}

TEST_CASE("TV-NI-4: who searches rarely may search always") {
  struct vector {
    double seconds;
    uint32_t added;
  };
  settings set = kernel_scale();
  set.ni_rate = true;
  for (const vector& v :
       {vector{4, 953}, vector{2, 476}, vector{1, 238}, vector{0.5, 119}, vector{0.25, 59}, vector{0.1, 23}}) {
    newidle_level level{.calls = 1023, .wins = 0};
    note_result(level, 0, nanos{static_cast<int64_t>(v.seconds * second)}, set);
    CHECK(level.ratio == v.added);
  }
  newidle_level level{.calls = 1023, .wins = 512};
  note_result(level, 0, nanos{4 * second}, set);
  CHECK(level.ratio == 1024);
  CHECK(admission_reward(level, 1023, set) == 1);
  set.ni_rate = false;
  level.calls = 1023;
  note_result(level, 0, nanos{400 * second}, set);
  CHECK(level.ratio < 1024);
}

TEST_CASE("newidle: the gates, each with its reason") {
  search s(three_levels);
  CHECK(s.first() == balance_reason::no_busy_group);
  s.mine = balance_state(s.tree, s.set, to_cpu(0), nanos{0});
  s.set.newidle = false;
  CHECK(s.first() == balance_reason::switched_off);
  s.set.newidle = true;
  s.state.row(to_cpu(0)).pending.store(1, relaxed);
  CHECK(s.first() == balance_reason::work_arrived);
  s.state.row(to_cpu(0)).pending.store(0, relaxed);

  s.set.ni_overload_gate = true;  // INV-NI4
  s.shared.overloaded.store(false, relaxed);
  CHECK(s.first() == balance_reason::nobody_overloaded);
  s.set.ni_overload_gate = false;

  s.set.migration_cost_ns = 5000;
  s.state.row(to_cpu(0)).avg_idle.store(4999, relaxed);
  s.set.ni_gate = ni_gate_t::migration_cost;
  CHECK(s.first() == balance_reason::idles_too_short);
  s.set.migration_cost_ns = -1;
  CHECK(s.first() == balance_reason::idles_too_short);
  s.set.ni_gate = ni_gate_t::domain_cost;
  s.mine.levels[0].newidle.max_cost = nanos{5000};
  CHECK(s.first() == balance_reason::idles_too_short);
  s.mine.levels[0].newidle.max_cost = nanos{4999};
  CHECK_FALSE(s.next().over());
}

TEST_CASE("INV-NI3: with all gates off every level is searched until one gives") {
  search s(three_levels);
  CHECK(s.levels_searched(nanos{100}) == std::vector<int>{0, 1, 2});
  CHECK(s.mine.search.spent == nanos{300});
  for (const level_state& level : s.mine.levels) CHECK(level.newidle.max_cost == nanos{100});
  s.put(3, 3);
  balance_plan plan = s.next();
  CHECK(plan.level == 0);
  plan = s.next();
  REQUIRE(plan.pull());
  CHECK(plan.level == 1);
  CHECK(plan.from == to_cpu(3));
  CHECK(plan.how == puller::newly_idle);
  CHECK(s.next().reason == balance_reason::outstanding);
  s.mine.levels[1].nr_failed = 2;
  s.now += nanos{250};
  CHECK(s.report(plan, {.moved = 1, .offered = 1}).reason == balance_reason::moved);
  CHECK(s.next().reason == balance_reason::work_arrived);
  CHECK(s.mine.levels[1].newidle.max_cost == nanos{250});
  CHECK(s.mine.levels[1].nr_failed == 0);
}

TEST_CASE("newidle: a failed pull goes on to the next level; pinned sources are left out first") {
  search s("pack:1 core:4 pu:2");
  s.put(2, 4);
  s.put(4, 3);
  balance_plan plan = s.next();
  plan = s.next();
  REQUIRE(plan.from == to_cpu(2));
  const balance_plan other = s.report(plan, {.left = 1, .offered = 1, .pinned = 1});
  REQUIRE(other.pull());
  CHECK(other.from == to_cpu(4));
  CHECK(s.report(other, {.left = 1, .offered = 1, .hot = 1}).reason == balance_reason::failed);
  CHECK(s.next().reason == balance_reason::searched);
  // Work that arrives in the middle ends the search.
  CHECK(s.next().level == 0);
  s.state.row(to_cpu(0)).pending.store(1, relaxed);
  CHECK(s.next().reason == balance_reason::work_arrived);
}

TEST_CASE("INV-NI7: the level loop ends within the average idle time plus one level's cost") {
  search s(three_levels);
  s.set.ni_domain_cost = true;
  s.state.row(to_cpu(0)).avg_idle.store(1000, relaxed);
  for (level_state& level : s.mine.levels) level.newidle.max_cost = nanos{400};
  CHECK(s.levels_searched(nanos{400}) == std::vector<int>{0, 1});
  CHECK(s.mine.search.spent <= nanos{1000 + 400});
  for (level_state& level : s.mine.levels) level.newidle.max_cost = nanos{400};
  s.levels_searched(nanos{700});
  CHECK(s.mine.search.spent <= nanos{1000 + 700});
  s.mine.levels[1].newidle.max_cost = nanos{1001};
  CHECK(s.next().level == 0);
  CHECK(s.next().reason == balance_reason::too_costly);
}

TEST_CASE("newidle: levels that seldom pay are diced away, and still counted") {
  search s(three_levels);
  s.set.ni_random = true;
  for (level_state& level : s.mine.levels) level.newidle.ratio = 0;
  const balance_plan plan = s.next(~uint64_t{0});
  CHECK(plan.reason == balance_reason::diced);
  CHECK(plan.level == 0);
  CHECK(s.mine.levels[0].newidle.calls == 513);
  CHECK(s.next(0).reason == balance_reason::no_busy_group);
}

TEST_CASE("newidle: ni_max_level bounds the search") {
  search s("pack:2 [numa] l3:2 core:2 pu:1");
  REQUIRE(s.chain(0).size() == 3);
  CHECK(s.levels_searched(nanos{1}) == std::vector<int>{0, 1, 2});
  s.set.ni_max_level = ni_max_level_t::node;
  CHECK(s.levels_searched(nanos{1}) == std::vector<int>{0, 1});
  s.set.ni_max_level = ni_max_level_t::llc;
  CHECK(s.levels_searched(nanos{1}) == std::vector<int>{0});
}

TEST_CASE(
    "INV-NI1: the cost of a whole search is at least a migration's, grows with what was spent and decays at balance") {
  search s(three_levels);
  s.set.migration_cost_ns = 5000;
  s.mine = balance_state(s.tree, s.set, to_cpu(0), nanos{0});
  CHECK(s.mine.max_idle_cost == nanos{5000});
  s.levels_searched(nanos{4000});
  CHECK(s.mine.max_idle_cost == nanos{12'000});
  const nanos later = s.now + nanos{s.set.ni_decay_period_ns + 1};
  balance_tick(s.world(), s.mine, to_cpu(0), puller::idle, later);
  CHECK(s.mine.max_idle_cost == nanos{3 * (4000 * 253 / 256)});
  for (level_state& level : s.mine.levels) level.newidle = {.max_cost = nanos{10}};
  s.mine.pass.open = s.mine.pass.outstanding = false;
  s.mine.next_balance = nanos{0};
  balance_tick(s.world(), s.mine, to_cpu(0), puller::idle, later * 2);
  CHECK(s.mine.max_idle_cost == nanos{5000});
}

TEST_CASE("newidle: steal_amount is one fiber or half of what may move") {
  search s("pack:1 core:2 pu:1");
  s.put(1, 8);
  s.set.steal_amount = steal_amount_t::one;
  balance_plan plan = s.next();
  CHECK(plan.at_most == 1);
  s.report(plan, {});
  while (!s.next().over()) {
  }
  s.set.steal_amount = steal_amount_t::half;
  plan = s.next();
  CHECK(plan.at_most == 4);
  CHECK(plan.amount == 4);
  CHECK(plan.kind == pull_kind::task);
  CHECK(steal_count(s.set, 0) == 0);
  CHECK(steal_count(s.set, 1) == 1);
  CHECK(steal_count(s.set, 5) == 3);
  s.set.nr_migrate = 2;
  CHECK(steal_count(s.set, 100) == 2);
}

TEST_CASE("victims: random ones are found wherever they are, all alike, and each once per search") {
  search s("pack:2 core:8 pu:1");
  s.set.victims = victims_t::random;
  CHECK(s.next().reason == balance_reason::searched);
  s.put(5, 4);
  s.put(9, 2);
  std::vector<int> asked(16);
  rng random(heddle_test::seed());
  for (int i = 0; i < 4000; i++) {
    const balance_plan plan = s.next(random.next());
    REQUIRE(plan.reason == balance_reason::pull_random);
    REQUIRE(plan.hot_may_move);
    asked[index_of(plan.from)]++;
    const balance_plan other = s.report(plan, {}, random.next());
    REQUIRE(other.pull());
    REQUIRE(other.from != plan.from);
    REQUIRE(s.report(other, {}, random.next()).reason == balance_reason::searched);
  }
  // The gap before each decides how often it is met first: 12 of 16 starts lead to CPU 5, 4 to CPU 9.
  CHECK(asked[5] == doctest::Approx(3000).epsilon(0.1));
  CHECK(asked[9] == doctest::Approx(1000).epsilon(0.2));
  const balance_plan plan = s.next(random.next());
  CHECK(s.report(plan, {.moved = 1, .offered = 1}).reason == balance_reason::moved);
  CHECK(s.next().reason == balance_reason::work_arrived);
}

TEST_CASE("INV-NI4: while nobody has two fibers nothing is searched, whatever else is set") {
  rng random(heddle_test::seed());
  for (int i = 0; i < 500; i++) {
    search s(three_levels);
    s.set.ni_overload_gate = true;
    s.set.lb_swb = lb_swb_t::v419;  // CPU 0 balances at every level
    for (int cpu = 1; cpu < 8; cpu++) s.put(cpu, static_cast<uint32_t>(random.below(2)));
    s.put(0, 0);
    s.set.ni_random = random.below(2) == 0;
    s.set.ni_max_level = static_cast<ni_max_level_t>(random.below(3));
    s.set.victims = static_cast<victims_t>(random.below(2));
    // The flag is what the last balance of the top level saw.
    balance_state top(s.tree, s.set, to_cpu(0), nanos{0});
    nanos now{0};
    for (int pass = 0; pass < 10; pass++) {
      now += nanos{1'000'000'000};
      for (balance_plan plan = balance_tick(s.world(), top, to_cpu(0), puller::idle, now); !plan.over();
           plan = balance_tick(s.world(), top, to_cpu(0), puller::idle, now))
        if (plan.pull()) (void)report(s.world(), top, to_cpu(0), plan, {}, now);
    }
    REQUIRE(!s.shared.overloaded.load(relaxed));
    CHECK(s.next(random.next()).reason == balance_reason::nobody_overloaded);
  }
  search s(three_levels);
  s.set.ni_overload_gate = true;
  s.put(3, 2);
  CHECK(s.next().reason != balance_reason::nobody_overloaded);
}

TEST_CASE("newidle: ni_runnable keeps a CPU that was busy lately from searching") {
  search s(three_levels);
  s.put(3, 2);
  s.set.ni_runnable = true;
  s.state.row(to_cpu(0)).runnable_avg.store(1014, relaxed);
  CHECK(s.first() != balance_reason::recently_busy);
  search busy(three_levels);
  busy.put(3, 2);
  busy.state.row(to_cpu(0)).runnable_avg.store(1015, relaxed);
  CHECK(busy.first() != balance_reason::recently_busy);
  search gated(three_levels);
  gated.put(3, 2);
  gated.set.ni_runnable = true;
  gated.state.row(to_cpu(0)).runnable_avg.store(1015, relaxed);
  CHECK(gated.first() == balance_reason::recently_busy);
}

TEST_CASE("newidle: ni_spare leaves out an LLC in which nobody had two fibers when it was balanced last") {
  for (bool spare : {false, true})
    for (bool crowded : {false, true}) {
      search s(three_levels);
      s.set.ni_spare = spare;
      s.shared.set_crowded(s.chain(0)[1], crowded);
      REQUIRE(s.chain(0)[1].has(df_share_llc));
      const bool left_out = spare && !crowded;
      (void)s.next();
      CHECK((s.next().reason == balance_reason::no_spare) == left_out);
    }
  // Who writes it: any balance pass that compared the level.
  lab l(three_levels);
  balance_state state(l.tree, l.set, to_cpu(0), nanos{0});
  (void)balance_tick(l.world(), state, to_cpu(0), puller::idle, nanos{1'000'000'000});
  CHECK(!l.shared.crowded(l.chain(0)[0]));
  CHECK(l.shared.crowded(l.chain(0)[2]));  // not looked at yet
}

TEST_CASE("newidle: ni_target gates by what searches cost, and draws a bumped cost down to it") {
  settings set = kernel_scale();
  set.ni_bump = set.ni_target = true;
  newidle_level level;
  nanos now{0};
  note_cost(level, nanos{20'000}, true, now, set);
  for (int i = 0; i < 8; i++) note_cost(level, nanos{20'000}, false, now, set);
  CHECK(level.max_cost > nanos{400'000});
  CHECK(gate_cost(level, set) == nanos{20'000});
  settings plain = set;
  plain.ni_target = false;
  CHECK(gate_cost(level, plain) == level.max_cost);
  const nanos bumped = level.max_cost;
  note_cost(level, nanos{1}, true, now + nanos{second / 10 + 1}, set);
  CHECK(level.target == nanos{20'000 * 253 / 256});
  CHECK(level.max_cost == bumped + (level.target - bumped) / 4);
}
