#include "bench_apps/common/result.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench_apps/common/command.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench {
namespace {

// JSON has no NaN and no infinity; a figure that is none is null.
ordered_json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

std::optional<double> statistic_ns(const histogram& h, std::string_view name) {
  if (name == "mean") return h.mean_ns();
  if (name == "stddev") return h.stddev_ns();
  if (name == "min") return h.min_ns();
  if (name == "max") return h.max_ns();
  return h.percentile_ns(std::stod(std::string(name.substr(1))));
}

ordered_json run_json(const run_result& run) {
  ordered_json out = {{"seed", run.seed}, {"seconds", run.seconds}, {"ended", name_of(run.ended)}};
  if (!run.error.empty()) out["error"] = run.error;
  out["metrics"] = ordered_json::object();
  for (const metric& m : run.metrics) out["metrics"][m.name] = to_json(m);
  out["counters"] = ordered_json::object();
  for (const auto& [name, count] : run.counters) out["counters"][name] = count;
  if (!run.notes.empty()) out["notes"] = run.notes;
  return out;
}

ordered_json case_json(const result_case& one) {
  ordered_json out = {{"name", one.name}, {"backend", one.backend}};
  if (!one.runs.empty()) {
    const run_result& run = one.runs.front();
    out["preset"] = run.preset;
    out["changed"] = run.changed;
    out["settings"] = run.settings;
    out["options"] = one.options;
    out["workers"] = run.workers;
    out["machine"] = run.machine;
    if (!run.idle_policy.empty()) out["idle_policy"] = run.idle_policy;
  } else {
    out["options"] = one.options;
  }
  out["runs"] = ordered_json::array();
  for (const run_result& run : one.runs) out["runs"].push_back(run_json(run));
  return out;
}

ordered_json resources_json(size_t case_index, size_t run_index, const run_result& run) {
  ordered_json out = {{"case", case_index},
                      {"run", run_index},
                      {"cpu_user_s", run.spent.cpu_user_s},
                      {"cpu_sys_s", run.spent.cpu_sys_s},
                      {"cpu_us_per_op", number(run.spent.cpu_us_per_op)},
                      {"switches_voluntary", run.spent.switches_voluntary},
                      {"switches_involuntary", run.spent.switches_involuntary}};
  if (!run.disturbances.empty()) out["disturbances"] = run.disturbances;
  return out;
}

}  // namespace

std::string_view name_of(direction better) { return better == direction::lower ? "lower" : "higher"; }

std::string_view name_of(ending ended) {
  return ended == ending::complete ? "complete" : ended == ending::interrupted ? "interrupted" : "failed";
}

std::optional<double> metric::figure(std::string_view statistic) const {
  if (!is_distribution()) return std::get<1>(value);
  if (statistic == "samples") return static_cast<double>(samples().samples());
  const auto ns = statistic_ns(samples(), statistic);
  return ns ? std::optional(*ns / ns_per_unit) : std::nullopt;
}

metric distribution_us(std::string name, histogram samples, direction better) {
  return {.name = std::move(name), .better = better, .value = std::move(samples)};
}

metric figure(std::string name, std::optional<double> value, direction better) {
  return {.name = std::move(name), .better = better, .value = value};
}

const metric* run_result::find(std::string_view name) const {
  for (const metric& m : metrics)
    if (m.name == name) return &m;
  return nullptr;
}

ordered_json to_json(const metric& m) {
  if (!m.is_distribution()) {
    ordered_json single = {{"value", number(m.figure())}, {"better", name_of(m.better)}};
    if (m.detail) single["detail"] = true;
    return single;
  }
  const histogram& h = m.samples();
  ordered_json out = {{"samples", h.samples()}};
  for (std::string_view name : statistic_names) out[std::string(name)] = number(m.figure(name));
  out["better"] = name_of(m.better);
  if (m.detail) out["detail"] = true;  // explains another metric: `compare --from` leaves it out
  if (h.clamped() > 0) out["clamped"] = h.clamped();
  out["histogram_ns"] = ordered_json::array();
  for (const auto& b : h.buckets()) out["histogram_ns"].push_back({b.upper_ns, b.count});
  return out;
}

ordered_json to_json(const result_document& document) {
  ordered_json out = {{"schema", 1},
                      {"heddle", version()},
                      {"app", document.app},
                      {"command", document.command},
                      {"ended", name_of(document.ended)}};
  if (!document.error.empty()) out["error"] = document.error;
  out["environment"] = document.environment;
  out["cases"] = ordered_json::array();
  out["resources"] = ordered_json::array();
  for (size_t c = 0; c < document.cases.size(); c++) {
    out["cases"].push_back(case_json(document.cases[c]));
    for (size_t r = 0; r < document.cases[c].runs.size(); r++)
      out["resources"].push_back(resources_json(c, r, document.cases[c].runs[r]));
  }
  out["comparison"] = document.comparison;
  return out;
}

namespace {

// /dev/null, a pipe: written in place. Renaming a draft over it would replace the device by a file.
bool is_special(const std::string& where) {
  std::error_code unknown;
  const auto kind = std::filesystem::status(where, unknown).type();
  using std::filesystem::file_type;
  return kind != file_type::regular && kind != file_type::not_found && kind != file_type::none;
}

void write_text(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw run_error(fmt::format("{}: could not write the result: {}", path, std::strerror(errno)));
}

}  // namespace

bool can_write_json(const std::string& where) {
  if (where == "-") return true;
  if (is_special(where)) return !std::filesystem::is_directory(where) && ::access(where.c_str(), W_OK) == 0;
  const std::string draft = where + ".part";
  const bool possible = std::ofstream(draft).is_open();
  std::remove(draft.c_str());
  return possible;
}

void write_json(const ordered_json& document, const std::string& where) {
  // Names that came from a user's file may not be UTF-8; a result file must be JSON all the same.
  write_result(document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n", where);
}

void write_result(const std::string& text, const std::string& where) {
  if (where == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw run_error("stdout: could not write the result");
    return;
  }
  // Beside the target first: an interrupted write must not leave half a file under the name somebody reads.
  if (is_special(where)) return write_text(text, where);
  const std::string draft = where + ".part";
  write_text(text, draft);
  if (std::rename(draft.c_str(), where.c_str()) != 0)
    throw run_error(fmt::format("{}: could not write the result: {}", where, std::strerror(errno)));
}

}  // namespace heddle::bench
