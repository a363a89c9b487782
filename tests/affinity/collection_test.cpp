// The collection of 99 machines that lies beside the repository (../shared/topologies, or $HEDDLE_SHARED/topologies):
// every entry is loaded the way its `load` says and compared with its expectation. Skipped where the collection is
// absent; discover_test.cpp has small inputs of our own for the same traps.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "affinity/discover.h"
#include "affinity/domains.h"
#include "tests/affinity/domain_checks.h"

namespace {

using namespace heddle::core;
using nlohmann::json;
namespace fs = std::filesystem;
using lists = std::set<std::string>;

fs::path collection() {
  if (const char* shared = std::getenv("HEDDLE_SHARED")) return fs::path(shared) / "topologies";
  // Beside the repository; a worktree lies one level deeper.
  for (const char* up : {"..", "../.."})
    if (const fs::path p = fs::path(HEDDLE_SOURCE_DIR) / up / "shared" / "topologies"; fs::exists(p)) return p;
  return {};
}

// Sets variables for one load and takes them away again.
class environment {
 public:
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  ~environment() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

// Where the archive's sys/ and proc/, or its pu* files, lie.
fs::path unpack(const fs::path& archive, const fs::path& into, const char* landmark) {
  fs::create_directories(into);
  const std::string command = "tar -xjf '" + archive.string() + "' -C '" + into.string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  if (fs::exists(into / landmark)) return into;
  for (const auto& e : fs::recursive_directory_iterator(into))
    if (e.path().filename() == landmark) return e.path().parent_path();
  return into;
}

lists as_lists(const topology& machine, const std::vector<cpu_set>& partition) {
  lists out;
  for (const cpu_set& s : partition) out.insert(machine.list(s));
  return out;
}

lists as_lists(const json& expected) {
  lists out;
  for (const json& s : expected) out.insert(s.get<std::string>());
  return out;
}

// The distinct domain levels, as expected.json names them: per level name and size order, over all CPUs. NUMA levels
// are compared by spans below.
bool level_is_there(const topology& machine, const domain_tree& tree, const lists& sets) {
  for (const std::string& text : sets) {
    std::string error;
    const cpu_set span = parse_cpu_list(machine, text, error);
    if (span.count() < 2) continue;
    for (cpu_id c : span) {
      bool found = false;
      for (const sched_domain& d : tree.chain(c)) found = found || d.span() == span;
      if (!found) return false;
    }
  }
  return true;
}

void compare(const json& e, const topology& machine) {
  CHECK(machine.list(machine.all()) == e["cpus"].get<std::string>());
  CHECK_FALSE(machine.this_system);
  CHECK(as_lists(machine, machine.cores) == as_lists(e["smt"]));
  CHECK(as_lists(machine, machine.llcs) == as_lists(e["llc_clipped"]));
  CHECK(as_lists(machine, machine.nodes) == as_lists(e["node"]));
  // One entry names the whole machine as the package of CPUs that have none. That is no partition; ours says: those
  // CPUs.
  lists packages = as_lists(e["package"]);
  if (e["name"] == "40intel64-4n10c_pci-conflicts") {
    CHECK(packages.erase("0-39") == 1);
    packages.insert("3,7,11,15,19,23,27,31,35,39");
  }
  CHECK(as_lists(machine, machine.packages) == packages);

  std::set<int> levels;
  for (const topology::cache& c : machine.llc_caches) levels.insert(c.level);
  std::set<int> levels_expected;
  const std::string source = e["llc_source"];
  for (size_t at = 0; at < source.size();
       at = source.find(',', at) == source.npos ? source.size() : source.find(',', at) + 1)
    levels_expected.insert(source[at] == 'L' ? source[at + 1] - '0' : 0);
  CHECK(levels == levels_expected);

  // L2: a cluster, unless it is the last cache or no wider than a core.
  if (e.contains("l2")) {
    lists known = as_lists(machine, machine.clusters);
    for (const cpu_set& s : machine.llcs) known.insert(machine.list(s));
    for (const std::string& l2 : as_lists(e["l2"])) CHECK_MESSAGE(known.count(l2) == 1, l2);
  }

  const domain_tree tree(machine);
  heddle_test::check_domain_invariants(machine, tree);
  std::map<std::string, lists> sets{{"smt", as_lists(e["smt"])},
                                    {"l2", e.contains("l2") ? as_lists(e["l2"]) : lists{}},
                                    {"llc", as_lists(e["llc_clipped"])},
                                    {"node", as_lists(e["node"])},
                                    {"package", packages},
                                    {"machine", {e["cpus"].get<std::string>()}}};
  for (const json& level : e["levels"]) {
    CAPTURE(level.get<std::string>());
    // Package 0-11 holds CPUs 4-7, which have no memory node and so no distance, while the distances of its others say
    // that 0-3 and 8-11 come first and then parts of the other package: no chain has both. Ours follows the distances.
    if (e["name"] == "fakeheterocpunuma" && level == "package") continue;
    CHECK(level_is_there(machine, tree, sets[level]));
  }
  // And no other below NUMA: a set of a level, or of a level that is degenerate for some of its CPUs only.
  lists known;
  for (const auto& [name, members] : sets) known.insert(members.begin(), members.end());
  for (const auto& span : tree.spans())
    if (!(span->flags & df_numa)) CHECK_MESSAGE(known.count(machine.list(span->span)) == 1, machine.list(span->span));

  const json& matrix = e["distances"];
  if (!matrix.is_null()) {
    const std::vector<int> order = matrix["nodes"];
    std::map<int, size_t> row;
    for (size_t i = 0; i < order.size(); i++) row[order[i]] = i;
    for (size_t i = 0; i < machine.nodes.size(); i++)
      for (size_t j = 0; j < machine.nodes.size(); j++)
        if (row.count(machine.node_os_ids[i]) && row.count(machine.node_os_ids[j]))
          CHECK(machine.distances[i][j] == matrix["matrix"][row[machine.node_os_ids[i]]][row[machine.node_os_ids[j]]]);
    // Each node's span at each distance is a domain of its CPUs, or equals a narrower one.
    for (const json& level : e["numa_levels"])
      for (size_t i = 0; i < machine.nodes.size(); i++) {
        if (!row.count(machine.node_os_ids[i])) continue;
        const std::string text = level["spans"][row[machine.node_os_ids[i]]];
        if (text.empty()) continue;
        std::string error;
        const cpu_set span = parse_cpu_list(machine, text, error);
        const cpu_id member = machine.nodes[i].lowest();
        if (span.count() < 2) continue;
        bool found = false;
        for (const sched_domain& d : tree.chain(member)) found = found || d.span() == span;
        CHECK_MESSAGE(found, "distance " << level["distance"].get<int>() << " span " << text);
      }
  }

  // What the guest's own kernel built, CPU by CPU.
  if (e.contains("kernel_domains"))
    for (const auto& [os_id, spans] : e["kernel_domains"].items()) {
      std::vector<std::string> ours;
      for (const sched_domain& d : tree.chain(machine.find_os(std::stoi(os_id))))
        ours.push_back(machine.list(d.span()));
      std::vector<std::string> kernel = spans;
      // That kernel knows a node without memory, hwloc does not: its CPUs 6-7 are nearest to 4-5 there.
      if (e["name"] == "vm-odd-nodes-8" && std::stoi(os_id) >= 4)
        kernel = std::stoi(os_id) < 6 ? std::vector<std::string>{"4-5", "0-5", "0-7"}
                                      : std::vector<std::string>{"6-7", "0-7"};
      CHECK_MESSAGE(ours == kernel, "CPU " << os_id);
    }

  // Kinds: the CPUs of each ranked kind are those of one of ours.
  std::vector<cpu_set> kinds;
  for (cpu_id c : machine.all()) {
    const size_t kind = static_cast<size_t>(machine.at(c).kind);
    if (kinds.size() <= kind) kinds.resize(kind + 1);
    kinds[kind].add(c);
  }
  const bool ranked = e["cpukinds"].size() > 1 && e["cpukinds"][0]["efficiency"] >= 0;
  if (ranked) {
    lists expected;
    for (const json& k : e["cpukinds"]) expected.insert(k["cpus"].get<std::string>());
    lists found = as_lists(machine, kinds);
    found.erase("");
    CHECK(found == expected);
  }
}

}  // namespace

TEST_CASE("collection: every machine of the collection is seen as expected") {
  const fs::path root = collection();
  if (root.empty() || !fs::exists(root / "expected.json")) {
    std::printf("skipped: no ../shared/topologies beside the repository (or HEDDLE_SHARED)\n");
    return;
  }
  std::ifstream file(root / "expected.json");
  const json all = json::parse(file);
  CHECK(all.size() == 99);
  const fs::path scratch = fs::temp_directory_path() / ("heddle_collection_" + std::to_string(::getpid()));

  for (const json& e : all) {
    const std::string name = e["name"];
    CAPTURE(name);
    const json& how = e["load"];
    loaded_machine loaded;
    environment env;
    if (how.contains("HWLOC_XMLFILE")) {
      loaded = load_machine((root / how["HWLOC_XMLFILE"].get<std::string>()).string());
    } else if (how.contains("HWLOC_SYNTHETIC")) {
      loaded = load_machine(how["HWLOC_SYNTHETIC"].get<std::string>());
    } else {
      const bool cpuid = how.contains("HWLOC_CPUID_PATH");
      const fs::path at = unpack(root / e["file"].get<std::string>(), scratch / name, cpuid ? "pu0" : "sys");
      for (const auto& [variable, value] : how.items()) env.set(variable, value.get<std::string>());
      env.set(cpuid ? "HWLOC_CPUID_PATH" : "HWLOC_FSROOT", at.string());
      loaded = load_machine("host");
    }
    REQUIRE_MESSAGE(loaded.machine, loaded.error);
    compare(e, *loaded.machine);
  }
  fs::remove_all(scratch);
}
