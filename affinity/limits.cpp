#include "affinity/limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <tuple>

#include "affinity/pin.h"

namespace heddle::core {

namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "1.5", "4.0", "0.25".
std::string with_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string s = text;
  if (s.back() == '0') s.pop_back();
  return s;
}

// mountinfo writes blanks and backslashes as \040.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool has_item(const std::string& list, std::string_view item) {
  std::stringstream in(list);
  for (std::string each; std::getline(in, each, ',');)
    if (each == item) return true;
  return false;
}

// Where the hierarchy that may limit CPU time is mounted, and what of it: a container often sees only its own part.
struct cgroup_mount {
  int version = 0;
  std::string shown;  // path inside the hierarchy that appears at `at`
  std::string at;
};

std::vector<cgroup_mount> cgroup_mounts(const fs::path& root) {
  std::vector<cgroup_mount> mounts;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::stringstream fields(line);
    std::string skip, shown, at, type, source, options;
    fields >> skip >> skip >> skip >> shown >> at;
    while (fields >> skip && skip != "-") continue;
    fields >> type >> source >> options;
    if (type == "cgroup2") mounts.push_back({2, unescape(shown), unescape(at)});
    if (type == "cgroup" && has_item(options, "cpu")) mounts.push_back({1, unescape(shown), unescape(at)});
  }
  return mounts;
}

// This process's path in the v2 hierarchy, or in the v1 hierarchy of the cpu controller.
std::optional<std::string> cgroup_path(const fs::path& root, int version) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t one = line.find(':');
    const size_t two = line.find(':', one + 1);
    if (one == line.npos || two == line.npos) continue;
    const std::string controllers = line.substr(one + 1, two - one - 1);
    if (version == 2 ? line.compare(0, one, "0") == 0 && controllers.empty() : has_item(controllers, "cpu"))
      return line.substr(two + 1);
  }
  return std::nullopt;
}

std::optional<double> quota_in(const fs::path& group, int version) {
  double quota = 0;
  double period = 100'000;
  if (version == 2) {
    std::stringstream text(first_line(group / "cpu.max"));
    std::string limit;
    text >> limit >> period;
    if (limit.empty() || limit == "max") return std::nullopt;
    quota = std::strtod(limit.c_str(), nullptr);
  } else {
    quota = std::strtod(first_line(group / "cpu.cfs_quota_us").c_str(), nullptr);
    period = std::strtod(first_line(group / "cpu.cfs_period_us").c_str(), nullptr);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The path below the mount. A path that is not under what the mount shows (another namespace's view) leaves the mount's
// own top, which is then the nearest group that we can see.
fs::path below_mount(const cgroup_mount& mount, const std::string& path, const fs::path& mounted) {
  const std::string shown = mount.shown == "/" ? "" : mount.shown;
  if (path.find("/..") != path.npos || path.compare(0, shown.size(), shown) != 0) return {};
  const fs::path below = fs::path(path.substr(shown.size())).relative_path();
  std::error_code failure;
  return fs::is_directory(mounted / below, failure) ? below : fs::path{};
}

}  // namespace

std::optional<cpu_quota> read_quota(const fs::path& root) {
  std::optional<cpu_quota> tightest;
  for (const cgroup_mount& mount : cgroup_mounts(root)) {
    const std::optional<std::string> path = cgroup_path(root, mount.version);
    if (!path) continue;
    const fs::path mounted = root / fs::path(mount.at).relative_path();
    for (fs::path below = below_mount(mount, *path, mounted);; below = below.parent_path()) {
      const std::optional<double> cpus = quota_in(mounted / below, mount.version);
      if (cpus && (!tightest || *cpus < tightest->cpus))
        tightest = {*cpus, "cgroup v" + std::to_string(mount.version) + " quota " + with_decimal(*cpus) +
                               (below.empty() ? "" : " in /" + below.string())};
      if (below.empty()) break;
    }
  }
  return tightest;
}

process_limits read_limits(const fs::path& root) {
  process_limits limits;
  if (std::vector<int> mask = affinity_mask(); !mask.empty()) limits.mask = std::move(mask);
  limits.quota = read_quota(root);
  limits.isolated = first_line(root / "sys/devices/system/cpu/isolated");
  limits.nohz_full = first_line(root / "sys/devices/system/cpu/nohz_full");
  if (limits.nohz_full == "(null)") limits.nohz_full.clear();
  limits.running_on = ::sched_getcpu();
  return limits;
}

namespace {

// The `count` CPUs to use when not all are: fast cores before slow ones, a core's second thread after all first ones, and
// near `start`, so that few workers share caches.
cpu_set pick(const topology& machine, const cpu_set& from, size_t count, cpu_id start) {
  struct candidate {
    int thread, slowness, distance, elsewhere, llc;
    cpu_id cpu;
    auto key() const { return std::tie(thread, slowness, distance, elsewhere, llc, cpu); }
  };
  std::vector<candidate> all;
  for (cpu_id c : from) {
    int thread = 0;
    for (cpu_id sibling : machine.core_of(c) & from) thread += sibling < c;
    all.push_back({thread, -machine.at(c).capacity, machine.distance(start, c), machine.share_llc(start, c) ? 0 : 1,
                   machine.at(c).llc, c});
  }
  std::sort(all.begin(), all.end(), [](const candidate& a, const candidate& b) { return a.key() < b.key(); });
  cpu_set chosen;
  for (size_t i = 0; i < count; i++) chosen.add(all[i].cpu);
  return chosen;
}

std::string cpus_text(const topology& machine, const cpu_set& set) {
  return (set.count() == 1 ? "CPU " : "CPUs ") + machine.list(set);
}

}  // namespace

worker_choice choose_workers(const topology& machine, const worker_request& request, const process_limits& limits) {
  worker_choice choice;
  std::string reason;
  const auto because = [&reason](const std::string& why) { reason += (reason.empty() ? "" : "; ") + why; };

  choice.allowed = machine.all();
  if (machine.forbidden_count > 0)
    because("a cpuset allows " + std::to_string(machine.cpu_count()) + " of " +
            std::to_string(machine.cpu_count() + static_cast<size_t>(machine.forbidden_count)) + " CPUs");
  if (limits.mask) {
    cpu_set mask;
    for (int os_id : *limits.mask)
      if (const cpu_id c = machine.find_os(os_id); valid(c)) mask.add(c);
    choice.allowed &= mask;
    if (choice.allowed.empty()) {
      choice.error = "no CPU of this machine (" + machine.list(machine.all()) + ") is in the affinity mask";
      return choice;
    }
    if (choice.allowed != machine.all())
      because("the affinity mask allows " + cpus_text(machine, choice.allowed) + " of " + machine.list(machine.all()));
  }
  if (!request.cpus.empty()) {
    std::string error;
    const cpu_set asked = parse_cpu_list(machine, request.cpus, error);
    if (error.empty() && !choice.allowed.contains(asked))
      error = "'" + request.cpus + "' is not within CPUs " + machine.list(choice.allowed) + ", which are allowed";
    if (!error.empty()) {
      choice.error = request.cpus_source + ": " + error;
      return choice;
    }
    choice.allowed = asked;
    because(request.cpus_source + " " + request.cpus);
  }

  size_t count = choice.allowed.count();
  if (request.workers) {
    if (*request.workers < 1 || static_cast<size_t>(*request.workers) > count) {
      choice.error =
          request.workers_source + ": '" + std::to_string(*request.workers) + "' is not 1.." + std::to_string(count);
      return choice;
    }
    count = static_cast<size_t>(*request.workers);
    because(request.workers_source + " " + std::to_string(count));
  } else if (limits.quota && std::ceil(limits.quota->cpus) < static_cast<double>(count)) {
    count = std::max<size_t>(1, static_cast<size_t>(std::ceil(limits.quota->cpus)));
    because(limits.quota->where);
  }

  // Many processes under small quotas must not all sit on the lowest CPUs; where the kernel put us is a fair start.
  cpu_id start = choice.allowed.lowest();
  if (const cpu_id here = machine.find_os(limits.running_on);
      !request.workers && valid(here) && choice.allowed.has(here))
    start = here;
  choice.chosen = count == choice.allowed.count() ? choice.allowed : pick(machine, choice.allowed, count, start);
  choice.reason = reason.empty() ? "one per CPU" : reason;
  return choice;
}

}  // namespace heddle::core
