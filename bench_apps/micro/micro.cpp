// The app: options, a run as a result. The command: cases by number of workers, the table, the result file.
#include "bench_apps/micro/micro.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "bench_apps/common/common_options.h"
#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/driver.h"
#include "bench_apps/common/environment.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/common/machine_facts.h"
#include "bench_apps/common/measure.h"
#include "bench_apps/common/progress.h"
#include "bench_apps/common/run_settings.h"
#include "bench_apps/micro/calibrate.h"
#include "bench_apps/micro/micro_table.h"
#include "bench_apps/micro/run.h"

namespace heddle::bench {
namespace {

using namespace micro;

metric to_metric(const outcome& o) {
  metric m = figure(std::string(o.info.name), o.median, o.info.better);
  m.detail = o.info.name.starts_with("anchor_");
  return m;
}

class micro_program final : public app {
 public:
  void declare(arguments& args) override {
    args.text("--only", only_, "figures whose names begin so: yield,spawn_join");
    args.count("--rounds", rounds_, {1, 1000}, "how often each figure is measured in a run; long ones less often");
    args.flag("--quick", quick_, "a tenth of the work: a glance, not a measurement");
    args.count("--live", live_, {0, 10'000'000}, "how many fibers live1m keeps alive; 0 leaves it out");
  }
  void check() override { selection{only_}; }
  ordered_json options() const override {
    return {{"--only", only_}, {"--rounds", rounds_}, {"--quick", quick_}, {"--live", live_}};
  }
  nanos run_length() const override { return nanos{0}; }
  std::string_view primary_metric() const override { return "yield2_ns"; }
  std::string original(const run_result& result) const override {
    std::string text;
    for (const metric& m : result.metrics) text += fmt::format("{} {}\n", m.name, m.figure().value_or(0));
    return text;
  }

  run_result run(const run_request& request) override {
    if (!request.on_host()) throw usage_error("--machine: micro measures this machine; only host is accepted");
    if (request.backend == backend_kind::threads)
      throw usage_error("--backend: 'threads' is not fibers; micro measures heddle itself");
    const auto settings = choose_settings(request.settings);
    const auto cpus = chosen_cpus(request.cpus, "auto");
    const size_t workers = request.workers == "auto" ? cpus.size() : std::stoul(request.workers);
    if (workers > cpus.size())
      throw usage_error(fmt::format("--workers: '{}' is not auto or 1..{}", workers, cpus.size()));
    last_ = run_rounds({.only = selection(only_),
                        .rounds = rounds_,
                        .live = live_,
                        .workers = workers,
                        .fixed = fixed_,
                        .cpus = cpus,
                        .settings = request.settings,
                        .seed = request.seed,
                        .part = quick_ ? 10 : 1},
                       begin_);
    run_result result;
    record_settings(result, settings);
    result.workers = static_cast<int>(workers);
    result.machine = facts_of("host").record;
    result.notes = last_.notes;
    for (const outcome& o : last_.figures) result.metrics.push_back(to_metric(o));
    return result;
  }

  // For the command.
  void fixed(bool included) { fixed_ = included; }
  void on_begin(std::function<void(const std::string&)> begin) { begin_ = std::move(begin); }
  const outcomes& last() const { return last_; }

 private:
  std::string only_;
  int64_t rounds_ = 5;
  bool quick_ = false;
  int64_t live_ = 1'000'000;
  bool fixed_ = true;
  std::function<void(const std::string&)> begin_ = [](const std::string&) {};
  outcomes last_;
};

// "1,2" or "auto".
std::vector<std::string> worker_counts(const std::string& text, size_t available) {
  std::vector<std::string> counts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto n = parse_count(word);
    if (word != "auto" && (!n || *n < 1 || *n > static_cast<int64_t>(available)))
      throw usage_error(fmt::format("--workers: '{}' is not auto or a list of 1..{}", word, available));
    counts.push_back(n ? std::to_string(*n) : word);
  }
  if (counts.empty()) throw usage_error(fmt::format("--workers: '{}' is not auto or a list of 1..{}", text, available));
  return counts;
}

struct wishes {
  bool list = false;
  bool calibrate = false;
  std::string workers = "auto";
};

void print_header(const invocation& typed, const common_options& o) {
  std::string words;
  for (const std::string& w : typed.words) words += " " + w;
  fmt::print("heddle{}\n  machine   host, CPUs {}; {}{}; {}\n  settings  {}\n  seed      {}\n\n", words,
             show_cpu_list(chosen_cpus(o.cpus, "auto")), cpu_model(), under_hypervisor() ? " (virtual machine)" : "",
             kernel_name(), show_settings(choose_settings(o.settings_list())), o.seed);
  std::fflush(stdout);
}

// What the command has of a run beside its result.
struct report {
  size_t case_index;
  outcomes found;
  std::string text;
};

void run_cases(micro_program& what, const common_options& o, const std::vector<std::string>& workers,
               result_document& document, std::vector<report>& reports) {
  interrupt_guard guard;
  progress bar(o.quiet ? "never" : o.progress);
  what.on_begin([&bar](const std::string& now) { bar.begin("micro: " + now, nanos{0}); });
  const auto style = o.format == "csv"        ? table::style::csv
                     : o.format == "markdown" ? table::style::markdown
                                              : table::style::aligned;
  for (int64_t i = 0; i < o.repeat && !stop_requested(); i++)
    for (size_t c = 0; c < workers.size() && !stop_requested(); c++) {
      what.fixed(c == 0);
      run_request request = make_request(o, backend_kind::fibers, nullptr, i);
      request.workers = workers[c];
      result_case& one = document.cases[c];
      one.runs.push_back(run_measured(what, request));
      bar.end();
      const run_result& run = one.runs.back();
      if (run.ended == ending::failed) {
        document.ended = ending::failed;
        document.error = run.error;
        continue;
      }
      std::string text;
      if (style == table::style::aligned && (workers.size() > 1 || o.repeat > 1))
        text = fmt::format("{}, seed {}\n", one.name, run.seed);
      reports.push_back({c, what.last(), text + micro_table(what.last(), run.disturbances, style)});
    }
  if (stop_requested()) document.ended = ending::interrupted;
}

// The result file, each figure with its range and target beside its value. Failed runs have no report and no figures.
ordered_json with_ranges(ordered_json file, const std::vector<report>& reports) {
  std::vector<size_t> next_run(file["cases"].size());
  for (const report& r : reports) {
    ordered_json& runs = file["cases"][r.case_index]["runs"];
    size_t& at = next_run[r.case_index];
    while (at < runs.size() && runs[at]["ended"] == "failed") at++;
    ordered_json& metrics = runs[at++]["metrics"];
    for (const outcome& o : r.found.figures) metrics[std::string(o.info.name)].update(range_json(o));
  }
  return file;
}

}  // namespace

std::unique_ptr<app> make_micro() { return std::make_unique<micro_program>(); }

int run_micro(const invocation& typed) {
  arguments args("micro", micro_summary);
  common_options o;
  wishes want;
  micro_program what;
  what.declare(args);
  args.flag("--list", want.list, "names and meanings of the figures");
  args.flag("--calibrate", want.calibrate, "this machine's costs for the virtual machine, as a file for --costs");
  args.text("--workers", want.workers, "auto, or counts such as 1,2: one case each, for figures that do not fix it");
  declare_common(args, o, {.machine = false});
  args.text("--cpus", o.cpus, "which CPUs, as OS ids: 0,2-5");
  if (!parse_command(args, typed, o)) return exit_done;
  if (!args.given("--workers")) want.workers = o.workers;  // HEDDLE_WORKERS
  if (want.calibrate) {
    const auto cpus = chosen_cpus(o.cpus, "auto");
    const plan p{
        .only = selection(calibrating), .workers = cpus.size(), .cpus = cpus, .seed = static_cast<uint64_t>(o.seed)};
    std::fputs(costs_text(run_rounds(p, [](const std::string&) {}), facts_of("host").machine).c_str(), stdout);
    return exit_done;
  }
  if (want.list) return std::fputs(figure_list().c_str(), stdout), exit_done;
  what.check();
  if (!o.schedstat.empty()) throw usage_error("--schedstat: micro has no place for it; give it to an app");
  if (o.backend != "fibers")
    throw usage_error(fmt::format("--backend: '{}' is not fibers; micro measures heddle itself", o.backend));
  if (o.format != "table" && o.format != "csv" && o.format != "markdown")
    throw usage_error(fmt::format("--format: '{}' is not a format of micro (table, csv, markdown)", o.format));
  choose_settings(o.settings_list());
  const auto workers = worker_counts(want.workers, chosen_cpus(o.cpus, "auto").size());

  result_document document{.app = "micro", .command = typed.words};
  document.environment = environment_record();
  for (const std::string& w : workers)
    document.cases.push_back({.name = workers.size() == 1 ? "fibers" : w + (w == "1" ? " worker" : " workers"),
                              .backend = "fibers",
                              .options = what.options()});
  if (o.format == "table" && !o.json_on_stdout() && !o.quiet) print_header(typed, o);

  std::vector<report> reports;
  run_cases(what, o, workers, document, reports);
  if (!o.json_on_stdout())
    for (const report& r : reports) std::fputs(r.text.c_str(), stdout);
  if (!o.json.empty()) write_json(with_ranges(to_json(document), reports), o.json);
  if (document.ended == ending::failed) fmt::print(stderr, "heddle: micro: {}\n", document.error);
  return status_of(document);
}

}  // namespace heddle::bench
