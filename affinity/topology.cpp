#include "affinity/topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace heddle::core {

namespace {

using cpu_row = topology::cpu;

constexpr int local_distance = 10;
constexpr int remote_distance = 20;  // policy-reference 1.1, where no matrix says otherwise

// Replaces the labels behind `field` by 0, 1, ... in the order of each label's lowest CPU, and returns for every number
// the label it replaced.
template <class Label>
std::vector<Label> number(std::vector<cpu_row>& cpus, int cpu_row::* field, const std::vector<Label>& labels,
                          std::vector<cpu_set>& partition) {
  std::map<Label, int> numbers;
  std::vector<Label> old;
  for (size_t i = 0; i < cpus.size(); i++) {
    const auto [at, fresh] = numbers.try_emplace(labels[i], static_cast<int>(old.size()));
    if (fresh) {
      old.push_back(labels[i]);
      partition.emplace_back();
    }
    cpus[i].*field = at->second;
    partition[static_cast<size_t>(at->second)].add(to_cpu(i));
  }
  return old;
}

std::vector<int> labels_of(const std::vector<cpu_row>& cpus, int cpu_row::* field) {
  std::vector<int> labels;
  for (const cpu_row& c : cpus) labels.push_back(c.*field);
  return labels;
}

template <class T>
T at_or(const std::vector<T>& values, int index, T otherwise) {
  return index >= 0 && static_cast<size_t>(index) < values.size() ? values[static_cast<size_t>(index)] : otherwise;
}

// CPUs whose node has no row in the matrix (its memory is absent or forbidden) are farther away than anything known:
// the levels among the others stay as they are, and these join in the widest.
std::vector<std::vector<int>> complete_distances(const std::vector<std::vector<int>>& known,
                                                 const std::vector<int>& labels) {
  const auto look = [&](int from, int to) { return at_or(at_or(known, from, std::vector<int>{}), to, 0); };
  int farthest = 0;
  for (int from : labels)
    for (int to : labels)
      if (from != to) farthest = std::max(farthest, look(from, to));
  const int unknown = farthest > 0 ? farthest + 1 : remote_distance;

  std::vector<std::vector<int>> distances(labels.size(), std::vector<int>(labels.size()));
  for (size_t i = 0; i < labels.size(); i++)
    for (size_t j = 0; j < labels.size(); j++) {
      const int d = look(labels[i], labels[j]);
      distances[i][j] = d > 0 ? d : i == j ? local_distance : unknown;
    }
  return distances;
}

}  // namespace

topology assemble(machine_facts facts, std::string name) {
  topology machine;
  machine.name = std::move(name);
  machine.cpus = std::move(facts.cpus);
  std::vector<cpu_row>& cpus = machine.cpus;
  std::sort(cpus.begin(), cpus.end(), [](const cpu_row& a, const cpu_row& b) { return a.os_id < b.os_id; });

  std::vector<std::pair<int, int>> llc_labels;  // the cut at node borders: a piece is known by cache and node
  for (const cpu_row& c : cpus) llc_labels.emplace_back(c.llc, c.node);

  number(cpus, &cpu_row::core, labels_of(cpus, &cpu_row::core), machine.cores);
  number(cpus, &cpu_row::cluster, labels_of(cpus, &cpu_row::cluster), machine.clusters);
  number(cpus, &cpu_row::package, labels_of(cpus, &cpu_row::package), machine.packages);
  for (const auto& [llc, node] : number(cpus, &cpu_row::llc, llc_labels, machine.llcs))
    machine.llc_caches.push_back(at_or(facts.llc_caches, llc, topology::cache{}));
  const std::vector<int> nodes = number(cpus, &cpu_row::node, labels_of(cpus, &cpu_row::node), machine.nodes);
  for (int label : nodes) machine.node_os_ids.push_back(at_or(facts.node_os_ids, label, label));
  machine.distances = complete_distances(facts.distances, nodes);
  return machine;
}

topology restricted(const topology& machine, const cpu_set& keep) {
  machine_facts facts{{}, machine.llc_caches, machine.node_os_ids, machine.distances};
  for (cpu_id c : keep& machine.all()) {
    facts.cpus.push_back(machine.at(c));
    for (cpu_id sibling : machine.core_of(c)) facts.cpus.back().foreign_sibling |= !keep.has(sibling);
  }
  topology rest = assemble(std::move(facts), machine.name);
  rest.this_system = machine.this_system;
  rest.offline_count = machine.offline_count;
  rest.forbidden_count = machine.forbidden_count;
  return rest;
}

cpu_id topology::find_os(int os_id) const noexcept {
  const auto at = std::lower_bound(cpus.begin(), cpus.end(), os_id, [](const cpu& c, int id) { return c.os_id < id; });
  return at != cpus.end() && at->os_id == os_id ? to_cpu(static_cast<size_t>(at - cpus.begin())) : cpu_id::none;
}

std::string topology::list(const cpu_set& set) const {
  std::string text;
  for (auto it = set.begin(); it != set.end();) {
    const int from = os_id(*it);
    int to = from;
    for (++it; it != set.end() && os_id(*it) == to + 1; ++it) to++;
    if (!text.empty()) text += ',';
    text += std::to_string(from);
    if (to > from) text += '-' + std::to_string(to);
  }
  return text;
}

std::string topology::hash() const {
  uint64_t h = 0xcbf29ce484222325u;  // FNV-1a over whole numbers
  const auto mix = [&h](int value) { h = (h ^ static_cast<uint32_t>(value)) * 0x100000001b3u; };
  for (const cpu& c : cpus)
    for (int value : {c.os_id, c.core, c.cluster, c.llc, c.node, c.package, c.kind, c.capacity}) mix(value);
  for (const std::vector<int>& row : distances)
    for (int d : row) mix(d);
  std::string text(16, '0');
  for (size_t i = 0; i < 16; i++) text[i] = "0123456789abcdef"[h >> (60 - 4 * i) & 15];
  return text;
}

cpu_set parse_cpu_list(const topology& machine, std::string_view text, std::string& error) {
  const std::string quoted = "'" + std::string(text) + "'";
  const std::string there = machine.list(machine.all());
  cpu_set set;
  const auto number = [](std::string_view digits, int& value) {
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return failure == std::errc{} && end == digits.data() + digits.size() && value >= 0;
  };
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    int from = 0;
    int to = 0;
    const bool good =
        number(item.substr(0, dash), from) && number(dash == item.npos ? item : item.substr(dash + 1), to);
    if (!good || to < from) {
      error = quoted + " is not a CPU list such as 0,2-5";
      return {};
    }
    // By the CPUs that exist, not by the numbers asked for: "0-2000000000" must end soon.
    size_t found = 0;
    for (size_t i = 0; i < machine.cpu_count(); i++)
      if (machine.cpus[i].os_id >= from && machine.cpus[i].os_id <= to) {
        set.add(to_cpu(i));
        found++;
      }
    if (found != static_cast<size_t>(to) - static_cast<size_t>(from) + 1) {
      error = quoted + " is not within CPUs " + there;
      return {};
    }
    if (comma == rest.npos) return set;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace heddle::core
