#include "balancer/pick.h"

#include <doctest/doctest.h>

#include <deque>

#include "runtime/base/rng.h"
#include "tests/seed.h"

namespace {
using namespace heddle::core;

pick_rules without_fair_turns() {
  settings set;
  set.fair_interval = 1'000'000;
  return pick_rules_of(set);
}
}  // namespace

TEST_CASE("INV-PK2: a pair that hands the slot to and fro delays the queue by lifo_max picks at most") {
  for (int64_t lifo_max : {1, 3, 16}) {
    settings set;
    set.lifo_max = lifo_max;
    const pick_rules rules = pick_rules_of(set);
    pick_state state;
    int64_t waited = 0, worst = 0;
    for (int i = 0; i < 1000; i++) {
      const pick_source from = pick_next(rules, state, {.slot = true, .queue = true});
      waited = from == pick_source::slot ? waited + 1 : 0;
      worst = std::max(worst, waited);
    }
    CHECK(worst == lifo_max);
  }
}

TEST_CASE("INV-PK1: under fifo nobody waits longer than the queue was long") {
  rng random(heddle_test::seed());
  settings set;
  set.pick_slot = false;
  const pick_rules rules = pick_rules_of(set);
  pick_state state;
  struct waiting {
    int since, ahead;
  };
  std::deque<waiting> queue;
  for (int i = 0; i < 20'000; i++) {
    for (uint64_t arrivals = random.below(queue.size() < 50 ? 3 : 1); arrivals > 0; arrivals--)
      queue.push_back({i, static_cast<int>(queue.size())});
    const pick_source from = pick_next(rules, state, {.queue = !queue.empty()});
    REQUIRE(from == (queue.empty() ? pick_source::none : pick_source::queue));
    if (queue.empty()) continue;
    REQUIRE(i - queue.front().since <= queue.front().ahead);
    queue.pop_front();
  }
}

TEST_CASE("pick: every fair_interval-th pick looks outside first") {
  settings set;
  set.fair_interval = 4;
  const pick_rules rules = pick_rules_of(set);
  pick_state state;
  int injected = 0;
  for (int i = 0; i < 40; i++)
    injected += pick_next(rules, state, {.injected = true, .queue = true}) == pick_source::injected;
  CHECK(injected == 10);
}

TEST_CASE("INV-PK4, pick: what is taken when there is nothing better") {
  const pick_rules rules = without_fair_turns();
  pick_state state{.until_fair = 1000};
  CHECK(pick_next(rules, state, {}) == pick_source::none);
  CHECK(pick_next(rules, state, {.idle_class = true}) == pick_source::idle_class);
  CHECK(pick_next(rules, state, {.queue = true, .idle_class = true}) == pick_source::queue);
  CHECK(pick_next(rules, state, {.injected = true, .idle_class = true}) == pick_source::injected);
  for (int i = 0; i < 10; i++) CHECK(pick_next(rules, state, {.slot = true, .idle_class = true}) == pick_source::slot);
}

TEST_CASE("pick: without pick_slot the queue goes first") {
  settings set;
  set.pick_slot = false;
  const pick_rules rules = pick_rules_of(set);
  pick_state state;
  CHECK(pick_next(rules, state, {.slot = true, .queue = true}) == pick_source::queue);
  CHECK(pick_next(rules, state, {.slot = true}) == pick_source::slot);
}
