#include "bench_apps/commands/topo.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "affinity/capabilities.h"
#include "affinity/discover.h"
#include "affinity/domains.h"
#include "affinity/limits.h"
#include "affinity/machines.h"
#include "bench_apps/commands/topo_text.h"
#include "bench_apps/common/common_options.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench {
namespace {

using core::cpu_id;
using core::cpu_set;
using core::topology;
using json = nlohmann::ordered_json;

struct wishes {
  bool domains = false;
  bool caps = false;
  bool json = false;
  bool list = false;
};

// All that topo knows once it has looked.
struct view {
  topology machine;  // the CPUs that may be used
  topology used;     // those with a worker: what domains are built over
  core::worker_choice choice;
  core::process_limits limits;
};

std::optional<int> wanted_workers(const std::string& text, const std::string& source, size_t available) {
  if (text == "auto") return std::nullopt;
  int count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc{} || end != text.data() + text.size())
    throw usage_error(fmt::format("{}: '{}' is not auto or 1..{}", source, text, available));
  return count;
}

view look(const arguments& args, const common_options& options) {
  core::loaded_machine found = core::load_machine(options.machine);
  if (!found.machine) throw usage_error((options.on_host() ? "" : "--machine: ") + found.error);
  const topology& machine = *found.machine;

  view v;
  if (machine.this_system) v.limits = core::read_limits();
  core::worker_request request;
  request.cpus = options.cpus;
  if (!args.given("--workers")) request.workers_source = "HEDDLE_WORKERS";
  if (!args.given("--cpus")) request.cpus_source = "HEDDLE_CPUS";
  request.workers = wanted_workers(options.workers, request.workers_source, machine.cpu_count());
  v.choice = core::choose_workers(machine, request, v.limits);
  if (!v.choice.error.empty()) throw usage_error(v.choice.error);
  v.machine = core::restricted(machine, v.choice.allowed);
  v.used = core::restricted(machine, v.choice.chosen);
  return v;
}

json lists(const topology& machine, const std::vector<cpu_set>& partition) {
  json all = json::array();
  for (const cpu_set& s : partition) all.push_back(machine.list(s));
  return all;
}

json domains_json(const topology& machine) {
  const core::domain_tree tree(machine);
  json all = json::array();
  for (const cpu_id c : machine.all())
    for (const core::sched_domain& d : tree.chain(c))
      all.push_back(
          {{"cpu", machine.os_id(c)}, {"level", core::to_string(d.level())}, {"span", machine.list(d.span())}});
  return all;
}

json capabilities_json() {
  json all = json::object();
  for (const core::capability& c : core::probe_capabilities()) {
    if (!c.is_limit)
      all[c.name] = c.available;
    else if (c.value)
      all[c.name] = *c.value;
    else
      all[c.name] = c.available ? json("unlimited") : json(nullptr);
  }
  return all;
}

json to_json(const view& v, const wishes& want) {
  const topology& m = v.machine;
  json caches = json::array();
  for (const topology::cache& c : m.llc_caches)
    caches.push_back({{"level", c.level == 0 ? json(nullptr) : json(c.level)}, {"bytes", c.bytes}});
  json kinds = json::array();
  for (const cpu_id c : m.all()) kinds.push_back(m.at(c).capacity);
  json out = {{"machine", m.name},
              {"this_system", m.this_system},
              {"workers", v.used.cpu_count()},
              {"workers_reason", v.choice.reason},
              {"worker_cpus", v.used.list(v.used.all())},
              {"cpus", m.list(m.all())},
              {"smt", lists(m, m.cores)},
              {"clusters", lists(m, m.clusters)},
              {"llcs", lists(m, m.llcs)},
              {"llc_caches", caches},
              {"nodes", lists(m, m.nodes)},
              {"node_ids", m.node_os_ids},
              {"distances", m.distances},
              {"packages", lists(m, m.packages)},
              {"capacities", kinds},
              {"offline_count", m.offline_count},
              {"forbidden_count", m.forbidden_count},
              {"hash", m.hash()}};
  if (want.domains) out["domains"] = domains_json(v.used);
  if (want.caps) out["capabilities"] = capabilities_json();
  return out;
}

std::string capabilities_text() {
  std::string out = "capabilities\n";
  for (const core::capability& c : core::probe_capabilities()) {
    const std::string value = c.value                     ? std::to_string(*c.value)
                              : c.is_limit && c.available ? "unlimited"
                              : c.available               ? "yes"
                                                          : "no";
    out += fmt::format("  {:<29} {:<12} {}\n", c.name, value, c.note);
  }
  return out;
}

std::string to_text(const view& v, const wishes& want) {
  const topology& m = v.machine;
  std::string out = fmt::format("{}: {}\n", m.name, summary_of(m));
  if (!m.this_system) out = "not this system: no thread is ever bound by it\n" + out;
  out += "\n" + drawing_of(m) + distances_of(m) + "\n";
  if (m.offline_count > 0) out += fmt::format("offline: {}\n", m.offline_count);
  if (m.forbidden_count > 0) out += fmt::format("forbidden by a cpuset: {}\n", m.forbidden_count);
  if (!v.limits.isolated.empty()) out += fmt::format("isolated: {}\n", v.limits.isolated);
  if (!v.limits.nohz_full.empty()) out += fmt::format("nohz_full: {}\n", v.limits.nohz_full);
  out += fmt::format("workers: {} on CPU{} {} ({})\n", v.used.cpu_count(), v.used.cpu_count() == 1 ? "" : "s",
                     v.used.list(v.used.all()), v.choice.reason);
  if (want.domains) out += "\n" + domains_of(v.used, core::domain_tree(v.used));
  if (want.caps) out += "\n" + capabilities_text();
  return out;
}

std::string machine_list(bool as_json) {
  json all = json::array();
  std::string text;
  for (const core::named_machine& m : core::named_machines()) {
    all.push_back({{"name", m.name}, {"meaning", m.meaning}});
    text += fmt::format("{:<8} {}\n", m.name, m.meaning);
  }
  return as_json ? all.dump(2) + "\n" : text;
}

}  // namespace

int run_topo(const invocation& typed) {
  arguments args("topo", topo_command.summary);
  common_options options;
  wishes want;
  args.flag("--domains", want.domains, "scheduling domains of the workers' CPUs");
  args.flag("--caps", want.caps, "what the system allows: io_uring, limits, pinning, membarrier; each is tried");
  args.flag("--json", want.json, "as JSON");
  args.flag("--list", want.list, "names of the built-in machines");
  declare_common(args, options, {.machine = true, .settings = false, .runs = false});
  if (!parse_command(args, typed, options)) return exit_done;

  std::string out;
  if (want.list) {
    out = machine_list(want.json);
  } else {
    const view v = look(args, options);
    out = want.json ? to_json(v, want).dump(2) + "\n" : to_text(v, want);
  }
  std::fputs(out.c_str(), stdout);
  return exit_done;
}

}  // namespace heddle::bench
