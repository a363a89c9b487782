#include "affinity/discover.h"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "affinity/machines.h"

namespace heddle::core {

namespace {

struct free_topology {
  void operator()(hwloc_topology_t t) const noexcept { hwloc_topology_destroy(t); }
};
using hwloc_handle = std::unique_ptr<hwloc_topology, free_topology>;

struct free_bitmap {
  void operator()(hwloc_bitmap_t b) const noexcept { hwloc_bitmap_free(b); }
};
using bitmap = std::unique_ptr<hwloc_bitmap_s, free_bitmap>;

// More than any machine has; a mistyped synthetic string must not eat all memory.
constexpr uint64_t synthetic_cpus_max = 65536;

int count_between(hwloc_const_bitmap_t all, hwloc_const_bitmap_t part) {
  const bitmap rest{hwloc_bitmap_alloc()};
  hwloc_bitmap_andnot(rest.get(), all, part);
  return hwloc_bitmap_weight(rest.get());
}

hwloc_obj_t outermost_cache(hwloc_obj_t pu) {
  hwloc_obj_t best = nullptr;
  for (hwloc_obj_t o = pu->parent; o != nullptr; o = o->parent)
    if (hwloc_obj_type_is_dcache(o->type)) best = o;
  return best;
}

// Small integers for whatever objects come along: equal objects, equal labels. Labels of one `labels` never collide, so
// that "the core" and "the CPU itself, having no core" may share a field.
class labels {
 public:
  int of(hwloc_obj_t object) { return numbers_.try_emplace(object, static_cast<int>(numbers_.size())).first->second; }

 private:
  std::map<hwloc_obj_t, int> numbers_;
};

// Nodes as the policies see them: CPUs with the same set of usable local memory nodes. Several memory nodes beside the
// same CPUs (HBM, persistent, CXL) are one; the one with the lowest number stands for them, which is the ordinary
// memory.
class node_labels {
 public:
  explicit node_labels(hwloc_topology_t t) : t_(t), usable_(hwloc_topology_get_allowed_nodeset(t)) {}

  int of(hwloc_obj_t pu) {
    const bitmap local{hwloc_bitmap_alloc()};
    hwloc_cpuset_to_nodeset(t_, pu->cpuset, local.get());
    hwloc_bitmap_and(local.get(), local.get(), usable_);
    for (size_t i = 0; i < sets_.size(); i++)
      if (hwloc_bitmap_isequal(sets_[i].get(), local.get())) return static_cast<int>(i);
    os_ids.push_back(hwloc_bitmap_first(local.get()));  // -1 where there is none
    sets_.emplace_back(hwloc_bitmap_dup(local.get()));
    return static_cast<int>(sets_.size()) - 1;
  }

  std::vector<int> os_ids;

 private:
  hwloc_topology_t t_;
  hwloc_const_nodeset_t usable_;
  std::vector<bitmap> sets_;
};

std::vector<std::vector<int>> read_distances(hwloc_topology_t t, const std::vector<int>& node_os_ids) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(t, HWLOC_OBJ_NUMANODE, &count, &matrix, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0 || matrix == nullptr)
    return {};
  std::vector<int> label(matrix->nbobjs, -1);
  for (unsigned i = 0; i < matrix->nbobjs; i++) {
    const auto at = std::find(node_os_ids.begin(), node_os_ids.end(), static_cast<int>(matrix->objs[i]->os_index));
    if (at != node_os_ids.end()) label[i] = static_cast<int>(at - node_os_ids.begin());
  }
  std::vector<std::vector<int>> distances(node_os_ids.size(), std::vector<int>(node_os_ids.size(), 0));
  for (unsigned i = 0; i < matrix->nbobjs; i++)
    for (unsigned j = 0; j < matrix->nbobjs; j++)
      if (label[i] >= 0 && label[j] >= 0)
        distances[static_cast<size_t>(label[i])][static_cast<size_t>(label[j])] =
            static_cast<int>(std::min<hwloc_uint64_t>(matrix->values[i * matrix->nbobjs + j], 1 << 20));
  hwloc_distances_release(t, matrix);
  return distances;
}

uint64_t number_in(const hwloc_info_s* infos, unsigned count, std::string_view name) {
  for (unsigned i = 0; i < count; i++)
    if (name == infos[i].name) return std::strtoull(infos[i].value, nullptr, 10);
  return 0;
}

// Kinds in hwloc's order, the fastest last; left alone (one kind) where hwloc cannot rank them. Capacity follows what
// the kernel says, else the highest frequency, else it stays equal: a rank alone is no ratio.
void read_kinds(hwloc_topology_t t, std::vector<topology::cpu>& cpus) {
  const int kinds = hwloc_cpukinds_get_nr(t, 0);
  std::vector<uint64_t> capacity(static_cast<size_t>(std::max(kinds, 1)));
  std::vector<uint64_t> frequency = capacity;
  for (int kind = 0; kind < kinds; kind++) {
    const bitmap members{hwloc_bitmap_alloc()};
    int efficiency = -1;
    unsigned info_count = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(t, static_cast<unsigned>(kind), members.get(), &efficiency, &info_count, &infos, 0) !=
            0 ||
        efficiency < 0)
      return;
    for (topology::cpu& c : cpus)
      if (hwloc_bitmap_isset(members.get(), static_cast<unsigned>(c.os_id))) c.kind = kind;
    capacity[static_cast<size_t>(kind)] = number_in(infos, info_count, "LinuxCapacity");
    frequency[static_cast<size_t>(kind)] = number_in(infos, info_count, "FrequencyMaxMHz");
  }
  const auto complete = [](const std::vector<uint64_t>& v) { return std::find(v.begin(), v.end(), 0u) == v.end(); };
  const std::vector<uint64_t>& speed = complete(capacity) ? capacity : frequency;
  if (!complete(speed)) return;
  const uint64_t fastest = *std::max_element(speed.begin(), speed.end());
  for (topology::cpu& c : cpus) c.capacity = static_cast<int>(1024 * speed[static_cast<size_t>(c.kind)] / fastest);
}

topology to_value(hwloc_topology_t t, std::string name) {
  const hwloc_const_cpuset_t usable = hwloc_topology_get_allowed_cpuset(t);
  machine_facts facts;
  labels cores, clusters, llcs, packages;
  node_labels nodes{t};
  std::map<std::pair<int, int>, int> assumed;  // (package, node) to the LLC label of CPUs that know no cache

  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != nullptr;) {
    if (!hwloc_bitmap_isset(usable, pu->os_index)) continue;
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
    const hwloc_obj_t l2 = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_L2CACHE, pu);
    const hwloc_obj_t last = outermost_cache(pu);
    topology::cpu row;
    row.os_id = static_cast<int>(pu->os_index);
    row.core = cores.of(core != nullptr ? core : pu);
    row.cluster = clusters.of(l2 != nullptr && l2 != last ? l2 : core != nullptr ? core : pu);
    row.node = nodes.of(pu);
    row.package = packages.of(hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, pu));  // null is a label too
    if (last != nullptr) {
      row.llc = llcs.of(last);
      facts.llc_caches.resize(std::max(facts.llc_caches.size(), static_cast<size_t>(row.llc) + 1));
      facts.llc_caches[static_cast<size_t>(row.llc)] = {static_cast<int>(last->attr->cache.depth),
                                                        last->attr->cache.size};
    } else {
      // Negative: no cache's label, and none of llc_caches.
      row.llc = assumed.try_emplace({row.package, row.node}, -1 - static_cast<int>(assumed.size())).first->second;
    }
    facts.cpus.push_back(row);
  }
  read_kinds(t, facts.cpus);
  facts.distances = read_distances(t, nodes.os_ids);
  facts.node_os_ids = std::move(nodes.os_ids);

  topology machine = assemble(std::move(facts), std::move(name));
  machine.this_system = hwloc_topology_is_thissystem(t) != 0;
  const hwloc_const_cpuset_t online = hwloc_topology_get_topology_cpuset(t);
  machine.offline_count = count_between(hwloc_topology_get_complete_cpuset(t), online);
  machine.forbidden_count = count_between(online, usable);
  return machine;
}

loaded_machine refused(std::string error) { return {std::nullopt, std::move(error)}; }

// `choose` tells hwloc the source and returns 0 for success.
loaded_machine load(const std::function<int(hwloc_topology_t)>& choose, std::string name, const std::string& refusal) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return refused("hwloc cannot be initialised");
  const hwloc_handle t{raw};
  // With the forbidden CPUs, so that topo can tell them from offline ones; to_value() leaves them out.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (choose(raw) != 0 || hwloc_topology_load(raw) != 0) return refused(refusal);
  topology machine = to_value(raw, std::move(name));
  if (machine.cpus.empty()) return refused(refusal + " (it has no usable CPU)");
  return {std::move(machine), {}};
}

// Product of the counts outside brackets: how many CPUs the string asks for, before anything is built.
bool too_large(std::string_view description) {
  uint64_t product = 1;
  int depth = 0;
  for (size_t i = 0; i < description.size(); i++) {
    if (description[i] == '[' || description[i] == '(') depth++;
    if (description[i] == ']' || description[i] == ')') depth--;
    if (description[i] != ':' || depth != 0) continue;
    uint64_t count = 0;
    const char* const digits = description.data() + i + 1;
    if (std::from_chars(digits, description.data() + description.size(), count).ec == std::errc::result_out_of_range)
      return true;
    if (__builtin_mul_overflow(product, std::max<uint64_t>(count, 1), &product) || product > synthetic_cpus_max)
      return true;
  }
  return false;
}

}  // namespace

loaded_machine load_synthetic(const std::string& description) {
  if (too_large(description))
    return refused("'" + description + "' describes more than " + std::to_string(synthetic_cpus_max) + " CPUs");
  return load([&](hwloc_topology_t t) { return hwloc_topology_set_synthetic(t, description.c_str()); }, description,
              "'" + description + "' is not a synthetic machine such as \"pack:2 core:10 pu:2\"");
}

loaded_machine load_xml(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return refused("'" + path + "' does not exist");
  return load([&](hwloc_topology_t t) { return hwloc_topology_set_xml(t, path.c_str()); }, path,
              "'" + path + "' is not an hwloc XML file that this hwloc (" + hwloc_version() + ") can read");
}

loaded_machine discover_host() {
  // hwloc falls back to the real machine, silently, when one of these is wrong; said explicitly it returns an error.
  const auto from_variable = [](const char* name, loaded_machine (*load_it)(const std::string&)) -> loaded_machine {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == 0) return {};
    loaded_machine found = load_it(value);
    if (!found.machine) found.error = std::string(name) + ": " + found.error;
    return found;
  };
  loaded_machine found = from_variable("HWLOC_XMLFILE", load_xml);
  if (!found.machine && found.error.empty()) found = from_variable("HWLOC_SYNTHETIC", load_synthetic);
  if (!found.machine && found.error.empty())
    found = load([](hwloc_topology_t) { return 0; }, "host", "hwloc cannot discover this system");
  if (found.machine && found.machine->this_system) found.machine->name = "host";
  return found;
}

loaded_machine load_machine(std::string_view spec) {
  if (spec == "host") return discover_host();
  if (std::optional<topology> named = make_named_machine(spec)) return {std::move(named), {}};
  const std::string text{spec};
  std::error_code failure;
  const bool path =
      text.ends_with(".xml") || text.find('/') != text.npos || std::filesystem::is_regular_file(text, failure);
  if (!path && text.find(':') == text.npos)
    return refused("'" + text + "' is not host, a built-in name (heddle topo --list), an hwloc XML file " +
                   "or a synthetic machine such as \"pack:2 core:10 pu:2\"");
  loaded_machine found = path ? load_xml(text) : load_synthetic(text);
  // Named on the command line it is a description, whatever HWLOC_THISSYSTEM says.
  if (found.machine) found.machine->this_system = false;
  return found;
}

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 0xff);
}

}  // namespace heddle::core
