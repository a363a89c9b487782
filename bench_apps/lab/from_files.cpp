#include "bench_apps/lab/from_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "bench_apps/common/errors.h"

namespace heddle::bench::lab {

namespace {

using json = nlohmann::ordered_json;

constexpr int schema_known = 1;

std::optional<double> number_at(const json& object, const std::string& key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

// A metric object of a file as one series per compared statistic, the run's figure appended to each.
void add_run(std::vector<series>& all, const std::string& name, const json& m, std::string_view primary, size_t run) {
  if (m.value("detail", false)) return;
  const auto add = [&](const std::string& statistic, std::optional<double> value) {
    auto at = std::ranges::find_if(all, [&](const series& s) { return s.metric == name && s.statistic == statistic; });
    if (at == all.end()) {
      all.push_back({.metric = name,
                     .statistic = statistic,
                     .better = m.value("better", "lower") == "higher" ? direction::higher : direction::lower,
                     .primary = name == primary && (statistic.empty() || statistic == "p50"),
                     .trusted = true,
                     .values = {}});
      at = all.end() - 1;
    }
    at->values.resize(run);
    at->values.push_back(value);
    if (!statistic.empty() && value)
      at->trusted &= m.value("samples", 0.0) * (100 - std::stod(statistic.substr(1))) / 100 >= 10;
  };
  if (m.contains("value"))
    add("", number_at(m, "value"));
  else
    for (const char* statistic : {"p50", "p90", "p99", "p99.9"}) add(statistic, number_at(m, statistic));
}

struct group_keys {
  std::string machine, options;
};

struct file_case {
  compared_case content;
  std::string file;
  group_keys keys;
};

std::string options_text(const json& options) {
  std::string text;
  for (const auto& [name, value] : options.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", name,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

file_case read_case(const std::string& file, const json& document, size_t index, std::string_view primary) {
  const json& one = document.at("cases").at(index);
  file_case c{.content = {.name = one.at("name").get<std::string>()},
              .file = std::filesystem::path(file).stem().string(),
              .keys = {}};
  const json machine = one.value("machine", json::object());
  const std::string model = document.value("environment", json::object()).value("cpu_model", "");
  const std::string name = machine.is_object() ? machine.value("name", "host") : "host";
  c.keys.machine = name == "host" && !model.empty()
                       ? fmt::format("{} x{}", model, machine.is_object() ? machine.value("cpu_count", 0) : 0)
                       : name;
  c.keys.options = options_text(one.value("options", json::object()));
  size_t run = 0;
  for (const json& r : one.at("runs")) {
    if (r.value("ended", "complete") != "complete") continue;
    for (const auto& [metric_name, m] : r.at("metrics").items())
      add_run(c.content.figures, metric_name, m, primary, run);
    run++;
  }
  for (series& s : c.content.figures) s.values.resize(run);
  std::ranges::stable_partition(c.content.figures, [](const series& s) { return s.primary; });
  return c;
}

size_t distinct(const std::vector<file_case>& all, std::string group_keys::* key) {
  std::set<std::string> seen;
  for (const file_case& c : all) seen.insert(c.keys.*key);
  return seen.size();
}

// Cases of one name in one group are told apart by their files.
void name_apart(std::vector<file_case>& all) {
  std::vector<std::string> names;
  for (const file_case& c : all) {
    const auto twins = std::ranges::count_if(
        all, [&](const file_case& o) { return o.content.name == c.content.name && o.content.vary == c.content.vary; });
    names.push_back(twins > 1 ? c.file + ":" + c.content.name : c.content.name);
  }
  for (size_t i = 0; i < all.size(); i++) all[i].content.name = names[i];
}

}  // namespace

read_result read_documents(const std::vector<std::pair<std::string, json>>& named,
                           const std::function<std::string(const std::string&)>& primary_of) {
  read_result result;
  std::vector<file_case> all;
  for (const auto& [file, document] : named) {
    if (!document.is_object() || document.value("schema", 0) != schema_known || !document.contains("cases"))
      throw usage_error(fmt::format("--from: '{}' is not a result file of schema {}", file, schema_known));
    const std::string app = document.value("app", "");
    if (result.app.empty()) result.app = app;
    if (app != result.app)
      throw usage_error(fmt::format("--from: '{}' is of {}, the files before it of {}", file, app, result.app));
    try {
      for (size_t i = 0; i < document["cases"].size(); i++)
        all.push_back(read_case(file, document, i, primary_of(app)));
    } catch (const json::exception&) {
      throw usage_error(fmt::format("--from: '{}' is not a complete result file of schema {}", file, schema_known));
    }
  }
  const bool machines = distinct(all, &group_keys::machine) > 1, options = distinct(all, &group_keys::options) > 1;
  for (file_case& c : all) {
    c.content.vary = machines ? c.keys.machine : "";
    if (options) c.content.vary += (machines ? ", " : "") + c.keys.options;
  }
  name_apart(all);
  std::set<std::string> groups;
  bool any_pair = false;
  for (const file_case& c : all) any_pair |= !groups.insert(c.content.vary).second;
  if (!any_pair)
    throw usage_error("--from: no two cases have machine and options in common, so there is nothing to compare");
  for (file_case& c : all) result.cases.push_back(std::move(c.content));
  return result;
}

read_result read_files(const std::vector<std::string>& paths,
                       const std::function<std::string(const std::string&)>& primary_of) {
  std::vector<std::pair<std::string, json>> named;
  for (const std::string& path : paths) {
    std::ifstream in(path);
    if (!in) throw usage_error(fmt::format("--from: '{}' is not a file that can be read", path));
    named.emplace_back(path, json::parse(in, nullptr, false));
  }
  return read_documents(named, primary_of);
}

}  // namespace heddle::bench::lab
