#include "bench_apps/commands/topo_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

namespace heddle::bench {

namespace {

using core::cpu_id;
using core::cpu_set;
using core::topology;

constexpr size_t width = 100;
constexpr size_t cores_drawn_max = 16;    // per LLC, one by one; more are drawn as ranges ...
constexpr size_t machine_drawn_max = 64;  // ... and so are those of a machine with more cores than this
constexpr size_t alike_max = 4;           // neighbours of one shape; of more, the first and the last are drawn

std::string counted(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string bytes_text(uint64_t bytes) {
  if (bytes == 0) return "";
  if (bytes % (1 << 20) == 0) return fmt::format(" {} MiB", bytes >> 20);
  if (bytes >= 10 << 20) return fmt::format(" {:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format(" {} KiB", bytes >> 10);
}

// A kind of set the tree has: how its members are called.
struct tree_level {
  const std::vector<cpu_set>* members;
  std::string (*title)(const topology&, size_t index);
};

std::string package_title(const topology&, size_t i) { return fmt::format("package {}", i); }

std::string node_title(const topology& m, size_t i) {
  if (m.node_os_ids[i] < 0) return "no node (no memory of their own)";
  return fmt::format("node {}", m.node_os_ids[i]);
}

std::string llc_title(const topology& m, size_t i) {
  const topology::cache& c = m.llc_caches[i];
  if (c.level == 0) return fmt::format("LLC {} (llc: assumed, no cache is known)", i);
  return fmt::format("LLC {} (L{}{})", i, c.level, bytes_text(c.bytes));
}

struct block {
  std::string title;
  std::string shape;  // equal for blocks that differ in numbers only
  std::vector<std::string> body;
  std::vector<block> inside;
};

// Threads of the cores in `set`: all first ones, all second ones ...
std::vector<cpu_set> by_thread(const topology& m, const cpu_set& set) {
  std::vector<cpu_set> threads;
  for (const cpu_id c : set) {
    size_t rank = 0;
    for (const cpu_id sibling : m.core_of(c) & set) rank += sibling < c;
    if (threads.size() <= rank) threads.resize(rank + 1);
    threads[rank].add(c);
  }
  return threads;
}

std::string core_text(const topology& m, const cpu_set& core) {
  std::string text;
  for (const cpu_id c : core) text += fmt::format("{}{}", text.empty() ? "" : "+", m.os_id(c));
  return text;
}

// "0+20  1+21  2+22", clusters in brackets; or "24 cores x 2: 0-23 + 96-119".
std::vector<std::string> draw_cores(const topology& m, const cpu_set& set) {
  cpu_set first;
  for (const cpu_id c : set) first.add((m.core_of(c) & set).lowest());
  if (first.count() > cores_drawn_max || m.cores.size() > machine_drawn_max) {
    std::vector<std::string> lists;
    for (const cpu_set& thread : by_thread(m, set)) lists.push_back(m.list(thread));
    return {fmt::format("{}: {}", counted(first.count(), "core"), fmt::join(lists, " + "))};
  }
  std::vector<std::string> words;
  for (const cpu_id c : first) {
    const cpu_set cluster = m.clusters[static_cast<size_t>(m.at(c).cluster)] & set;
    const cpu_set core = m.core_of(c) & set;
    const bool clustered = core != cluster && cluster.contains(core);
    if (clustered && cluster.lowest() != c) continue;
    if (!clustered) {
      words.push_back(core_text(m, core));
      continue;
    }
    std::vector<std::string> members;
    for (const cpu_id other : first& cluster) members.push_back(core_text(m, m.core_of(other) & set));
    words.push_back(fmt::format("[{}]", fmt::join(members, " ")));
  }
  size_t widest = 0;
  for (const std::string& w : words) widest = std::max(widest, w.size());
  std::vector<std::string> lines{""};
  for (const std::string& w : words) {
    if (!lines.back().empty() && lines.back().size() + widest + 2 > width) lines.emplace_back();
    lines.back() += fmt::format("{:<{}}", w, widest + 2);
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

block build(const topology& m, const cpu_set& set, std::string title, const std::vector<tree_level>& levels,
            size_t at) {
  block b{std::move(title), "", {}, {}};
  if (at == levels.size()) {
    b.body = draw_cores(m, set);
    for (const cpu_set& thread : by_thread(m, set)) b.shape += fmt::format("{}+", thread.count());
    return b;
  }
  const tree_level& level = levels[at];
  for (size_t i = 0; i < level.members->size(); i++) {
    const cpu_set member = (*level.members)[i] & set;
    if (member.empty()) continue;
    const std::string name = level.title(m, i);
    // One member that is all of it needs no line of its own: "package 0, node 0, LLC 0".
    if (member == set) return build(m, set, b.title.empty() ? name : b.title + ", " + name, levels, at + 1);
    b.inside.push_back(build(m, member, name, levels, at + 1));
  }
  for (const block& child : b.inside) b.shape += "(" + child.shape + ")";
  return b;
}

void write(const block& b, const std::string& indent, std::string& out) {
  std::string inner = indent;
  if (!b.title.empty()) {
    out += indent + b.title + "\n";
    inner += "  ";
  }
  for (const std::string& line : b.body) out += inner + line + "\n";
  for (size_t i = 0; i < b.inside.size();) {
    size_t end = i;
    while (end < b.inside.size() && b.inside[end].shape == b.inside[i].shape) end++;
    const bool many = end - i > alike_max;
    for (size_t k = i; k < end; k++)
      if (!many || k == i || k + 1 == end)
        write(b.inside[k], inner, out);
      else if (k == i + 1)
        out += fmt::format("{}... {} more like these ...\n", inner, end - i - 2);
    i = end;
  }
}

// Nodes inside packages, unless the machine has packages inside nodes.
std::vector<tree_level> levels_of(const topology& m) {
  const tree_level packages{&m.packages, package_title};
  const tree_level nodes{&m.nodes, node_title};
  const tree_level llcs{&m.llcs, llc_title};
  if (m.packages.size() > m.nodes.size()) return {nodes, packages, llcs};
  return {packages, nodes, llcs};
}

std::string flags_text(uint32_t flags) {
  constexpr std::pair<uint32_t, std::string_view> names[] = {{core::df_share_capacity, "share_capacity"},
                                                             {core::df_share_llc, "share_llc"},
                                                             {core::df_wake_affine, "wake_affine"},
                                                             {core::df_balance_newidle, "balance_newidle"},
                                                             {core::df_balance_fork, "balance_fork"},
                                                             {core::df_balance_wake, "balance_wake"},
                                                             {core::df_prefer_sibling, "prefer_sibling"},
                                                             {core::df_numa, "numa"},
                                                             {core::df_serialize, "serialize"}};
  std::vector<std::string_view> set;
  for (const auto& [flag, name] : names)
    if (flags & flag) set.push_back(name);
  return fmt::format("{}", fmt::join(set, " "));
}

}  // namespace

std::string summary_of(const topology& m) {
  size_t widest = 1;
  size_t narrowest = m.cpu_count();
  for (const cpu_set& core : m.cores) {
    widest = std::max(widest, core.count());
    narrowest = std::min(narrowest, core.count());
  }
  std::string cores = counted(m.cores.size(), "core");
  if (widest > 1)
    cores += narrowest == widest ? fmt::format(" of {} threads", widest)
                                 : fmt::format(" of {} to {} threads", narrowest, widest);
  return fmt::format("{} in {}; {}, {}, {}", counted(m.cpu_count(), "CPU"), cores,
                     counted(m.packages.size(), "package"), counted(m.nodes.size(), "node"),
                     counted(m.llcs.size(), "LLC"));
}

std::string drawing_of(const topology& m) {
  std::string out;
  write(build(m, m.all(), "", levels_of(m), 0), "", out);

  std::vector<cpu_set> kinds;
  for (const cpu_id c : m.all()) {
    const size_t kind = static_cast<size_t>(m.at(c).kind);
    if (kinds.size() <= kind) kinds.resize(kind + 1);
    kinds[kind].add(c);
  }
  std::erase_if(kinds, [](const cpu_set& k) { return k.empty(); });
  if (kinds.size() > 1) {
    out += "kinds, slowest first\n";
    for (const cpu_set& k : kinds)
      out += fmt::format("  {}, capacity {} of 1024\n", m.list(k), m.at(k.lowest()).capacity);
  }
  return out;
}

std::string distances_of(const topology& m) {
  if (m.nodes.size() < 2) return "";
  std::set<int> distinct;
  bool uniform = true;
  for (size_t i = 0; i < m.nodes.size(); i++)
    for (size_t j = 0; j < m.nodes.size(); j++) {
      if (i != j) distinct.insert(m.distances[i][j]);
      if (i == j && m.distances[i][j] != m.distances[0][0]) uniform = false;
    }
  if (uniform && distinct.size() == 1)
    return fmt::format("distance between nodes {}, inside {}\n", *distinct.begin(), m.distances[0][0]);
  if (m.nodes.size() > 16)
    return fmt::format("distances between nodes {} (all in --json)\n", fmt::join(distinct, ", "));
  std::string out = "distances between nodes\n      ";
  for (const int id : m.node_os_ids) out += id < 0 ? "   -" : fmt::format("{:4}", id);
  out += "\n";
  for (size_t i = 0; i < m.nodes.size(); i++) {
    out += m.node_os_ids[i] < 0 ? "     -" : fmt::format("{:6}", m.node_os_ids[i]);
    for (const int d : m.distances[i]) out += fmt::format("{:4}", d);
    out += "\n";
  }
  return out;
}

std::string domains_of(const topology& m, const core::domain_tree& tree) {
  if (tree.span_count() == 0) return "domains: none, there is one CPU\n";
  // By name in the order they appear upward, then by flags: unlike members of a level stand apart.
  struct row {
    core::domain_level level;
    uint32_t flags;
    size_t weight;
    std::vector<std::string> spans;
  };
  std::vector<row> rows;
  for (const auto& s : tree.spans()) {
    auto at = std::find_if(rows.begin(), rows.end(), [&](const row& r) {
      return r.level == s->level && r.flags == s->flags && r.weight == s->weight;
    });
    if (at == rows.end()) at = rows.insert(at, {s->level, s->flags, s->weight, {}});
    std::string text = m.list(s->span);
    if (std::find(at->spans.begin(), at->spans.end(), text) == at->spans.end()) at->spans.push_back(std::move(text));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const row& a, const row& b) { return a.weight < b.weight; });
  std::string out = "domains, finest first\n";
  for (const row& r : rows) {
    std::string spans;
    size_t shown = 0;
    for (; shown < r.spans.size() && spans.size() + r.spans[shown].size() < width - 30; shown++)
      spans += (spans.empty() ? "" : "  ") + r.spans[shown];
    if (shown == 0 && !r.spans.empty()) spans = r.spans[shown++];
    if (shown < r.spans.size()) spans += fmt::format("  ... {} more", r.spans.size() - shown);
    out += fmt::format("  {:<8} {:>4} x {:<4}  {}\n{:25}{}\n", core::to_string(r.level), r.spans.size(), r.weight,
                       spans, "", flags_text(r.flags));
  }
  return out;
}

}  // namespace heddle::bench
