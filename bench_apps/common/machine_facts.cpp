#include "bench_apps/common/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "affinity/discover.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench {
namespace {

// Two machines with one hash have the same shape: who shares what with whom, under which OS ids.
uint64_t hash_of(const core::topology& t) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto mix = [&hash](int value) { hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u; };
  for (const auto& cpu : t.cpus)
    for (const int value : {cpu.os_id, cpu.core, cpu.cluster, cpu.llc, cpu.node, cpu.package, cpu.capacity}) mix(value);
  for (const auto& row : t.distances)
    for (const int value : row) mix(value);
  return hash;
}

machine_facts facts(const core::topology& t) {
  machine_facts out{.machine = t, .record = {}, .llc_of_cpu = {}};
  size_t smt = 1;
  for (const auto& core : t.cores) smt = std::max(smt, core.count());
  out.record = {{"name", t.name},
                {"cpu_count", t.cpu_count()},
                {"core_count", t.cores.size()},
                {"llc_count", t.llcs.size()},
                {"node_count", t.nodes.size()},
                {"smt", smt},
                {"hash", fmt::format("{:016x}", hash_of(t))}};
  for (const auto& cpu : t.cpus) {
    const auto at = static_cast<size_t>(cpu.os_id);
    if (at >= out.llc_of_cpu.size()) out.llc_of_cpu.resize(at + 1, -1);
    out.llc_of_cpu[at] = cpu.llc;
  }
  return out;
}

}  // namespace

const machine_facts& facts_of(const std::string& machine) {
  static std::mutex mutex;
  static std::map<std::string, machine_facts> known;
  std::scoped_lock lock(mutex);
  if (const auto at = known.find(machine); at != known.end()) return at->second;
  const auto loaded = core::load_machine(machine);
  if (!loaded.machine) throw usage_error("--machine: " + loaded.error);
  return known.emplace(machine, facts(*loaded.machine)).first->second;
}

}  // namespace heddle::bench
