// Every setting of balance, stealing, load and picking decides something: for each row a history whose outcome differs between
// its values. Placement settings have theirs in tests/affinity/wake_test.cpp. A row without a history here is a failure.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "balancer/detach.h"
#include "balancer/fair.h"
#include "balancer/newidle.h"
#include "balancer/nohz.h"
#include "balancer/periodic.h"
#include "balancer/pick.h"
#include "balancer/util_est.h"
#include "balancer/victims.h"
#include "runtime/base/settings_list.h"
#include "tests/balancer/lab.h"

namespace {
using namespace heddle::core;
using heddle_test::lab;

constexpr int64_t second = 1'000'000'000;

std::string text(const balance_plan& p) {
  return std::string(to_string(p.reason)) + " " + std::to_string(static_cast<int>(p.from)) + " " +
         std::string(to_string(p.kind)) + " " + std::to_string(p.amount) + " " + std::to_string(p.at_most) +
         (p.hot_may_move ? " hot" : "");
}

// The answers of all levels to one balance or newidle pass of CPU 0.
std::string periodic(lab& l, puller how, int64_t now = second, uint32_t failed = 0) {
  balance_state s(l.tree, l.set, to_cpu(0), nanos{0});
  for (level_state& level : s.levels) level.nr_failed = failed;
  std::string all;
  for (balance_plan p = balance_tick(l.world(), s, to_cpu(0), how, nanos{now}); !p.over();
       p = balance_tick(l.world(), s, to_cpu(0), how, nanos{now})) {
    all += text(p) + "; ";
    if (p.pull())
      all += text(report(l.world(), s, to_cpu(0), p, {.left = p.amount, .offered = 1, .hot = 1}, nanos{now})) + "; ";
  }
  return all + std::to_string(s.next_balance.count());
}

std::string newidle(lab& l, balance_state& s, uint64_t random = 0, int64_t now = second) {
  std::string all;
  balance_plan p = newidle_next(l.world(), s, to_cpu(0), nanos{now}, random);
  while (true) {
    all += text(p) + "; ";
    if (p.over()) return all;
    p = p.pull() ? newidle_report(l.world(), s, to_cpu(0), p, {.offered = 1, .hot = 1}, nanos{now}, random)
                 : newidle_next(l.world(), s, to_cpu(0), nanos{now}, random);
  }
}

constexpr const char* two_llcs = "pack:2 core:4 pu:2";
constexpr const char* two_nodes = "pack:2 [numa] core:4 pu:2";

// A busy machine in which CPU 0 idles.
void uneven(lab& l) {
  for (int cpu = 1; cpu < 16; cpu++) l.put(cpu, cpu % 5 == 0 ? 5 : 1 + static_cast<uint32_t>(cpu) % 3);
  l.put(0, 0);
  l.shared.overloaded.store(true, relaxed);
}

std::string uneven_newidle(const settings& set, const std::function<void(lab&, balance_state&)>& prepare = {},
                           uint64_t random = 0) {
  lab l(two_nodes);
  l.set = set;
  uneven(l);
  balance_state s(l.tree, l.set, to_cpu(0), nanos{0});
  if (prepare) prepare(l, s);
  return newidle(l, s, random);
}

std::string uneven_periodic(const settings& set, puller how, uint32_t failed = 0) {
  lab l(two_nodes);
  l.set = set;
  uneven(l);
  if (how == puller::busy) l.put(0, 1);
  return periodic(l, how, second, failed);
}

std::string candidates(const settings& set, const balance_plan& plan, const candidate& f, uint32_t count) {
  static const cpu_set group{0, 1};
  detach_pass pass(set, plan, group, count + 1, nanos{second});
  std::string all;
  for (uint32_t i = 0; i < count; i++) {
    all += std::string(to_string(pass.consider(f))) + " ";
    if (pass.pause_due()) all += "pause ";
  }
  return all;
}

balance_plan pull_of(pull_kind kind, uint64_t amount) {
  return {.from = to_cpu(2), .to = to_cpu(0), .amount = amount, .at_most = 1000, .kind = kind, .how = puller::busy};
}

std::string constants(const settings& set, size_t level) {
  lab l(two_nodes);
  const level_constants c = constants_of(l.chain(0)[level], set);
  return std::to_string(c.imbalance_pct) + " " + std::to_string(c.cache_nice_tries);
}

std::string intervals(const settings& set) {
  std::string all;
  for (bool busy : {false, true})
    for (uint64_t base : {1, 64, 100'000}) all += std::to_string(interval_of(base, busy, 16, set).count()) + " ";
  return all;
}

std::string kick(const settings& set) {
  lab l(two_llcs);
  l.set = set;
  l.put_all({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3});
  l.shared.has_blocked.store(true, relaxed);
  l.shared.nohz_next_ns.store(2 * second, relaxed);
  const nohz_kick age = nohz_choose(l.world(), to_cpu(10), nanos{second});
  l.shared.has_blocked.store(false, relaxed);
  const nohz_kick need = nohz_choose(l.world(), to_cpu(10), nanos{3 * second});
  return std::string(to_string(age.reason)) + std::string(to_string(need.reason)) +
         std::to_string(static_cast<int>(need.who));
}

std::string fair_history(const settings& set) {
  const fair_rules rules = fair_rules_of(set, 4);
  const fair_view queue{.min_v = 90'000'000, .mean_v = 100'000'000, .weight = 2048, .nr = 2};
  std::string all =
      std::to_string(slice_of(rules, 1024, 20'480, 20)) + " " + std::to_string(slice_of(rules, 1024, 2048, 2));
  fair_entity fresh, slept{.v = 1'000'000, .lag = 5'000, .fresh = false};
  place(rules, queue, fresh);
  place(rules, queue, slept);
  all += " " + std::to_string(fresh.v) + " " + std::to_string(slept.v) + " " + std::to_string(slept.deadline);
  const fair_entity running{.v = 99'999'999, .deadline = 200'000'000, .fresh = false};
  for (int64_t behind : {1'000, 50'000, 5'000'000, 90'000'000}) {
    const fair_entity wakee{.v = 99'999'999 - behind, .deadline = 150'000'000, .fresh = false};
    all += " " + std::string(to_string(wakeup_preempts(rules, queue, running, wakee)));
  }
  return all;
}

std::string picks(const settings& set) {
  const pick_rules rules = pick_rules_of(set);
  pick_state state;
  std::string all;
  for (int i = 0; i < 40; i++)
    all += std::to_string(
        static_cast<int>(pick_next(rules, state, {.injected = i % 2 == 0, .slot = true, .queue = true})));
  return all;
}

std::string loads(const settings& set) {
  lab l("pack:1 core:2 pu:1");
  board_row& row = l.state.row(to_cpu(1));
  heddle_test::weighs(row, 3);
  row.runnable_load.store(50'000, relaxed);
  row.load_avg.store(70'000, relaxed);
  return std::to_string(signals_of(l.machine, l.state, set, to_cpu(1), nanos{1'000'000}).load);
}

struct history {
  std::string beside;  // what else must be set
  std::function<std::string(const settings&)> outcome;
  std::string one, two;  // numbers: two values to tell apart
};

const std::map<std::string, history, std::less<>>& histories() {
  const auto idle_pass = [](const settings& s) { return uneven_periodic(s, puller::idle); };
  const auto search = [](const settings& s) { return uneven_newidle(s); };
  constexpr const char* open = "ni_gate=none,ni_domain_cost=off,ni_overload_gate=off,ni_random=off";
  const std::string searching = open;
  static const std::map<std::string, history, std::less<>> all{
      {"lb", {"", idle_pass, "", ""}},
      {"lb_form",
       {"prefer_sibling=off,load_metric=instant",
        [](const settings& set) {  // F01, and a group that 3.x takes nothing from
          lab l("pack:2 core:4 pu:1");
          l.set = set;
          l.put_all({1, 0, 0, 0, 2, 2, 2, 2});
          heddle_test::weighs(l.state.row(to_cpu(0)), 9537);
          return text(
              plan_balance(l.world(),
                           {.me = to_cpu(1), .level = l.chain(1).size() - 1, .how = puller::idle, .now = nanos{0}})
                  .plan);
        },
        "", ""}},
      {"lb_swb",
       {"",
        [](const settings& set) {  // 1 idles beside a busy sibling, core 1 idles whole
          lab l(two_llcs);
          l.set = set;
          l.put_all({1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
          for (size_t cpu : {1, 2})
            if (should_we_balance(l.world(), l.chain(1)[2], to_cpu(cpu), puller::idle)) return std::to_string(cpu);
          return std::string();
        },
        "", ""}},
      {"smt_ignore_foreign",
       {"",
        [](const settings& set) {  // of core 0 we may use one thread only
          lab l("pack:2 core:2 pu:2");
          l.set = set;
          l.put_all({0, 0, 0, 0, 1, 1, 1, 1});
          l.machine.cpus[0].foreign_sibling = l.machine.cpus[1].foreign_sibling = true;
          for (size_t cpu : {0, 2})
            if (should_we_balance(l.world(), l.chain(2)[2], to_cpu(cpu), puller::idle)) return std::to_string(cpu);
          return std::string();
        },
        "", ""}},
      {"util_est", {"", [](const settings& s) { return std::to_string(believed_util(s, 100, 700)); }, "", ""}},
      {"lb_serialize_numa",
       {"",
        [](const settings& set) {
          lab l(two_nodes);
          l.set = set;
          uneven(l);
          REQUIRE(l.shared.take_token(to_cpu(9)));
          return periodic(l, puller::idle);
        },
        "", ""}},
      {"prefer_sibling",
       {"",
        [](const settings& set) {
          lab l("pack:2 core:4 pu:1");
          l.set = set;
          l.put_all({0, 0, 0, 1, 1, 1, 1, 0});
          return periodic(l, puller::idle);
        },
        "", ""}},
      {"active_push",
       {"",
        [](const settings& set) {
          lab l("pack:1 core:2 pu:1");
          l.set = set;
          l.put_all({0, 2});
          return periodic(l, puller::idle, second, 10);
        },
        "", ""}},
      {"loop_break",
       {"", [](const settings& s) { return candidates(s, pull_of(pull_kind::task, 100), {}, 20); }, "4", "32"}},
      {"nr_migrate",
       {"", [](const settings& s) { return candidates(s, pull_of(pull_kind::task, 100), {}, 20); }, "4", "32"}},
      {"lb_min",
       {"", [](const settings& s) { return candidates(s, pull_of(pull_kind::load, 1000), {.load = 3}, 2); }, "", ""}},
      {"cache_hot_buddy",
       {"migration_cost_ns=0",
        [](const settings& s) { return candidates(s, pull_of(pull_kind::task, 9), {.buddy = true}, 2); }, "", ""}},
      {"migration_cost_ns",
       {"",
        [](const settings& s) {
          return candidates(s, pull_of(pull_kind::task, 9), {.last_ran = nanos{second - 50'000}}, 2);
        },
        "0", "100us"}},
      {"ilb", {"", kick, "", ""}},
      {"ilb_pick", {"", kick, "", ""}},
      {"blocked_decay", {"", kick, "", ""}},
      {"newidle", {"", search, "", ""}},
      {"ni_gate",
       {"ni_domain_cost=off,ni_overload_gate=off,ni_random=off,migration_cost_ns=1000",
        [](const settings& s) {  // above one gate, above the other, above both
          std::string out;
          for (auto [idle_ns, cost_ns] : {std::pair{500, 100}, std::pair{5'000, 10'000}})
            out += uneven_newidle(s, [idle = idle_ns, cost = cost_ns](lab& l, balance_state& state) {
              l.state.row(to_cpu(0)).avg_idle.store(idle, relaxed);
              state.levels[0].newidle.max_cost = nanos{cost};
              state.levels[0].newidle.cost_stamp = nanos{second};
            });
          return out;
        },
        "", ""}},
      {"ni_overload_gate",
       {"ni_gate=none,ni_random=off",
        [](const settings& s) {
          return uneven_newidle(s, [](lab& l, balance_state&) { l.shared.overloaded.store(false, relaxed); });
        },
        "", ""}},
      {"ni_domain_cost",
       {"ni_gate=none,ni_random=off",
        [](const settings& s) {
          return uneven_newidle(s, [](lab& l, balance_state& state) {
            l.state.row(to_cpu(0)).avg_idle.store(1'000, relaxed);
            for (level_state& level : state.levels) level.newidle.max_cost = nanos{900};
            state.levels[1].newidle.max_cost = nanos{5'000};
          });
        },
        "", ""}},
      {"ni_decay",
       {"",
        [](const settings& s) {
          newidle_level level{.max_cost = nanos{1'000'000}};
          decay_cost(level, nanos{100 * second}, s);
          return std::to_string(level.max_cost.count());
        },
        "", ""}},
      {"ni_decay_period_ns",
       {"",
        [](const settings& s) {
          newidle_level level{.max_cost = nanos{1'000'000}};
          return std::to_string(decay_cost(level, nanos{5'000'000}, s));
        },
        "1ms", "10ms"}},
      {"ni_bump",
       {"",
        [](const settings& s) {
          newidle_level level{.max_cost = nanos{1'000}};
          note_cost(level, nanos{900}, false, nanos{1}, s);
          return std::to_string(level.max_cost.count());
        },
        "", ""}},
      {"ni_cap_slack_ns",
       {"ni_bump=on,migration_cost_ns=1000",
        [](const settings& s) {
          newidle_level level{.max_cost = nanos{1'000}};
          note_cost(level, nanos{900}, false, nanos{1}, s);
          return std::to_string(level.max_cost.count());
        },
        "200", "300"}},
      {"ni_random",
       {"ni_gate=none,ni_domain_cost=off", [](const settings& s) { return uneven_newidle(s, {}, ~uint64_t{0}); }, "",
        ""}},
      {"ni_rate",
       {"ni_gate=none,ni_domain_cost=off,ni_random=on",
        [](const settings& s) {
          newidle_level level{.calls = 1023, .wins = 0};
          note_result(level, 0, nanos{second}, s);
          return std::to_string(admission_reward(level, 1000, s));
        },
        "", ""}},
      {"ni_rate_shift",
       {"ni_rate=on",
        [](const settings& s) {
          newidle_level level{.calls = 1023, .wins = 0};
          note_result(level, 0, nanos{second}, s);
          return std::to_string(level.ratio);
        },
        "22", "24"}},
      {"ni_target",
       {"ni_bump=on,ni_domain_cost=off,ni_overload_gate=off,ni_random=off",
        [](const settings& s) {
          return uneven_newidle(s, [&](lab& l, balance_state& state) {
            l.state.row(to_cpu(0)).avg_idle.store(2'000, relaxed);
            for (int i = 0; i < 10; i++) note_cost(state.levels[0].newidle, nanos{1'000}, false, nanos{second}, s);
            state.levels[0].newidle.max_cost = nanos{4'000};
          });
        },
        "", ""}},
      {"ni_spare",
       {searching,
        [](const settings& s) {
          return uneven_newidle(s, [](lab& l, balance_state&) { l.shared.set_crowded(l.chain(0)[1], false); });
        },
        "", ""}},
      {"ni_runnable",
       {searching,
        [](const settings& s) {
          return uneven_newidle(
              s, [](lab& l, balance_state&) { l.state.row(to_cpu(0)).runnable_avg.store(1020, relaxed); });
        },
        "", ""}},
      {"ni_max_level",
       {searching,
        [](const settings& s) {
          // Nobody has anything: every level that may be is searched.
          lab l("pack:2 [numa] l3:2 core:2 pu:2");
          l.set = s;
          balance_state state(l.tree, l.set, to_cpu(0), nanos{0});
          return newidle(l, state);
        },
        "", ""}},
      {"victims", {searching, search, "", ""}},
      {"steal_amount", {searching, search, "", ""}},
      {"imbalance_pct_smt", {"", [](const settings& s) { return constants(s, 0); }, "110", "150"}},
      {"imbalance_pct_llc", {"", [](const settings& s) { return constants(s, 1); }, "110", "150"}},
      {"imbalance_pct_numa", {"", [](const settings& s) { return constants(s, 2); }, "110", "150"}},
      {"cache_nice_tries_smt", {"", [](const settings& s) { return constants(s, 0); }, "0", "5"}},
      {"cache_nice_tries_llc", {"", [](const settings& s) { return constants(s, 1); }, "0", "5"}},
      {"cache_nice_tries_numa", {"", [](const settings& s) { return constants(s, 2); }, "0", "5"}},
      {"busy_factor", {"", intervals, "16", "64"}},
      {"balance_unit_ns", {"", intervals, "10us", "1ms"}},
      {"max_balance_interval_unit_ns", {"", intervals, "1ms", "100us"}},
      {"interval_minus_one", {"", intervals, "", ""}},
      {"tick_ns", {"", intervals, "10us", "20us"}},
      {"load_metric", {"", loads, "", ""}},
      {"pelt_shift", {"", loads, "3", "10"}},
      {"pick_slot", {"", picks, "", ""}},
      {"lifo_max", {"", picks, "1", "3"}},
      {"fair_interval", {"", picks, "5", "61"}},
      {"pick_order", {"", fair_history, "", ""}},
      {"base_slice_ns", {"pick_order=eevdf", fair_history, "10us", "20us"}},
      {"sched_latency_ns", {"pick_order=vruntime", fair_history, "60us", "90us"}},
      {"min_granularity_ns", {"pick_order=vruntime", fair_history, "7us", "9us"}},
      {"wakeup_gran_ns", {"pick_order=vruntime", fair_history, "10us", "1ms"}},
      {"tunable_scaling", {"pick_order=vruntime", fair_history, "", ""}},
      {"gentle_fair_sleepers", {"pick_order=vruntime", fair_history, "", ""}},
      {"start_debit", {"pick_order=vruntime", fair_history, "", ""}},
      {"place_lag", {"pick_order=eevdf", fair_history, "", ""}},
      {"run_to_parity", {"pick_order=eevdf", fair_history, "", ""}},
      {"wakeup_preemption", {"pick_order=vruntime", fair_history, "", ""}},
  };
  return all;
}

// What only the mechanism can show, or a policy beside the placement, and the test that does.
const std::map<std::string, std::string, std::less<>> shown_elsewhere{
    {"time_scale", "tests/base/settings_test.cpp"},
    {"topo_levels", "tests/affinity/domains_test.cpp"},
    {"numa_reclaim_distance", "tests/affinity/domains_test.cpp"},
    {"attach_age_load", "tests/balancer/pelt_test.cpp"},
    {"idle_mark", "tests/affinity/idle_marks_test.cpp"},
    {"busy_mark", "tests/affinity/idle_marks_test.cpp"},
    {"nr_busy_mode", "tests/affinity/idle_marks_test.cpp"},
    {"avg_idle_form", "tests/affinity/idle_marks_test.cpp"},
    {"slot_inherit", "tests/runtime/order_test.cpp"},
    {"idle_class", "tests/runtime/order_test.cpp"},
    {"preempt_hint", "tests/runtime/order_test.cpp"},
    {"slot_stealable", "tests/runtime/mechanism_settings_test.cpp"},
    {"last_buddy", "tests/runtime/mechanism_settings_test.cpp"},
    {"sync_hint", "tests/runtime/mechanism_settings_test.cpp"},
    {"fork_path", "tests/runtime/mechanism_settings_test.cpp"},
    {"accounting", "tests/runtime/mechanism_settings_test.cpp"},
    {"idle", "tests/runtime/mechanism_settings_test.cpp"},
    {"spin_ns", "tests/runtime/mechanism_settings_test.cpp"},
    {"announce_ns", "tests/runtime/mechanism_settings_test.cpp"},
    {"wake_defer", "tests/runtime/mechanism_settings_test.cpp"},
    {"wake_chain", "tests/runtime/mechanism_settings_test.cpp"},
    {"defer_max_ns", "tests/runtime/mechanism_settings_test.cpp"},
    {"claim_after_ns", "tests/runtime/mechanism_settings_test.cpp"},
    {"rescue_ns", "tests/runtime/mechanism_settings_test.cpp"},
    {"monitor", "tests/runtime/mechanism_settings_test.cpp"},
    {"stall_rescue", "tests/runtime/mechanism_settings_test.cpp"},
    {"stack_bytes", "tests/runtime/runtime_test.cpp"},
    {"io", "tests/runtime/io/io_test.cpp"},
    {"ring_entries", "tests/runtime/io/io_test.cpp"},
    {"preempt", "tests/runtime/preempt_test.cpp"},
    {"vm_resched_ns", "tests/runtime/preempt_test.cpp"},
    {"explore", "tests/runtime/machine/seeds_test.cpp"},
    {"noise", "tests/runtime/machine/faults_test.cpp"},
    {"burn_spread_pct", "tests/runtime/machine/faults_test.cpp"},
    {"fault_late_ns", "tests/runtime/machine/faults_test.cpp"},
    {"fault_spurious_pct", "tests/runtime/machine/faults_test.cpp"},
    {"fault_stuck_ns", "tests/runtime/machine/faults_test.cpp"},
    {"fault_stack", "tests/runtime/machine/faults_test.cpp"},
    {"fault_carrier", "tests/runtime/machine/faults_test.cpp"},
};
constexpr const char* shows_costs = "tests/runtime/machine/costs_test.cpp";

std::string text_of(const std::string& file) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// tests/affinity/wake_test.cpp walks these by itself ("every value of every placement setting decides something").
bool is_placement(const setting_row& row) {
  return std::string_view("3456").find(row.section[0]) != std::string_view::npos;
}

settings parsed(const std::string& list) {
  settings_list l;
  const std::string error = l.add(settings_source::option, list);
  REQUIRE_MESSAGE(error.empty(), error);
  return l.resolve().values;
}

}  // namespace

TEST_CASE("toggles: every value of every setting of balance, load and picking decides something") {
  for (const setting_row& row : setting_rows()) {
    CAPTURE(row.name);
    const bool ours = std::string_view("012789").find(row.section[0]) != std::string_view::npos;
    const bool mechanism = row.section.starts_with("2b");
    if (!ours || mechanism || shown_elsewhere.count(row.name) != 0) continue;
    const auto found = histories().find(row.name);
    REQUIRE_MESSAGE(found != histories().end(), "no history shows what it does");
    const history& h = found->second;
    std::vector<std::string> values = row.values;
    if (row.kind == setting_kind::toggle) values = {"off", "on"};
    if (row.kind == setting_kind::number) values = {h.one, h.two};
    std::set<std::string> outcomes;
    for (const std::string& value : values)
      outcomes.insert(
          h.outcome(parsed((h.beside.empty() ? "" : h.beside + ",") + std::string(row.name) + "=" + value)));
    CHECK(outcomes.size() == values.size());
  }
}

TEST_CASE("toggles: no setting is without a test that shows what it does") {
  for (const setting_row& row : setting_rows()) {
    CAPTURE(row.name);
    if (histories().count(row.name) != 0) continue;
    const auto elsewhere = shown_elsewhere.find(row.name);
    if (elsewhere == shown_elsewhere.end() && is_placement(row)) continue;
    const std::string file = elsewhere != shown_elsewhere.end() ? elsewhere->second
                             : row.section == "vm"              ? shows_costs
                                                                : "";
    REQUIRE_MESSAGE(!file.empty(), "no test is known to show what it does");
    REQUIRE_MESSAGE(text_of(file).find(row.name) != std::string::npos, file);
  }
}
