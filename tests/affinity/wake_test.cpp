#include "affinity/wake.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "runtime/base/settings_list.h"
#include "tests/affinity/world.h"
#include "tests/seed.h"

using namespace heddle_test;

namespace {

void check_answer(world& in, const drawn_wakeup& d, const placement& p) {
  REQUIRE(valid(p.cpu));
  REQUIRE(index_of(p.cpu) < in.size());
  REQUIRE(allowed_on(d.w.allowed != nullptr ? &d.allowed : nullptr, p.cpu));
  REQUIRE((p.affine == affine_reason::wa_none || !p.wide));
}

settings preset_named(std::string_view name) {
  settings_list l;
  REQUIRE(l.add(settings_source::option, name) == "");
  return l.resolve().values;
}

bool same(const placement& a, const placement& b) {
  return a.cpu == b.cpu && a.reason == b.reason && a.affine == b.affine && a.wide == b.wide && a.slow == b.slow &&
         a.burst == b.burst && a.probes == b.probes;
}

}  // namespace

TEST_CASE("wake: every board of a 6-CPU machine, every waker, prev and affinity") {
  for (const char* spec : {"pack:2 core:3 pu:1", "pack:1 core:3 pu:2"}) {
    world in(spec);
    for (int code = 0; code < 729; code++) {
      for (int i = 0, rest = code; i < 6; i++, rest /= 3) {
        const cpu_id c = cpu(static_cast<size_t>(i));
        rest % 3 == 0 ? in.idles(c) : rest % 3 == 1 ? in.busy(c) : in.idle_class(c);
      }
      for (size_t prev = 0; prev < 6; prev++)
        for (size_t waker = 0; waker < 7; waker++)
          for (bool sync : {false, true}) {
            in.settle_hints();
            wakeup w{.prev = cpu(prev), .waker = waker < 6 ? cpu(waker) : cpu_id::none, .sync = sync};
            const placement p = in.place(w);
            const cpu_id here = valid(w.waker) ? w.waker : w.prev;
            REQUIRE((in.machine.share_llc(p.cpu, here) || in.machine.share_llc(p.cpu, w.prev)));
            // An idle previous CPU is kept, unless a sync waker that is alone pulls, or both are idle in two LLCs.
            if (in.state.idle(w.prev) && !sync && (in.machine.share_llc(here, w.prev) || !in.state.idle(here)))
              REQUIRE(p.cpu == w.prev);
            if (in.free(w.prev) && !in.free(p.cpu)) REQUIRE(!in.machine.share_llc(p.cpu, w.prev));
            // With the cpus of both LLCs taken nothing is free, and nowhere else.
            bool any = false;
            for (cpu_id c : in.machine.llc_of(p.cpu)) any = any || in.free(c);
            REQUIRE(in.free(p.cpu) == any);
            const cpu_set only{static_cast<int>((prev + waker) % 6)};
            w.allowed = &only;
            REQUIRE(in.place(w).reason == wake_reason::pinned);
            REQUIRE(in.place(w).cpu == only.lowest());
          }
    }
  }
}

TEST_CASE("wake: any board, any machine, any preset: an allowed CPU, the same one for the same question") {
  rng chance(heddle_test::seed());
  for (const char* spec : {"pack:2 core:3 pu:2", "2n40", "4n192", "8x10x2", "1x6x2", "hybrid", "ccx",
                           "pack:1 core:1 pu:1", "pack:2 [numa] l3:2 l2:2 core:2 pu:2"}) {
    CAPTURE(spec);
    world in(spec);
    const int rounds = in.size() > 100 ? 150 : 1'000;
    for (const preset& named : presets()) {
      in.set = preset_named(named.name);
      for (int i = 0; i < rounds / 10; i++) {
        in.draw(chance);
        const drawn_wakeup d = draw_wakeup(in, chance);
        const placement p = d.ask(in);
        check_answer(in, d, p);
        in.settle_hints();
        const placement once = d.ask(in);
        in.settle_hints();
        REQUIRE(same(d.ask(in), once));
      }
    }
  }
}

TEST_CASE("wake: names of CPUs do not matter") {
  rng chance(heddle_test::seed());
  for (const char* spec : {"pack:2 core:3 pu:2", "pack:3 core:2 pu:2", "2n40"}) {
    const topology machine = machine_of(spec);
    for (int round = 0; round < 30; round++) {
      std::vector<size_t> order(machine.cpu_count());
      for (size_t i = 0; i < order.size(); i++) order[i] = i;
      for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[chance.below(i)]);
      world a(machine);
      world b(renamed(machine, order));
      for (int i = 0; i < 100; i++) {
        const uint64_t board_seed = chance.next();
        rng same_draws(board_seed);
        a.draw(same_draws);
        a.set.sis = chance.below(2) == 0 ? sis_t::v513 : sis_t::v49;
        a.set.sis_limit = sis_limit_t::none;
        a.set.wa_idler_llc = chance.below(2) == 0;
        drawn_wakeup d = draw_wakeup(a, chance);
        if (a.set.wa_idler_llc) d.w.allowed = nullptr;  // a stored core is its lowest CPU, which affinity may exclude
        a.settle_hints();
        b.set = a.set;
        for (size_t k = 0; k < order.size(); k++) {
          board_row& to = b.state.row(cpu(order[k]));
          const board_row& from = a.state.row(cpu(k));
          to.nr.store(from.nr.load(relaxed), relaxed);
          to.nr_idle_class.store(from.nr_idle_class.load(relaxed), relaxed);
          to.state.store(from.state.load(relaxed), relaxed);
          to.load_avg.store(from.load_avg.load(relaxed), relaxed);
          to.avg_idle.store(from.avg_idle.load(relaxed), relaxed);
          b.state.mark_idle(cpu(order[k]), a.state.marked_idle(cpu(k)));
        }
        b.settle_hints();
        drawn_wakeup e = d;
        const auto rename = [&](cpu_id c) { return valid(c) ? cpu(order[index_of(c)]) : c; };
        e.w.prev = rename(d.w.prev);
        e.w.waker = rename(d.w.waker);
        e.wakee.recent = rename(d.wakee.recent);
        e.allowed = cpu_set{};
        for (cpu_id c : d.allowed) e.allowed.add(rename(c));
        // Asked for a CPU that is not allowed, the nearest one is taken: of equals the first, which is a matter of names.
        if (d.w.allowed != nullptr && !d.allowed.has(d.w.prev)) continue;
        const placement p = d.ask(a);
        const placement q = e.ask(b);
        REQUIRE(p.reason == q.reason);
        REQUIRE(p.affine == q.affine);
        REQUIRE(a.free(p.cpu) == b.free(q.cpu));
        REQUIRE(a.machine.at(p.cpu).llc == b.machine.at(q.cpu).llc);
      }
    }
  }
}

TEST_CASE("wake: every reason is reached") {
  std::set<wake_reason> reasons{wake_reason::deferred};  // the mechanism's own, by defers()
  std::set<affine_reason> affine;
  rng chance(heddle_test::seed());
  world in("pack:2 [numa] l3:2 core:2 pu:2");
  for (int i = 0; i < 60'000; i++) {
    in.set = settings{};
    in.set.sis = static_cast<sis_t>(chance.below(5));
    in.set.sis_extend = static_cast<sis_extend_t>(chance.below(3));
    in.set.wa_idler_llc = chance.below(4) == 0;
    in.set.wa_weight = chance.below(4) != 0;
    in.set.wa_throttle_ns = chance.below(4) == 0 ? 1 : 0;
    in.set.wake_wide_idle = static_cast<wake_wide_idle_t>(chance.below(3));
    in.set.balance_wake = chance.below(4) == 0 ? static_cast<balance_wake_t>(chance.below(4)) : balance_wake_t::never;
    in.draw(chance);
    const drawn_wakeup d = draw_wakeup(in, chance);
    const placement p = d.ask(in);
    reasons.insert(p.reason);
    affine.insert(p.affine);
  }
  for (size_t i = 0; i < wake_reason_count; i++) {
    CAPTURE(to_string(static_cast<wake_reason>(i)));
    CHECK(reasons.count(static_cast<wake_reason>(i)) == 1);
  }
  for (size_t i = 0; i < affine_reason_count; i++) {
    CAPTURE(to_string(static_cast<affine_reason>(i)));
    CHECK(affine.count(static_cast<affine_reason>(i)) == 1);
  }
}

TEST_CASE("wake: every value of every placement setting decides something") {
  // What must be said beside a setting for it to matter.
  const std::map<std::string, std::string, std::less<>> company{
      {"wa_throttle_on", "wa_throttle_ns=1s"},
      {"wa_idle_prefer_prev", "wake_affine=on"},
      {"flip_decay_mode", "flip_decay_ns=1us"},
      {"wake_idle_levels", "balance_wake=always"},
      {"slow_form", "balance_wake=always,wake_idle_levels=all"},
      {"idle_core_id", "sis=v513"},
      {"wake_cap", "wake_affine=on"},
  };
  // Numbers: two values to tell apart.
  const std::map<std::string, std::pair<std::string, std::string>, std::less<>> numbers{
      {"wa_burst_ns", {"0", "10us"}},        {"wa_throttle_ns", {"0", "1s"}},
      {"wake_wide_min_factor", {"1", "16"}}, {"flip_decay_ns", {"1us", "1000s"}},
      {"imbalance_pct_llc", {"100", "300"}}, {"imbalance_pct_numa", {"100", "300"}},
      {"imbalance_pct_smt", {"100", "300"}},
  };
  // Kept by idle_marks, with tests of their own there; or by the mechanism.
  const std::set<std::string, std::less<>> elsewhere{"idle_mark", "busy_mark", "nr_busy_mode", "avg_idle_form",
                                                     "fork_path", "sync_hint", "remote_inbox"};

  std::vector<std::unique_ptr<world>> worlds;
  for (const char* spec :
       {"pack:2 core:3 pu:2", "pack:2 [numa] l3:2 l2:2 core:2 pu:2", "pack:2 [numa] core:40 pu:2", "2n40"})
    worlds.push_back(std::make_unique<world>(spec));
  topology unequal = machine_of("pack:2 core:3 pu:2");
  for (size_t i = 0; i < 6; i++) unequal.cpus[i].capacity = 400;
  worlds.push_back(std::make_unique<world>(std::move(unequal)));
  topology far = machine_of("pack:2 [numa] core:2 pu:2");
  far.distances = {{10, 40}, {40, 10}};
  worlds.push_back(std::make_unique<world>(std::move(far)));

  const auto parsed = [](const std::string& list) {
    settings_list l;
    REQUIRE(l.add(settings_source::option, list) == "");
    return l.resolve().values;
  };
  for (const setting_row& row : setting_rows()) {
    const bool placement_row = row.section[0] == '3' || row.section[0] == '4' || row.section[0] == '5' ||
                               row.section[0] == '6' || numbers.count(row.name) != 0 || row.name == "load_metric";
    if (!placement_row || elsewhere.count(row.name) != 0) continue;
    std::vector<std::string> values = row.values;
    if (row.kind == setting_kind::toggle) values = {"off", "on"};
    if (row.kind == setting_kind::number)
      values = {numbers.at(std::string(row.name)).first, numbers.at(std::string(row.name)).second};
    const auto with = company.find(row.name);
    const std::string base = with != company.end() ? with->second + "," : "";

    // Each value against its neighbour in the list: on at least two boards the placement differs.
    for (size_t k = 1; k < values.size(); k++) {
      const settings one = parsed(base + std::string(row.name) + "=" + values[k - 1]);
      const settings two = parsed(base + std::string(row.name) + "=" + values[k]);
      rng chance(heddle_test::seed() + k);
      int differ = 0;
      for (int i = 0; i < 40'000 && differ < 2; i++) {
        world& in = *worlds[chance.below(worlds.size())];
        in.set = one;
        in.draw(chance);
        drawn_wakeup d = draw_wakeup(in, chance);
        // Throttles and hints are remembered: the second question finds what the first one left.
        const auto twice = [&](const settings& s) {
          in.set = s;
          in.settle_hints();
          drawn_wakeup copy = d;
          copy.w.memory = &copy.wakee;
          copy.w.waker_memory = d.w.waker_memory != nullptr ? &copy.waker : nullptr;
          copy.w.allowed = d.w.allowed != nullptr ? &copy.allowed : nullptr;
          copy.wakee.affine_blocked_until_ns = 0;
          const placement first = in.place(copy.w);
          copy.w.now += nanos{1'000};
          const placement second = in.place(copy.w);
          return std::pair{first, second};
        };
        const auto a = twice(one);
        const auto b = twice(two);
        if (!same(a.first, b.first) || !same(a.second, b.second)) differ++;
      }
      CAPTURE(row.name);
      CAPTURE(values[k - 1]);
      CAPTURE(values[k]);
      CHECK(differ == 2);
    }
  }
}

TEST_CASE("wake: a wakee whose affinity changed while it slept goes to the nearest allowed CPU") {
  world in("pack:2 core:2 pu:2");
  in.all_busy();
  const cpu_set allowed{3, 6};
  CHECK(in.place({.prev = cpu(0), .waker = cpu(7), .allowed = &allowed}).cpu == cpu(3));
  in.idles(cpu(6));
  CHECK(in.place({.prev = cpu(0), .waker = cpu(7), .allowed = &allowed}).cpu == cpu(3));
  CHECK(in.place({.prev = cpu(5), .waker = cpu(7), .allowed = &allowed}).cpu == cpu(6));
}

TEST_CASE("wake: wide relations stay at prev, and look beyond the LLC only if told") {
  world in("pack:2 core:2 pu:1");
  in.all_busy();
  in.idles(cpu(0));
  wake_memory waker{.flips = 100}, wakee{.flips = 10};
  waker.flip_stamp_ns = wakee.flip_stamp_ns = 1;
  const wakeup w{.prev = cpu(1),
                 .waker = cpu(2),
                 .load = {1024, 10, 10},
                 .memory = &wakee,
                 .waker_memory = &waker,
                 .now = nanos{1}};
  CHECK(in.place(w).wide);
  CHECK(in.place(w).cpu == cpu(0));
  in.busy(cpu(0));
  CHECK(in.place(w).reason == wake_reason::wake_miss);
  in.idles(cpu(3));
  in.set.wake_wide_idle = wake_wide_idle_t::dispatcher;  // the waker is the dispatcher here, not the wakee
  CHECK(in.place(w).cpu == cpu(1));
  in.set.wake_wide_idle = wake_wide_idle_t::both;
  CHECK(in.place(w).reason == wake_reason::wake_wide);
  CHECK(in.place(w).cpu == cpu(3));
  in.busy(cpu(3));  // nothing idle anywhere: prev, not the least loaded
  CHECK(in.place(w).cpu == cpu(1));
  CHECK(in.place(w).slow);
}

TEST_CASE("wake: F03, the LLC's border, and what crosses it") {
  world in("pack:2 core:4 pu:1");
  for (size_t i = 0; i < 4; i++) in.busy(cpu(i), 2, 2048);
  for (size_t i = 4; i < 8; i++) in.idles(cpu(i));
  const wakeup w{.prev = cpu(1), .waker = cpu(0), .sync = true};
  CHECK(in.place(w).reason == wake_reason::wake_miss);  // the gap that the default form shows
  in.set.sis_extend = sis_extend_t::all;
  CHECK(in.place(w).reason == wake_reason::wake_extend);
  in.set.sis_extend = sis_extend_t::llc;
  in.set.balance_wake = balance_wake_t::after_miss;
  in.set.wake_idle_levels = wake_idle_levels_t::all;
  CHECK(in.place(w).reason == wake_reason::wake_slow);
  CHECK(in.state.idle(in.place(w).cpu));
}

TEST_CASE("wake: F05 P-HERD, claims make a herd spread over all idle CPUs") {
  for (const char* spec : {"pack:1 core:8 pu:1", "pack:1 core:4 pu:2", "pack:1 core:200 pu:1"}) {
    world in(spec);
    for (cpu_id c : in.machine.all()) in.idles(c);
    in.busy(cpu(0));
    in.settle_hints();
    in.set.sis_limit = sis_limit_t::none;
    std::set<cpu_id> taken;
    for (size_t i = 1; i < in.size(); i++) {
      const placement p = in.place({.prev = cpu(0), .waker = cpu(0)});
      CHECK(in.state.claim(p.cpu));
      CHECK(taken.insert(p.cpu).second);
    }
    CHECK(taken.size() == in.size() - 1);
  }
}

TEST_CASE("wake: who loses a claim searches again, and remembers and counts nothing twice") {
  world in("pack:1 core:4 pu:1");
  in.all_busy();
  in.idles(cpu(2));
  in.idles(cpu(3));
  wake_memory waker, wakee{.recent = cpu(1)};
  const wakeup w{.prev = cpu(0), .waker = cpu(1), .wakee = 5, .memory = &wakee, .waker_memory = &waker};
  const placement first = in.place(w);
  CHECK(first.cpu == cpu(2));
  CHECK(in.state.claim(first.cpu));  // somebody else's
  const wake_memory waker_then = waker, wakee_then = wakee;
  const placement second = search_again(in.machine, in.domains, in.state, in.set, w, first);
  CHECK(second.cpu == cpu(3));
  CHECK(second.affine == first.affine);
  CHECK(second.probes > first.probes);
  CHECK(waker.flips == waker_then.flips);
  CHECK(wakee.recent == wakee_then.recent);
}

TEST_CASE("wake: F08, timer wake-ups delivered anywhere keep an idle prev") {
  world in("pack:2 core:4 pu:1");
  for (cpu_id c : in.machine.all()) in.idles(c);
  for (size_t prev = 0; prev < 4; prev++)
    for (size_t at = 0; at < 4; at++) CHECK(in.place({.prev = cpu(prev), .waker = cpu(at)}).cpu == cpu(prev));
}

TEST_CASE("wake: deferral asks about the waker's CPU, affinity and segment only") {
  const topology m = machine_of("pack:2 core:2 pu:1");
  settings s;
  const nanos shortly{100};
  CHECK(defers(s, m, cpu(0), cpu(0), nullptr, shortly));
  CHECK(defers(s, m, cpu(0), cpu(1), nullptr, shortly));
  CHECK(defers(s, m, cpu(0), cpu(2), nullptr, shortly));  // another cache, but near enough for wake_affine
  topology far = m;
  for (auto& row : far.distances) std::fill(row.begin(), row.end(), 40);
  CHECK(!defers(s, far, cpu(0), cpu(2), nullptr, shortly));
  CHECK(defers(s, m, cpu(0), cpu(0), nullptr, nanos{s.defer_max_ns}));
  CHECK(!defers(s, m, cpu(0), cpu(0), nullptr, nanos{s.defer_max_ns + 1}));
  const cpu_set elsewhere{1};
  CHECK(!defers(s, m, cpu(0), cpu(1), &elsewhere, shortly));
  s.wake_affine = false;
  CHECK(defers(s, m, cpu(0), cpu(0), nullptr, shortly));
  CHECK(!defers(s, m, cpu(0), cpu(1), nullptr, shortly));
  s.wake_defer = false;
  CHECK(!defers(s, m, cpu(0), cpu(0), nullptr, shortly));
}

TEST_CASE("INV-WA2: a pull respects affinity: nobody is pulled to a waker's CPU that is not allowed") {
  rng chance(heddle_test::seed());
  int pulled = 0, refused = 0;
  for (int i = 0; i < 30'000; i++) {
    world in(i % 2 == 0 ? "pack:2 core:2 pu:2" : "pack:2 core:3 pu:1");
    in.set.wa_form = chance.below(3) == 0 ? wa_form_t::v39 : wa_form_t::v414;
    in.set.wa_idler_llc = in.set.idle_core_id = chance.below(4) == 0;
    in.set.sis = sis_t::off;  // the pull's answer as it is
    in.draw(chance);
    const drawn_wakeup d = draw_wakeup(in, chance);
    if (!valid(d.w.waker) || d.w.waker == d.w.prev) continue;
    const placement p = d.ask(in);
    if (d.w.allowed == nullptr || d.allowed.has(d.w.waker)) {
      pulled += p.cpu == d.w.waker;
      continue;
    }
    REQUIRE(p.cpu != d.w.waker);
    REQUIRE(d.allowed.has(p.cpu));
    REQUIRE(p.affine == affine_reason::wa_none);  // not even weighed
    refused++;
  }
  CHECK(pulled > 1000);
  CHECK(refused > 500);
}

TEST_CASE("INV-S6: of concurrent wakers one has an idle worker, as often as it becomes free") {
  world in("pack:1 core:2 pu:1");
  constexpr int rounds = 2'000, wakers = 3;
  std::atomic<int> round{0}, ready{0};
  std::vector<std::vector<char>> won(wakers, std::vector<char>(rounds));
  std::vector<std::thread> threads;
  for (int who = 0; who < wakers; who++)
    threads.emplace_back([&, who] {
      for (int r = 0; r < rounds; r++) {
        while (round.load(std::memory_order_acquire) <= r) std::this_thread::yield();
        won[static_cast<size_t>(who)][static_cast<size_t>(r)] = in.state.claim(cpu(1));
        ready.fetch_add(1, std::memory_order_acq_rel);
      }
    });
  for (int r = 0; r < rounds; r++) {
    in.idles(cpu(1));  // takes back `pending`, as its owner does with the inbox
    ready.store(0, std::memory_order_relaxed);
    round.store(r + 1, std::memory_order_release);
    while (ready.load(std::memory_order_acquire) < wakers) std::this_thread::yield();
  }
  for (std::thread& t : threads) t.join();
  for (size_t r = 0; r < rounds; r++) REQUIRE(won[0][r] + won[1][r] + won[2][r] == 1);
}
