#include "affinity/domains.h"

#include <algorithm>
#include <climits>
#include <map>
#include <utility>

#include "runtime/base/check.h"

namespace heddle::core {

namespace {

// A level of some CPUs' chains before it is cut into groups.
struct element {
  cpu_set span;
  domain_level level;
  int distance = 0;  // NUMA levels: everything up to it is inside; 0 below NUMA
};

// Builds in three steps, each a method: spans below NUMA (the same for all their members), spans by distance (as seen
// from each node), then one record per distinct span and view.
class builder {
 public:
  builder(const topology& machine, const domain_options& options)
      : machine_(machine), options_(options), chains_(machine.cpu_count()), views_(machine.nodes.size()) {}

  void find_base_spans();
  void find_numa_spans();
  void make_records(std::vector<std::unique_ptr<sched_span>>& spans, std::vector<std::vector<sched_domain>>& chains);

 private:
  struct grouping {
    std::vector<sched_group> groups;
    // The groups are disjoint and every member's own child is one of them: then all members cut the span alike.
    bool alike = true;
  };

  bool numa() const { return options_.numa && machine_.nodes.size() > 1; }
  bool whole(const cpu_set& span) const { return span.count() == machine_.cpu_count(); }
  bool inside_llc(const cpu_set& span) const { return machine_.llc_of(span.lowest()).contains(span); }
  size_t node(cpu_id c) const { return static_cast<size_t>(machine_.at(c).node); }
  const cpu_set* top(cpu_id c) const;
  void accept(cpu_set span, domain_level level);
  bool agrees_with_distances(const cpu_set& package) const;
  const element* child(cpu_id c, const element& parent) const;
  uint32_t flags(const element& e) const;
  grouping cut(const element& e, cpu_id owner) const;
  sched_group group_of(const element* child, cpu_id c, const element& parent) const;
  int numa_allowance(cpu_id c, const element& e) const;

  const topology& machine_;
  const domain_options& options_;
  std::vector<std::unique_ptr<element>> base_;
  std::vector<std::vector<const element*>> chains_;           // per CPU, below NUMA, finest first
  std::vector<std::vector<std::unique_ptr<element>>> views_;  // per node, NUMA levels, nearest first
};

const cpu_set* builder::top(cpu_id c) const {
  const auto& view = views_[node(c)];
  if (!view.empty()) return &view.back()->span;
  const auto& chain = chains_[index_of(c)];
  return chain.empty() ? nullptr : &chain.back()->span;
}

// Sets that come in ascending size become a tree: one that would cut an accepted one in two is widened by it. hwloc's
// objects nest by themselves; "the CPUs without a package" need not.
void builder::accept(cpu_set span, domain_level level) {
  bool known = true;
  for (cpu_id c : cpu_set(span)) {
    const cpu_set* const before = top(c);
    if (before == nullptr || *before != span) known = false;
    if (before != nullptr && !span.contains(*before)) span |= *before;
  }
  if (known || span.count() < 2) return;
  if (const cpu_set* before = top(span.lowest()); before != nullptr && *before == span) return;
  if (whole(span) && !inside_llc(span)) level = domain_level::machine;
  base_.push_back(std::make_unique<element>(element{std::move(span), level}));
  for (cpu_id c : base_.back()->span) chains_[index_of(c)].push_back(base_.back().get());
}

// A package of several nodes is a level of its own where the distances inside are one and no node outside is nearer.
// Otherwise the distances know better, and make a level of the package themselves where they set it apart.
bool builder::agrees_with_distances(const cpu_set& package) const {
  if (!numa()) return true;
  std::vector<bool> inside(machine_.nodes.size());
  for (cpu_id c : package) inside[node(c)] = true;
  int nearest_inside = INT_MAX;
  int farthest_inside = 0;
  int nearest_outside = INT_MAX;
  for (size_t from = 0; from < inside.size(); from++)
    for (size_t to = 0; inside[from] && to < inside.size(); to++) {
      if (to == from) continue;
      const int d = machine_.distances[from][to];
      if (inside[to]) {
        nearest_inside = std::min(nearest_inside, d);
        farthest_inside = std::max(farthest_inside, d);
      } else {
        nearest_outside = std::min(nearest_outside, d);
      }
    }
  return farthest_inside == 0 || (nearest_inside == farthest_inside && farthest_inside <= nearest_outside);
}

void builder::find_base_spans() {
  struct candidate {
    const cpu_set* span;
    size_t weight;
    domain_level level;
  };
  std::vector<candidate> all;
  const auto offer = [&all](const std::vector<cpu_set>& partition, domain_level level) {
    for (const cpu_set& s : partition)
      if (const size_t weight = s.count(); weight > 1) all.push_back({&s, weight, level});
  };
  // In this order because equal spans keep the first name. Cores may be wider than their caches (policy-reference,
  // TV-DOM-6), hence by size and not by kind. Node before package: its border is the one that costs.
  if (options_.smt) offer(machine_.cores, domain_level::smt);
  if (options_.llc) offer(machine_.llcs, domain_level::llc);
  if (options_.cluster)
    for (const cpu_set& s : machine_.clusters)
      if (const size_t weight = s.count();
          weight > 1 && machine_.core_of(s.lowest()) != s)  // not the stand-in for cores
        all.push_back({&s, weight, domain_level::cluster});
  if (options_.numa) offer(machine_.nodes, domain_level::node);
  for (const cpu_set& package : machine_.packages)
    if (const size_t weight = package.count(); weight > 1 && agrees_with_distances(package))
      all.push_back({&package, weight, domain_level::package});
  std::stable_sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) { return a.weight < b.weight; });
  for (const candidate& c : all) accept(*c.span, c.level);
  if (!numa()) accept(machine_.all(), domain_level::machine);
}

// policy-reference 1.1: level k of a node spans every node within the k-th distance, and all below it. Spans of
// different nodes may overlap without being equal.
void builder::find_numa_spans() {
  if (!numa()) return;
  const auto& distances = machine_.distances;
  for (size_t from = 0; from < distances.size(); from++) {
    std::vector<std::pair<int, size_t>> near_first;
    for (size_t to = 0; to < distances.size(); to++) near_first.emplace_back(to == from ? 0 : distances[from][to], to);
    std::sort(near_first.begin(), near_first.end());

    const cpu_id member = machine_.nodes[from].lowest();
    const cpu_set* const below = top(member);
    cpu_set span = below != nullptr ? *below : machine_.nodes[from];
    std::vector<std::unique_ptr<element>> view;
    for (size_t i = 0; i < near_first.size(); i++) {
      const auto [distance, to] = near_first[i];
      const cpu_set& last = view.empty() ? (below != nullptr ? *below : machine_.nodes[from]) : view.back()->span;
      span |= machine_.nodes[to];
      if (i + 1 < near_first.size() && near_first[i + 1].first == distance) continue;
      if (span == last) continue;
      const domain_level level = whole(span)                           ? domain_level::machine
                                 : span == machine_.package_of(member) ? domain_level::package
                                                                       : domain_level::numa;
      view.push_back(std::make_unique<element>(element{span, level, distance}));
    }
    views_[from] = std::move(view);
  }
}

// The widest domain of c that fits into `parent` and lies below it. At overlapping levels a member's next level down
// may reach outside; a group must not, or a pass over `parent` would pull from CPUs that it does not have.
const element* builder::child(cpu_id c, const element& parent) const {
  const auto& view = views_[node(c)];
  for (auto e = view.rbegin(); e != view.rend(); ++e)
    if ((*e)->distance < parent.distance && parent.span.contains((*e)->span)) return e->get();
  const auto& chain = chains_[index_of(c)];
  for (auto e = chain.rbegin(); e != chain.rend(); ++e)
    if (*e != &parent && (parent.distance > 0 || (*e)->span.count() < parent.span.count()) &&
        parent.span.contains((*e)->span))
      return *e;
  return nullptr;
}

// policy-reference 1.2, by what a span is rather than by its name: share_llc and share_capacity are then closed
// downward (INV-D5) also where a core is wider than its cache.
uint32_t builder::flags(const element& e) const {
  const cpu_id first = e.span.lowest();
  uint32_t set = df_balance_newidle;
  if (machine_.core_of(first).contains(e.span)) set |= df_share_capacity;
  if (inside_llc(e.span)) set |= df_share_llc;
  const bool several_nodes = numa() && !machine_.node_of(first).contains(e.span);
  int distance = e.distance;
  if (several_nodes && distance == 0) {  // a package of several nodes
    for (cpu_id c : e.span) distance = std::max(distance, machine_.distance(first, c));
  }
  if (distance <= options_.reclaim_distance) set |= df_wake_affine | df_balance_fork;
  set |= several_nodes ? df_numa | df_serialize : df_prefer_sibling;
  return set;
}

sched_group builder::group_of(const element* child_of_c, cpu_id c, const element& parent) const {
  sched_group group;
  if (child_of_c == nullptr) {
    // A CPU alone, also where its SMT level was degenerate: no flags are recorded then (1.4).
    group.span.add(c);
    group.balance_mask = group.span;
    group.cores = 1;
    return group;
  }
  group.span = child_of_c->span;
  group.flags = flags(*child_of_c);
  cpu_set cores_seen;
  for (cpu_id member : group.span) {
    cores_seen.add(machine_.core_of(member).lowest());
    const element* const own = child(member, parent);
    if (own == child_of_c || (own != nullptr && own->span == group.span)) group.balance_mask.add(member);
  }
  group.cores = static_cast<int>(cores_seen.count());
  return group;
}

// F02: from the owner's viewpoint, starting at its own node and going round, each group the child span of a CPU that no
// earlier group covers.
builder::grouping builder::cut(const element& e, cpu_id owner) const {
  grouping result;
  cpu_set covered;
  size_t members = 0;
  const auto take = [&](cpu_id c) {
    if (covered.has(c)) return;
    sched_group group = group_of(child(c, e), c, e);
    covered |= group.span;
    members += group.span.count();
    if (group.balance_mask != group.span) result.alike = false;
    result.groups.push_back(std::move(group));
  };
  if (e.distance == 0) {
    for (cpu_id c : e.span) take(c);
  } else {
    const size_t nodes = machine_.nodes.size();
    for (size_t i = 0; i < nodes; i++)
      for (cpu_id c : machine_.nodes[(node(owner) + i) % nodes])
        if (e.span.has(c)) take(c);
  }
  if (members != covered.count()) result.alike = false;
  if (result.alike)
    std::sort(result.groups.begin(), result.groups.end(),
              [](const sched_group& a, const sched_group& b) { return a.span.lowest() < b.span.lowest(); });
  return result;
}

// policy-reference 1.6. Zero inside the LLC, where no allowance is ever asked for.
int builder::numa_allowance(cpu_id c, const element& e) const {
  if (inside_llc(e.span)) return 0;
  const size_t node_span = machine_.node_of(c).count();
  const size_t llc_count = node_span / machine_.llc_of(c).count();
  const size_t local = std::max<size_t>(1, llc_count == 1 ? node_span >> 3 : llc_count);
  const auto& view = views_[node(c)];
  size_t first_numa_span = node_span;
  if (!view.empty()) first_numa_span = view.front()->span.count();
  for (const element* below : chains_[index_of(c)])
    if (!machine_.node_of(c).contains(below->span)) {
      first_numa_span = below->span.count();
      break;
    }
  return static_cast<int>(local * std::max<size_t>(1, e.span.count() / first_numa_span));
}

void builder::make_records(std::vector<std::unique_ptr<sched_span>>& spans,
                           std::vector<std::vector<sched_domain>>& chains) {
  chains.resize(machine_.cpu_count());
  // Allowances differ inside a span only where LLCs are unequal.
  std::map<std::pair<const element*, int>, sched_span*> made;
  std::map<std::vector<uint64_t>, const element*> alike;  // NUMA spans that every member cuts alike, once for all nodes

  const auto record = [&](const element& e, cpu_id owner) {
    const element* key = &e;
    std::vector<uint64_t> words;
    if (e.distance > 0) {
      words.push_back(static_cast<uint64_t>(e.distance));
      for (size_t i = 0; i < e.span.word_count(); i++) words.push_back(e.span.word(i));
      if (const auto at = alike.find(words); at != alike.end()) key = at->second;
    }
    const int allowance = numa_allowance(owner, e);
    sched_span*& span = made[{key, allowance}];
    if (span != nullptr) return span;
    grouping cut_up = cut(e, owner);
    HEDDLE_ASSERT(cut_up.groups.size() > 1);
    if (e.distance > 0 && cut_up.alike) alike.emplace(std::move(words), key);
    spans.push_back(std::make_unique<sched_span>(
        sched_span{e.level, flags(e), e.span, e.span.count(), std::move(cut_up.groups), allowance}));
    span = spans.back().get();
    return span;
  };
  const auto local_group = [&](const sched_span& span, const element& e, cpu_id c) {
    const element* const own = child(c, e);
    size_t g = 0;
    while (own != nullptr ? span.groups[g].span != own->span : !span.groups[g].span.has(c)) g++;
    return g;
  };

  for (size_t i = 0; i < machine_.cpu_count(); i++) {
    const cpu_id c = to_cpu(i);
    const auto add = [&](const element& e) {
      const sched_span* const span = record(e, c);
      chains[i].push_back({span, local_group(*span, e, c)});
    };
    for (const element* e : chains_[i]) add(*e);
    for (const auto& e : views_[node(c)]) add(*e);
  }
}

}  // namespace

std::string_view to_string(domain_level level) noexcept {
  constexpr std::string_view names[] = {"smt", "cluster", "llc", "package", "node", "machine", "numa"};
  return names[static_cast<size_t>(level)];
}

domain_options domain_options_of(const settings& set) noexcept {
  const topo_levels_t which = set.topo_levels;
  const bool small = which != topo_levels_t::llc;
  return {.reclaim_distance = static_cast<int>(set.numa_reclaim_distance),
          .smt = small && which != topo_levels_t::no_smt,
          .cluster = small && which != topo_levels_t::no_cluster,
          .numa = which != topo_levels_t::no_numa};
}

domain_tree::domain_tree(const topology& machine, const domain_options& options) {
  builder b(machine, options);
  b.find_base_spans();
  b.find_numa_spans();
  b.make_records(spans_, chains_);
}

}  // namespace heddle::core
