#include "bench_apps/common/driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <optional>

#include "bench_apps/common/calibration.h"
#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/environment.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/common/machine_facts.h"
#include "bench_apps/common/measure.h"
#include "bench_apps/common/print.h"
#include "bench_apps/common/progress.h"
#include "bench_apps/common/run_settings.h"

namespace heddle::bench {
namespace {

void refuse_unsuitable(const common_options& o) {
  if (o.format == "lkml" || o.format == "benchstat")
    throw usage_error(fmt::format(
        "--format: '{}' is not a format of one app (table, original, csv, markdown); it is compare's", o.format));
  if (!o.json.empty() && !can_write_json(o.json))
    throw usage_error(fmt::format("--json: '{}' is not a file that can be written", o.json));
  if (!o.schedstat.empty() && o.backend == "threads")
    throw usage_error("--schedstat: the backend is threads, which the kernel counts in /proc/schedstat");
  if (!o.schedstat.empty() && (o.schedstat == "-" || !can_write_json(o.schedstat)))
    throw usage_error(fmt::format("--schedstat: '{}' is not a file that can be written", o.schedstat));
  if (!o.on_host() && o.backend != "fibers")
    throw usage_error(
        fmt::format("--backend: '{}' is not fibers, all that runs on a virtual machine ({})", o.backend, o.machine));
  if (o.pin_threads && o.backend == "fibers")
    throw usage_error(
        "--pin-threads: the backend is fibers, whose workers are always pinned; give --backend threads or both");
  choose_settings(o.settings_list());
  facts_of(o.machine);
  if (o.on_host()) chosen_cpus(o.cpus, o.workers);
}

// One run of every case after the other, so that a slow drift of the machine meets all of them alike.
void run_cases(app& what, const common_options& o, const calibration* work, result_document& document) {
  interrupt_guard guard;
  progress bar(o.quiet ? "never" : o.progress);
  const auto backends = o.backends();
  const nanos each = what.run_length() + o.warmup;
  for (int64_t i = 0; i < o.repeat && !stop_requested(); i++)
    for (size_t c = 0; c < backends.size() && !stop_requested(); c++) {
      bar.begin(fmt::format("{} {}, run {} of {}", document.app, name_of(backends[c]), i + 1, o.repeat),
                each * (o.repeat * static_cast<int64_t>(backends.size())));
      document.cases[c].runs.push_back(run_measured(what, make_request(o, backends[c], work, i)));
      bar.end();
      const run_result& run = document.cases[c].runs.back();
      if (run.ended == ending::failed) {
        document.ended = ending::failed;
        document.error = fmt::format("{}, run {}: {}", name_of(backends[c]), i + 1, run.error);
      }
    }
  if (stop_requested()) document.ended = ending::interrupted;
}

std::string header(const invocation& typed, const common_options& o, const calibration* work) {
  std::string text = fmt::format("heddle {}\n", fmt::join(typed.words, " "));
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<9} {}\n", name, value);
  };
  if (o.on_host()) {
    const auto cpus = chosen_cpus(o.cpus, o.workers);
    line("machine", fmt::format("host, CPUs {}; {}{}; {}", show_cpu_list(cpus), cpu_model(),
                                under_hypervisor() ? " (virtual machine)" : "", kernel_name()));
  } else {
    line("machine", o.machine + ", virtual");
  }
  if (o.backend != "threads") line("settings", show_settings(choose_settings(o.settings_list())));
  line("seed", o.repeat > 1 ? fmt::format("{} to {}", o.seed, o.seed + o.repeat - 1) : std::to_string(o.seed));
  if (work != nullptr) line("work", fmt::format("{:.3f} ns per iteration", work->ns_per_iteration()));
  return text + "\n";
}

// One run's counters after the other's, as one reads the kernel's file again and again.
std::string schedstat_of(const result_document& document) {
  std::string text;
  for (const result_case& one : document.cases)
    for (const run_result& run : one.runs) text += run.schedstat;
  return text;
}

void print_results(app& what, const common_options& o, const result_document& document) {
  if (o.format == "original") {
    for (const result_case& one : document.cases)
      for (const run_result& run : one.runs) {
        if (document.cases.size() > 1 || one.runs.size() > 1) fmt::print("# {}, seed {}\n", one.name, run.seed);
        std::fputs(what.original(run).c_str(), stdout);
      }
    return;
  }
  const auto style = o.format == "csv"        ? table::style::csv
                     : o.format == "markdown" ? table::style::markdown
                                              : table::style::aligned;
  std::fputs(results_text(document, style).c_str(), stdout);
}

}  // namespace

run_request make_request(const common_options& o, backend_kind backend, const calibration* work, int64_t index) {
  return {.backend = backend,
          .machine = o.machine,
          .workers = o.workers,
          .cpus = o.cpus,
          .settings = o.settings_list(),
          .seed = static_cast<uint64_t>(o.seed + index),
          .warmup = o.warmup,
          .pin_threads = o.pin_threads,
          .work = work};
}

int status_of(const result_document& document) {
  if (document.ended == ending::interrupted) return 128 + caught_signal();
  return document.ended == ending::failed ? exit_failed : exit_done;
}

int run_app(const app_kind& kind, const invocation& typed) {
  const auto what = kind.make();
  arguments args(kind.name, kind.summary);
  common_options o;
  what->declare(args);
  declare_common(args, o);
  if (!parse_command(args, typed, o)) return exit_done;
  what->check();
  refuse_unsuitable(o);
  for (const backend_kind b : o.backends()) what->check_request(make_request(o, b, nullptr, 0));

  result_document document{.app = std::string(kind.name), .command = typed.words};
  for (const backend_kind b : o.backends())
    document.cases.push_back(
        {.name = std::string(name_of(b)), .backend = std::string(name_of(b)), .options = what->options()});
  std::optional<calibration> work;
  if (o.on_host()) {
    document.environment = environment_record();
    work = calibration::measure();
    document.environment["ns_per_iteration"] = work->ns_per_iteration();
  }
  const bool people = o.format == "table" && !o.json_on_stdout();
  if (people && !o.quiet) std::fputs(header(typed, o, work ? &*work : nullptr).c_str(), stdout);
  std::fflush(stdout);

  run_cases(*what, o, work ? &*work : nullptr, document);

  if (work)
    if (const auto warning = work->recheck()) {
      document.environment["warnings"].push_back(*warning);
      fmt::print(stderr, "heddle: warning: {}\n", *warning);
    }
  if (!o.json_on_stdout()) print_results(*what, o, document);
  if (!o.json.empty()) write_json(to_json(document), o.json);
  if (!o.schedstat.empty()) write_result(schedstat_of(document), o.schedstat);
  if (document.ended == ending::failed) fmt::print(stderr, "heddle: {}: {}\n", kind.name, document.error);
  return status_of(document);
}

}  // namespace heddle::bench
