#include "bench_apps/lab/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "bench_apps/common/calibration.h"
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
#include "bench_apps/common/suggest.h"
#include "bench_apps/lab/blocks.h"
#include "bench_apps/lab/comparison.h"
#include "bench_apps/lab/from_files.h"
#include "bench_apps/lab/layout.h"
#include "bench_apps/lab/plan.h"

namespace heddle::bench {
namespace {

using namespace lab;

constexpr int64_t repeat_default = 10;

struct compare_options {
  common_options common;
  std::vector<std::string> cases, varies, from;
  double fail_over_pct = -1;  // -1: not given
};

void declare(arguments& args, compare_options& o) {
  o.common.format = "lkml";
  o.common.repeat = repeat_default;
  args.group("compare");
  args.texts("--case", o.cases,
             "NAME:LIST, settings and preset= backend= machine= workers= cpus= seed=; the first is the baseline");
  args.texts("--vary", o.varies, "NAME=V1,V2,... of a setting, or of an app option with its dashes; several multiply");
  args.real("--fail-over", o.fail_over_pct, 0, 1e6,
            "exit status 4 when a metric got significantly worse by more percent than this");
  args.texts("--from", o.from, "compare result files instead of running (without blocks: Mann-Whitney)");
  declare_common(args, o.common);
  args.footer(
      "heddle compare --case base: --case wide:wake_wide_idle=both --repeat 10 schbench -m 2 -t 4 -r 5\n"
      "heddle compare --vary -c=8,16,32 --case base: --case off:NO_WAKE_AFFINE pgbench -T 5");
  args.leave_rest();
}

const app_kind& find_app(const invocation& typed, const std::string& name) {
  const auto at = std::ranges::find(typed.apps, std::string_view(name), &app_kind::name);
  if (at != typed.apps.end()) return *at;
  std::vector<std::string> names;
  for (const app_kind& a : typed.apps) names.emplace_back(a.name);
  throw usage_error(
      fmt::format("compare: '{}' is not an app ({}){}", name, fmt::join(names, ", "), near_text(name, names)));
}

// An app at one point of its options; common options may stand behind its name too.
std::unique_ptr<app> make_app(const app_kind& kind, const std::vector<std::string>& words, arguments& outer,
                              common_options& common) {
  auto what = kind.make();
  arguments args(kind.name, kind.summary);
  what->declare(args);
  declare_common(args, common);
  if (!args.parse(words)) return nullptr;
  arguments shared("", "");
  common_options ignored;
  declare_common(shared, ignored);
  for (const std::string& name : shared.names())
    if (name != "--help" && name != "-h" && args.given(name) && outer.given(name))
      throw usage_error(fmt::format("{}: given both before and after {}; once is enough", name, kind.name));
  what->check();
  return what;
}

// Everything that will run, checked before anything does.
struct session {
  const app_kind& kind;
  common_options common;
  comparison_plan plan;
  std::vector<std::unique_ptr<app>> apps;  // one per point
  std::optional<calibration> work;

  run_request request(const case_plan& c, int64_t block) const {
    common_options o = common;
    if (c.machine) o.machine = *c.machine;
    if (c.workers) o.workers = *c.workers;
    if (c.cpus) o.cpus = *c.cpus;
    if (c.seed) o.seed = *c.seed;
    const std::string backend = c.backend.value_or(common.backend);
    run_request r = make_request(o, backend == "threads" ? backend_kind::threads : backend_kind::fibers,
                                 work ? &*work : nullptr, std::max<int64_t>(block, 0));
    r.settings = settings_of(c);
    return r;
  }
  std::string settings_of(const case_plan& c) const {
    const std::string base = common.settings_list();
    return base + (base.empty() || c.settings.empty() ? "" : ",") + c.settings;
  }
  bool on_host(const case_plan& c) const { return c.machine.value_or(common.machine) == "host"; }
  bool all_virtual() const {
    return std::ranges::none_of(plan.cases, [&](const case_plan& c) { return on_host(c); });
  }
  nanos block_length() const {
    nanos sum{0};
    for (const auto& a : apps) sum += (a->run_length() + common.warmup) * static_cast<int64_t>(plan.cases.size());
    return sum;
  }
};

// Without a difference there is nothing to compare; on a virtual machine equal runs are even the same run.
void refuse_unsuitable(const session& s) {
  if (s.plan.cases.size() < 2 && s.plan.points.size() < 2)
    throw usage_error("compare: one case is nothing to compare; give another --case, or --vary NAME=V1,V2");
  for (const case_plan& c : s.plan.cases) {
    choose_settings(s.settings_of(c));
    facts_of(c.machine.value_or(s.common.machine));
    if (s.on_host(c)) chosen_cpus(c.cpus.value_or(s.common.cpus), c.workers.value_or(s.common.workers));
    if (!s.on_host(c) && c.backend.value_or(s.common.backend) == "threads")
      throw usage_error(
          fmt::format("--case: '{}' asks for threads on a virtual machine, which runs fibers only", c.name));
    for (const auto& a : s.apps) a->check_request(s.request(c, 0));
    for (const case_plan& d : s.plan.cases) {
      if (&c == &d) break;
      if (c.same_run(d) && !s.on_host(c))
        throw usage_error(fmt::format(
            "--case: '{}' and '{}' are the same run on a virtual machine; give one another seed=", d.name, c.name));
    }
  }
  if (!s.common.schedstat.empty())
    throw usage_error("--schedstat: compare has no place for it; run each case by itself");
  if (s.common.format == "original")
    throw usage_error("--format: 'original' is not a format of compare (lkml, table, csv, markdown, benchstat)");
}

std::string describe(const session& s, const case_plan& c) {
  std::string text = show_settings(choose_settings(s.settings_of(c)));
  const auto more = [&](const char* name, const std::optional<std::string>& value) {
    if (value) text += fmt::format(", {} {}", name, *value);
  };
  more("backend", c.backend);
  more("machine", c.machine);
  more("workers", c.workers);
  more("cpus", c.cpus);
  if (c.seed) text += fmt::format(", seed {}", *c.seed);
  return text;
}

std::string header(const session& s, const invocation& typed) {
  std::string text = fmt::format("heddle {}\n", fmt::join(typed.words, " "));
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<9} {}\n", name, value);
  };
  if (s.common.on_host())
    line("machine", fmt::format("host, CPUs {}; {}{}; {}", show_cpu_list(chosen_cpus(s.common.cpus, s.common.workers)),
                                cpu_model(), under_hypervisor() ? " (virtual machine)" : "", kernel_name()));
  else
    line("machine", s.common.machine + ", virtual");
  for (size_t i = 0; i < s.plan.cases.size(); i++)
    line(i == 0 ? "baseline" : "case", fmt::format("{}: {}", s.plan.cases[i].name, describe(s, s.plan.cases[i])));
  if (s.plan.points.size() > 1) {
    std::vector<std::string> labels;
    for (const point_plan& p : s.plan.points) labels.push_back(p.label);
    line("load", fmt::format("{}", fmt::join(labels, "; ")));
  }
  const int64_t blocks = s.common.repeat + (s.all_virtual() ? 0 : 1);
  line("blocks",
       fmt::format("{}{} of {} runs{}", s.common.repeat, s.all_virtual() ? "" : " and one to warm up",
                   s.plan.cases.size() * s.plan.points.size(),
                   s.block_length().count() > 0
                       ? ", about " + show_duration(std::chrono::ceil<std::chrono::seconds>(s.block_length() * blocks))
                       : ""));
  line("seed", fmt::format("{} to {}", s.common.seed, s.common.seed + s.common.repeat - 1));
  return text + "\n";
}

blocks_result run_all(const session& s) {
  interrupt_guard guard;
  progress bar(s.common.quiet ? "never" : s.common.progress);
  const auto start = std::chrono::steady_clock::now();
  const block_plan plan{.cases = s.plan.cases.size(),
                        .points = s.plan.points.size(),
                        .repeat = s.common.repeat,
                        .seed = static_cast<uint64_t>(s.common.seed),
                        .warm_up = !s.all_virtual()};
  return run_blocks(plan, [&](const block_run& r) {
    std::string left;
    if (r.runs_done > 0) {
      const nanos so_far = std::chrono::steady_clock::now() - start;
      left = fmt::format(", {} left", show_duration(std::chrono::ceil<std::chrono::seconds>(
                                          so_far * (r.runs_planned - r.runs_done) / r.runs_done)));
    }
    bar.begin(fmt::format(
                  "{}: {} of {}{}{}{}{};", s.kind.name, r.block < 0 ? "warm-up" : fmt::format("block {}", r.block + 1),
                  s.common.repeat, s.plan.points[r.point].label.empty() ? "" : ", " + s.plan.points[r.point].label,
                  r.attempt > 0 ? fmt::format(", again ({})", r.attempt) : "", ", " + s.plan.cases[r.which].name, left),
              nanos{0});
    run_result result = run_measured(*s.apps[r.point], s.request(s.plan.cases[r.which], r.block));
    bar.end();
    return result;
  });
}

std::string name_of_case(const session& s, size_t point, size_t which) {
  const std::string& label = s.plan.points[point].label;
  return s.plan.cases[which].name + (label.empty() ? "" : " " + label);
}

// What a reader must know to trust the table.
std::string footnotes(const comparison& c, const blocks_result& b, const std::vector<std::string>& notes, pairing how) {
  std::string text;
  const auto line = [&text](const std::string& s) { text += s + "\n"; };
  if (std::ranges::any_of(c.rows, &comparison_row::primary))
    line("* the app's primary metric; the p of all other rows is corrected together (Holm). ~ cannot be told apart.");
  if (std::ranges::any_of(c.rows, [](const comparison_row& r) { return !r.trusted; }))
    line("? fewer than 10 samples beyond that percentile in some run.");
  if (std::ranges::any_of(c.rows, [](const comparison_row& r) { return !r.raw_p; }))
    line(how == pairing::blocks
             ? fmt::format("n/a: a test needs at least {} blocks in which both sides have a figure.", blocks_min)
             : "n/a: a test needs more runs (4 and 4 at least).");
  if (b.repeated > 0)
    line(fmt::format("{} of {} blocks were run again: others used the machine, or a run failed.", b.repeated,
                     b.blocks + b.repeated));
  if (b.still_disturbed > 0)
    line(fmt::format("{} of {} blocks were disturbed three times and are kept as they are.", b.still_disturbed,
                     b.blocks));
  for (const std::string& note : notes) line(note);
  return text;
}

// What runs of a case say alike but for the figures is said once.
std::vector<std::string> notes_of(const result_document& document) {
  std::vector<std::string> lines;
  for (const result_case& one : document.cases) {
    std::set<std::string> said;
    for (const run_result& run : one.runs)
      for (const std::string& note : run.notes) {
        std::string shape = note;
        std::erase_if(shape, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
        if (said.insert(shape).second) lines.push_back(fmt::format("{}: {}", one.name, note));
      }
  }
  return lines;
}

void print(const comparison& c, const std::string& base, const std::string& format, const std::string& notes) {
  std::fputs(rows_text(c, base, format).c_str(), stdout);
  if (format != "lkml" && format != "table") return;
  if (const std::string tails = tails_text(c, base); !tails.empty()) fmt::print("\nTails, run by run\n{}", tails);
  if (!notes.empty()) fmt::print("\n{}", notes);
}

// 4 when something got worse by more than is allowed; but a run that did not end well says so first.
int status_with(const comparison& c, double fail_over_pct, int status) {
  if (status != exit_done || fail_over_pct < 0 || worst_pct(c) <= fail_over_pct) return status;
  for (const comparison_row& r : c.rows)
    if (r.says == verdict::worse && std::abs(*r.difference_pct) > fail_over_pct)
      fmt::print(stderr, "heddle: compare: {} of {}{}{} is {:.1f} % worse (--fail-over {:g})\n", r.metric, r.case_name,
                 r.vary.empty() ? "" : " at ", r.vary, std::abs(*r.difference_pct), fail_over_pct);
  return exit_worse;
}

int compare_files(const compare_options& o, const invocation& typed) {
  const read_result read = read_files(
      o.from, [&](const std::string& name) { return std::string(find_app(typed, name).make()->primary_metric()); });
  const comparison c = compare_cases(read.cases, pairing::none, static_cast<uint64_t>(o.common.seed));
  result_document document{.app = read.app, .command = typed.words};
  document.comparison = to_json(c);
  document.environment = {{"files", o.from}};
  if (!o.common.json_on_stdout())
    print(c, read.cases.front().name, o.common.format, footnotes(c, {}, {}, pairing::none));
  if (!o.common.json.empty()) write_json(to_json(document), o.common.json);
  return status_with(c, o.fail_over_pct, exit_done);
}

result_document make_document(const session& s, const invocation& typed, blocks_result& blocks, comparison& c) {
  result_document document{.app = std::string(s.kind.name), .command = typed.words};
  std::vector<compared_case> compared;
  const std::string_view primary = s.apps.front()->primary_metric();
  for (size_t point = 0; point < s.plan.points.size(); point++)
    for (size_t which = 0; which < s.plan.cases.size(); which++) {
      auto& runs = blocks.runs[point][which];
      compared.push_back({s.plan.cases[which].name, s.plan.points[point].label, series_of(runs, primary)});
      document.cases.push_back({.name = name_of_case(s, point, which),
                                .backend = s.plan.cases[which].backend.value_or(s.common.backend),
                                .options = s.apps[point]->options(),
                                .runs = std::move(runs)});
    }
  c = compare_cases(compared, pairing::blocks, static_cast<uint64_t>(s.common.seed));
  document.comparison = to_json(c);
  document.comparison["blocks"] = blocks.blocks;
  document.comparison["blocks_repeated"] = blocks.repeated;
  document.comparison["blocks_disturbed"] = blocks.still_disturbed;
  if (!blocks.error.empty()) {
    document.ended = ending::failed;
    document.error = blocks.error;
  }
  if (blocks.interrupted) document.ended = ending::interrupted;
  return document;
}

int compare_runs(compare_options& o, arguments& args, const invocation& typed) {
  std::vector<std::string> words = args.rest();
  if (words.empty())
    throw usage_error(
        "compare: no app named (as in: heddle compare --case base: --case off:NO_WAKE_AFFINE schbench -r 1)");
  session s{.kind = find_app(typed, words.front()),
            .common = o.common,
            .plan = make_plan(o.cases, o.varies),
            .apps = {},
            .work = {}};
  words.erase(words.begin());
  for (const point_plan& p : s.plan.points) {
    std::vector<std::string> all = words;
    all.insert(all.end(), p.words.begin(), p.words.end());
    common_options common = o.common;
    auto what = make_app(s.kind, all, args, common);
    if (!what) return exit_done;
    s.common = common;
    s.apps.push_back(std::move(what));
  }
  if (s.common.backend == "both") {
    s.plan = make_plan(o.cases, [&] {
      auto varies = o.varies;
      varies.insert(varies.begin(), "backend=fibers,threads");
      return varies;
    }());
    s.common.backend = "fibers";
  }
  refuse_unsuitable(s);

  result_document document;
  const bool quiet = s.common.quiet || s.common.json_on_stdout();
  if (!quiet && (s.common.format == "lkml" || s.common.format == "table")) std::fputs(header(s, typed).c_str(), stdout);
  std::fflush(stdout);
  const bool host = std::ranges::any_of(s.plan.cases, [&](const case_plan& c) { return s.on_host(c); });
  nlohmann::ordered_json environment = nlohmann::ordered_json::object();
  if (host) {
    environment = environment_record();
    s.work = calibration::measure();
    environment["ns_per_iteration"] = s.work->ns_per_iteration();
  }
  blocks_result blocks = run_all(s);
  if (s.work)
    if (const auto warning = s.work->recheck()) {
      environment["warnings"].push_back(*warning);
      fmt::print(stderr, "heddle: warning: {}\n", *warning);
    }
  comparison c;
  document = make_document(s, typed, blocks, c);
  document.environment = std::move(environment);
  if (!s.common.json_on_stdout())
    print(c, s.plan.cases.front().name, s.common.format, footnotes(c, blocks, notes_of(document), pairing::blocks));
  if (!s.common.json.empty()) write_json(to_json(document), s.common.json);
  if (document.ended == ending::failed) fmt::print(stderr, "heddle: compare: {}\n", document.error);
  if (document.ended == ending::interrupted)
    fmt::print(stderr, "heddle: compare: interrupted after {} of {} blocks\n", blocks.blocks,
               s.common.repeat * static_cast<int64_t>(s.plan.points.size()));
  return status_with(c, o.fail_over_pct, status_of(document));
}

}  // namespace

int run_compare(const invocation& typed) {
  compare_options o;
  arguments args("compare", "one app under several settings, runs interleaved in blocks, and what differs");
  declare(args, o);
  if (!parse_command(args, typed, o.common)) return exit_done;
  if (o.from.empty()) return compare_runs(o, args, typed);
  std::ranges::copy(args.rest(), std::back_inserter(o.from));  // --from A B C
  return compare_files(o, typed);
}

}  // namespace heddle::bench
