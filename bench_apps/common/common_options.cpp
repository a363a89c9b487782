#include "bench_apps/common/common_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "bench_apps/common/environment.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/units.h"

namespace heddle::bench {

std::vector<backend_kind> common_options::backends() const {
  if (backend == "both") return {backend_kind::fibers, backend_kind::threads};
  return {backend == "threads" ? backend_kind::threads : backend_kind::fibers};
}

namespace {

// One setting a line; what follows a # is for people.
std::string read_costs(const std::string& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    throw usage_error(fmt::format("--costs: '{}' is not a file that can be read", path));
  constexpr size_t bytes_max = 1 << 20;  // of lines without an end, too
  std::string text(bytes_max, '\0');
  file.read(text.data(), bytes_max);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() == bytes_max)
    throw usage_error(
        fmt::format("--costs: '{}' is over {}, too long for a list of costs", path, show_size(bytes_max)));
  std::string list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.size(), line.find('#')));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string item = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (item.find('=') == std::string::npos)
      throw usage_error(fmt::format("--costs: '{}' in {} is not NAME=VALUE", item, path));
    list += (list.empty() ? "" : ",") + item;
  }
  return list;
}

}  // namespace

std::string common_options::settings_list() const {
  std::string list = preset;
  const auto append = [&list](const std::string& item) {
    if (!item.empty()) list += (list.empty() ? "" : ",") + item;
  };
  if (!costs.empty()) append(read_costs(costs));
  append(features);
  for (const std::string& item : set) append(item);
  return list;
}

namespace {

std::function<bool(const std::string&)> worker_count(common_options& o) {
  return [&o](const std::string& text) {
    const auto n = parse_count(text);
    if (text != "auto" && (!n || *n < 1 || *n > tasks.max)) return false;
    o.workers = n ? std::to_string(*n) : text;
    return true;
  };
}

std::string worker_range() { return "auto or " + describe(count_range{1, tasks.max}); }

constexpr count_range seeds{0, std::numeric_limits<int64_t>::max() / 2};

void declare_machine(arguments& args, common_options& o) {
  args.text("--machine", o.machine, "host, or a virtual machine: hwloc synthetic string, XML file or built-in name");
  args.value("--workers", o.workers, worker_count(o), worker_range(), "N|auto", "how many workers");
  args.text("--cpus", o.cpus, "which CPUs, as OS ids: 0,2-5");
}

void declare_settings(arguments& args, common_options& o) {
  args.text("--preset", o.preset, "a named group of settings (heddle presets)");
  args.texts("--set", o.set, "one setting: NAME=VALUE, TOGGLE or NO_TOGGLE; may be repeated");
  args.text("--costs", o.costs, "calibrated costs for the virtual machine (heddle micro --calibrate > FILE)");
  args.text("--features", o.features, "a list of settings in the kernel's notation");
}

void declare_runs(arguments& args, common_options& o) {
  args.choice("--backend", o.backend, {"fibers", "threads", "both"},
              "what runs the roles; both: interleaved, one table");
  args.flag("--pin-threads", o.pin_threads, "backend threads: pinned round robin, not floating");
  args.count("--repeat", o.repeat, {1, 1'000'000}, "runs of each case");
  args.duration("--warmup", o.warmup, {}, "time before recording starts");
  args.count("--seed", o.seed, seeds, "run i uses seed N+i");
  args.text("--json", o.json, "the result as JSON; '-' is stdout, and then nothing else goes there");
  args.text("--schedstat", o.schedstat, "the runs' counters in the layout of /proc/schedstat (one app, fibers)");
  args.choice("--format", o.format, {"table", "original", "csv", "markdown", "lkml", "benchstat"},
              "how results are printed");
  args.choice("--progress", o.progress, {"auto", "always", "never"}, "a progress line on stderr for anything over 2 s");
  args.flag("--quiet", o.quiet, "no progress, no header");
}

void read_variables(const arguments& args, common_options& o) {
  const auto declared = args.names();
  const auto wanted = [&](const char* option, const char* name) -> std::optional<std::string> {
    if (std::ranges::find(declared, option) == declared.end() || args.given(option)) return std::nullopt;
    return variable(name);
  };
  const auto refuse = [](const char* name, const std::string& value, const std::string& range) {
    throw usage_error(fmt::format("{}: '{}' is not {}", name, value, range));
  };
  if (const auto text = wanted("--workers", "HEDDLE_WORKERS"); text && !worker_count(o)(*text))
    refuse("HEDDLE_WORKERS", *text, worker_range());
  if (const auto text = wanted("--seed", "HEDDLE_SEED"); text && !in_range(o.seed, seeds)(*text))
    refuse("HEDDLE_SEED", *text, describe(seeds));
  if (const auto text = wanted("--cpus", "HEDDLE_CPUS")) o.cpus = *text;
}

}  // namespace

namespace {

void declare_groups(arguments& args, common_options& options, option_groups groups) {
  args.group("Every app takes");
  if (groups.machine) declare_machine(args, options);
  if (groups.settings) declare_settings(args, options);
  if (groups.runs) declare_runs(args, options);
}

}  // namespace

void declare_common(arguments& args, common_options& options, option_groups groups) {
  declare_groups(args, options, groups);
  args.config_file("--config", "options from a file, one `name = value` a line");
}

namespace {

// Parses what may stand before the command. A file named there is read once, by the command's own parser.
void declare_outer(arguments& outer, common_options& ignored) {
  declare_groups(outer, ignored, {});
  outer.text("--config", ignored.json, "");
}

}  // namespace

bool parse_command(arguments& args, const invocation& typed, common_options& options) {
  common_options ignored;
  arguments outer("", "");
  declare_outer(outer, ignored);
  outer.parse(typed.before);

  std::vector<std::string> all = typed.before;
  all.insert(all.end(), typed.args.begin(), typed.args.end());
  if (!args.parse(all)) return false;
  read_variables(args, options);

  for (const std::string& name : outer.names()) {
    if (!outer.given(name) || name == "--help" || name == "-h") continue;
    if (args.times_given(name) > outer.times_given(name))
      throw usage_error(fmt::format("{}: given both before and after the command; once is enough", name));
  }
  return true;
}

size_t find_command(const std::vector<std::string>& words) {
  common_options ignored;
  arguments outer("", "");
  declare_outer(outer, ignored);
  outer.leave_rest();
  bool asked = false;
  outer.flag("--version", asked, "");
  outer.flag("-h,--help", asked, "");
  outer.parse(words);
  // In the words as typed: parse() glues a negative number to its option.
  const std::vector<std::string>& parsed = outer.parsed_words();
  size_t cut = 0;
  for (size_t i = 0; i < parsed.size() - outer.rest().size(); i++) cut += parsed[i] == words[cut] ? 1 : 2;
  return cut;
}

}  // namespace heddle::bench
