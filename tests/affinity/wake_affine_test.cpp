#include "affinity/wake_affine.h"

#include <doctest/doctest.h>

#include "affinity/idler_llc.h"
#include "tests/affinity/world.h"
#include "tests/seed.h"

using namespace heddle_test;

namespace {

// The domain both CPUs are in.
const sched_domain& common(world& in, cpu_id a, cpu_id b) {
  for (const sched_domain& d : in.domains.chain(a))
    if (d.span().has(b)) return d;
  FAIL("no common domain");
  return in.domains.chain(a).back();
}

affine_answer ask(world& in, const wakeup& w, bool sync = false) {
  return wake_affine(in.view(), common(in, w.waker, w.prev), w, w.waker, sync);
}

void only_weight(settings& s) { s.wa_idle = false; }

}  // namespace

TEST_CASE("TV-WA-1: weighing since 4.14") {
  struct row {
    int64_t load_this, load_prev, waker, wakee, cap_this, cap_prev, pct;
    bool sync, bias, pull;
  };
  for (const row& r : {row{0, 1024, 0, 512, 1024, 1024, 117, false, true, true},
                       {1024, 1024, 1024, 512, 1024, 1024, 117, true, true, true},
                       {1024, 1024, 1024, 512, 1024, 1024, 117, false, true, false},
                       {500, 1427, 0, 500, 1024, 1024, 117, false, true, true},
                       {500, 1426, 0, 500, 1024, 1024, 117, false, true, true},
                       {500, 1389, 0, 500, 1024, 1024, 125, false, true, false},
                       {500, 1450, 0, 500, 1024, 1024, 125, false, true, true},
                       {400, 1000, 600, 200, 1024, 1024, 117, true, true, true},
                       {0, 500, 0, 500, 1024, 1024, 117, false, true, false},
                       {0, 500, 0, 500, 1024, 1024, 117, true, true, false},
                       {500, 1500, 0, 500, 1024, 512, 117, false, true, true},
                       {500, 1500, 0, 500, 512, 1024, 117, false, true, false},
                       {500, 1500, 0, 500, 1024, 1024, 117, false, false, false},
                       {500, 1501, 0, 500, 1024, 1024, 117, false, false, true}}) {
    CAPTURE(r.load_this);
    CAPTURE(r.load_prev);
    CAPTURE(r.sync);
    CHECK(weight_pulls_v414(
              {r.load_this, r.load_prev, r.waker, r.wakee, r.cap_this, r.cap_prev, r.pct, r.sync, r.bias}) == r.pull);
  }
}

TEST_CASE("TV-WA-2: weighing in 3.x") {
  struct row {
    int64_t load_this, load_prev;
    bool sync, pull;
  };
  for (const row& r : {row{1024, 0, true, true},
                       {1024, 0, false, false},
                       {1024, 2048, false, true},
                       {2048, 2048, false, false},
                       {2048, 2048, true, true},
                       {2048, 3072, false, true}}) {
    CAPTURE(r.load_this);
    CAPTURE(r.load_prev);
    CAPTURE(r.sync);
    weight_terms_v39 t;
    t.load_this = r.load_this;
    t.load_prev = r.load_prev;
    t.waker = t.wakee = 1024;
    t.pct = 125;
    t.sync = r.sync;
    t.load_per_fiber_this = 1024;
    CHECK(weight_pulls_v39(t).pull == r.pull);
  }
}

TEST_CASE("wake_affine: a group's weight changes by its share, and only its one entity counts above") {
  // Alone on this CPU, with all of the group's weight: it weighs its shares, before and after.
  CHECK(effective_load(std::vector<group_level>{{1024, 1024, 1024, 1024}}, 1024, 1024) == 0);
  // Half of the group here; one more fiber makes it two thirds.
  CHECK(effective_load(std::vector<group_level>{{1024, 2048, 1024, 512}}, 1024, 1024) == 1024 * 2048 / 3072 - 512);
  // A fiber of the group starting elsewhere takes weight from here.
  CHECK(effective_load(std::vector<group_level>{{1024, 1024, 1024, 1024}}, 0, 1024) == 512 - 1024);
  // Never below two, however little is left.
  CHECK(effective_load(std::vector<group_level>{{1024, 4096, 1024, 256}}, -1024, -1024) == 2 - 256);
  // Two levels: the outer queue changes by what the inner entity did.
  const std::vector<group_level> nested{{1024, 2048, 1024, 512}, {2048, 1024, 512, 1024}};
  const int64_t inner = 1024 * 2048 / 3072 - 512;
  CHECK(effective_load(nested, 1024, 1024) == 2048 * (512 + inner) / 1024 - 1024);
  CHECK(effective_load({}, 77, 1024) == 77);

  // And the decision follows: the wakee's group has only it on prev, so staying there costs prev all its weight.
  weight_terms_v39 t;
  t.load_this = t.load_prev = 1024;
  t.wakee = 1024;
  t.pct = 125;
  CHECK(!weight_pulls_v39(t).pull);
  const std::vector<group_level> little_here{{64, 4096, 0, 2}};
  const std::vector<group_level> much_there{{1024, 1024, 1024, 16}};
  const wake_groups groups{.wakee_this = little_here, .wakee_prev = much_there};
  t.groups = &groups;
  CHECK(weight_pulls_v39(t).pull);
}

TEST_CASE("wake_affine: idleness decides before load, in the order of the rules") {
  world in("pack:2 core:3 pu:1");
  const cpu_id here = cpu(0), prev = cpu(1), far = cpu(4);
  in.all_busy();

  SUBCASE("rule 1: an outside wake-up on an idle CPU prefers an idle prev of the same LLC") {
    in.idles(here);
    in.idles(prev);
    CHECK(ask(in, {.prev = prev, .waker = here}).reason == affine_reason::wa_idle_prev);
    in.set.wa_idle_prefer_prev = false;
    CHECK(ask(in, {.prev = prev, .waker = here}).cpu == here);
    in.busy(prev);
    CHECK(ask(in, {.prev = prev, .waker = here}).reason == affine_reason::wa_idle_this);
  }
  SUBCASE("rule 1 does not cross LLCs") {
    in.idles(here);
    CHECK(ask(in, {.prev = far, .waker = here, .load = {1024, 0, 0}}).reason == affine_reason::wa_weight_this);
  }
  SUBCASE("rule 2: sync beats an idle prev, if the waker is alone") {
    in.idles(prev);
    CHECK(ask(in, {.prev = prev, .waker = here}, true).reason == affine_reason::wa_sync);
    in.busy(here, 2);
    CHECK(ask(in, {.prev = prev, .waker = here}, true).reason == affine_reason::wa_idle_prev);
  }
  SUBCASE("rule 3: an idle prev keeps the wakee although blocked load weighs on it (F14)") {
    in.idles(far, 900);
    in.load_is(here, 300);
    CHECK(ask(in, {.prev = far, .waker = here}).reason == affine_reason::wa_idle_prev);
    in.set.wa_idle_prev = false;
    CHECK(ask(in, {.prev = far, .waker = here}).reason == affine_reason::wa_weight_this);
  }
  SUBCASE("nobody speaks: prev") {
    in.set.wa_weight = false;
    CHECK(ask(in, {.prev = prev, .waker = here}).reason == affine_reason::wa_undecided);
    in.set.wa_form = wa_form_t::v39;
    CHECK(ask(in, {.prev = prev, .waker = here}).reason == affine_reason::wa_undecided);
  }
}

TEST_CASE("wake_affine: 3.x says which of its rules pulled") {
  world in("pack:2 core:3 pu:1");
  in.set.wa_form = wa_form_t::v39;
  in.set.load_metric = load_metric_t::instant;
  in.all_busy();
  const wakeup w{.prev = cpu(4), .waker = cpu(0)};
  in.load_is(cpu(4), 0);
  CHECK(ask(in, w, false).reason == affine_reason::wa_weight_prev);
  wakeup with_waker = w;
  with_waker.waker_load.weight = 1024;
  CHECK(ask(in, with_waker, true).reason == affine_reason::wa_sync);
  in.load_is(cpu(4), 4096);
  CHECK(ask(in, w, false).reason == affine_reason::wa_weight_this);
}

TEST_CASE("wake_affine: a burst compares the load of now") {
  world in("pack:2 core:3 pu:1");
  only_weight(in.set);
  in.all_busy();
  const cpu_id here = cpu(0), prev = cpu(4);
  // Long sleepers were just woken here: three on the queue, nothing yet on the average.
  in.busy(here, 3, 0);
  weighs(in.state.row(here), 3 * 1024);
  in.busy(prev, 1, 500);
  weighs(in.state.row(prev), 1024);
  const wakeup w{.prev = prev, .waker = here};
  in.state.row(here).avg_idle.store(50'000, relaxed);
  in.state.row(prev).avg_idle.store(50'000, relaxed);

  CHECK(ask(in, w).cpu == here);
  in.set.wa_burst_ns = 100'000;
  const affine_answer burst = ask(in, w);
  CHECK(burst.cpu == prev);
  CHECK(burst.burst);
  in.set.wa_burst_ns = 50'000;  // not below it
  CHECK(!ask(in, w).burst);
  in.state.row(prev).avg_idle.store(49'999, relaxed);  // either CPU is enough
  CHECK(ask(in, w).burst);
}

TEST_CASE("INV-T1: pulls of one fiber are a throttle interval apart") {
  world in("pack:2 core:3 pu:1");
  in.all_busy();
  in.set.wa_throttle_ns = 1'000;
  wake_memory memory;
  wakeup w{.prev = cpu(4), .waker = cpu(0), .memory = &memory};
  int64_t last = -1'000'000;
  int pulls = 0;
  for (int64_t now = 0; now < 20'000; now += 7) {
    w.now = nanos{now};
    const affine_answer a = ask(in, w, true);
    if (a.cpu == w.waker) {
      CHECK(now - last >= 1'000);
      last = now;
      pulls++;
    } else {
      CHECK(a.reason == affine_reason::wa_throttled);
    }
  }
  CHECK(pulls >= 19);

  SUBCASE("what starts the interval") {
    for (wa_throttle_on_t on : {wa_throttle_on_t::success, wa_throttle_on_t::attempt, wa_throttle_on_t::failure})
      for (bool pulled : {true, false}) {
        in.set.wa_throttle_on = on;
        memory.affine_blocked_until_ns = 0;
        in.idles(cpu(4));
        in.set.wa_idle_prev = !pulled;  // rule 3 keeps it, or sync pulls
        w.now = nanos{100'000};
        CHECK((ask(in, w, pulled).cpu == w.waker) == pulled);
        const bool blocks = on == wa_throttle_on_t::attempt || (on == wa_throttle_on_t::success) == pulled;
        CHECK(memory.affine_blocked_until_ns == (blocks ? 101'000 : 0));
      }
  }
}

TEST_CASE("INV-WA1 INV-WA3 INV-WA4 INV-WA5: the answer is one of the two CPUs and depends on them alone") {
  world in("pack:2 core:2 pu:2");
  rng chance(heddle_test::seed());
  for (int i = 0; i < 20'000; i++) {
    in.set = settings{};
    in.set.wa_form = chance.below(3) == 0 ? wa_form_t::v39 : wa_form_t::v414;
    in.set.load_metric = static_cast<load_metric_t>(chance.below(3));
    in.set.wa_burst_ns = chance.below(2) == 0 ? 0 : 10'000;
    in.draw(chance);
    drawn_wakeup d = draw_wakeup(in, chance);
    if (!valid(d.w.waker) || d.w.waker == d.w.prev) continue;
    const affine_answer a = ask(in, d.w, d.w.sync);
    REQUIRE((a.cpu == d.w.waker || a.cpu == d.w.prev));
    if (in.set.wa_form == wa_form_t::v414 && d.w.sync && in.state.row(d.w.waker).nr.load(relaxed) == 1 &&
        !in.state.idle(d.w.waker))
      REQUIRE(a.cpu == d.w.waker);

    for (cpu_id c : in.machine.all())
      if (c != d.w.waker && c != d.w.prev) chance.below(2) == 0 ? in.idles(c) : in.busy(c, 5);
    const affine_answer same = ask(in, d.w, d.w.sync);
    REQUIRE(same.cpu == a.cpu);
    REQUIRE(same.reason == a.reason);

    in.set.wa_idle = in.set.wa_weight = false;
    REQUIRE(ask(in, d.w, d.w.sync).cpu == d.w.prev);
  }
}

// ---- the idler LLC

namespace {

// Two LLCs of the given sizes, every CPU its own core, each with so many busy CPUs; the first CPU of each is busy.
topology two_llcs(size_t a, size_t b) {
  topology m = machine_of("pack:1 core:" + std::to_string(a + b) + " pu:1");
  cpu_set first, second;
  for (size_t i = 0; i < a + b; i++) {
    m.cpus[i].llc = i < a ? 0 : 1;
    (i < a ? first : second).add(cpu(i));
  }
  m.llcs = {first, second};
  return m;
}

}  // namespace

TEST_CASE("TV-ID-1: the LLC with the larger idle share, by cross multiplication") {
  enum class who { none, a, b };
  struct row {
    int busy_b;
    size_t size_b;
    int busy_a;
    size_t size_a;
    who choice;
  };
  for (const row& r : {row{8, 8, 8, 8, who::none},
                       {4, 8, 4, 8, who::none},
                       {5, 8, 4, 8, who::a},
                       {4, 8, 5, 8, who::b},
                       {4, 8, 2, 4, who::none},
                       {4, 8, 3, 4, who::b},
                       {7, 8, 3, 4, who::a},
                       {48, 48, 47, 48, who::a},
                       {3, 16, 1, 4, who::b}}) {
    for (bool sync : {false, true}) {
      CAPTURE(r.busy_b);
      CAPTURE(r.busy_a);
      CAPTURE(sync);
      world in(two_llcs(r.size_a, r.size_b));
      in.all_busy();
      in.state.llc(0).nr_busy.store(r.busy_a, relaxed);
      in.state.llc(1).nr_busy.store(r.busy_b, relaxed);
      const cpu_id a = cpu(0), b = cpu(r.size_a);
      // A is the preferred side: the waker's in a sync wake-up, else prev's.
      const idler_answer answer = sync ? idler_llc(in.view(), {}, a, b, true) : idler_llc(in.view(), {}, b, a, false);
      CHECK(answer.cpu == (r.choice == who::none ? cpu_id::none : r.choice == who::a ? a : b));
      CHECK(answer.llcs_full == (r.busy_a == static_cast<int>(r.size_a) && r.busy_b == static_cast<int>(r.size_b)));
    }
  }
}

TEST_CASE("INV-I6: the idler LLC answers within the two LLCs, and a stored core goes to one waker") {
  world in("pack:3 core:2 pu:2");
  in.set.wa_idler_llc = in.set.idle_core_id = true;
  rng chance(heddle_test::seed());
  for (int i = 0; i < 20'000; i++) {
    in.draw(chance);
    const cpu_id here = cpu(chance.below(4)), prev = cpu(4 + chance.below(4));
    const idler_answer answer = idler_llc(in.view(), {}, here, prev, chance.below(2) == 0);
    if (valid(answer.cpu)) REQUIRE((in.machine.share_llc(answer.cpu, here) || in.machine.share_llc(answer.cpu, prev)));
  }

  in.all_busy();
  in.state.llc(1).idle_core.store(6, relaxed);
  CHECK(idler_llc(in.view(), {}, cpu(0), cpu(4), false).cpu == cpu(6));
  CHECK(in.state.llc(1).idle_core.load(relaxed) == idle_core_unknown);
  CHECK(idler_llc(in.view(), {}, cpu(0), cpu(4), false).cpu != cpu(6));

  // Not one the wakee may not use, and then it stays for others.
  in.state.llc(1).idle_core.store(6, relaxed);
  const cpu_set allowed{0, 4};
  CHECK(idler_llc(in.view(), {.allowed = &allowed}, cpu(0), cpu(4), false).cpu != cpu(6));
  CHECK(in.state.llc(1).idle_core.load(relaxed) == 6);
}

TEST_CASE("wake_affine: with the idler rule nothing is stacked on the waker within an LLC while prev is free") {
  world in("pack:2 core:3 pu:1");
  in.all_busy();
  in.idles(cpu(1));
  const wakeup w{.prev = cpu(1), .waker = cpu(0)};
  CHECK(ask(in, w, true).reason == affine_reason::wa_sync);
  in.set.wa_idler_llc = true;
  CHECK(ask(in, w, true).reason == affine_reason::wa_idle_prev);
  // Across LLCs: share first, then a sync waker that is alone, then weights.
  in.busy(cpu(1));
  const wakeup across{.prev = cpu(4), .waker = cpu(0), .load = {1024, 512, 0}};
  in.state.llc(0).nr_busy.store(2, relaxed);
  in.state.llc(1).nr_busy.store(3, relaxed);
  CHECK(ask(in, across, false).cpu == cpu(0));
  CHECK(ask(in, across, false).reason == affine_reason::wa_idler);
  in.state.llc(1).nr_busy.store(2, relaxed);
  CHECK(ask(in, across, true).reason == affine_reason::wa_sync);
  CHECK(ask(in, across, false).reason == affine_reason::wa_weight_prev);
}
