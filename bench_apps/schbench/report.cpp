#include "bench_apps/schbench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle::bench::schbench {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

double percentile_of(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  return values[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

metric detail(metric m) {
  m.detail = true;
  return m;
}

}  // namespace

void totals::add(const worker_records& r, const window& recorded) {
  for (size_t i = 0; i < distance_count; i++) latency[i].merge(r.latency[i]);
  burst.merge(r.burst);
  run.merge(r.run);
  request.merge(r.request);
  loops += r.loops;
  dropped += r.dropped;
  cycle_ns += r.cycle_ns;
  const nanos cut =
      r.loops == 0 ? recorded.end - recorded.begin : (r.first_began - recorded.begin) + (recorded.end - r.last_ended);
  cut_ns += static_cast<double>(cut.count());
  workers++;
  loops_min = std::min(loops_min, r.loops);
  loops_max = std::max(loops_max, r.loops);
}

void totals::add(const message_records& r) {
  overshoot.merge(r.overshoot);
  bursts += r.bursts;
  wakes += r.wakes;
  out_of_order += r.out_of_order;
}

histogram totals::all_latency() const {
  histogram sum;
  for (const histogram& h : latency) sum.merge(h);
  return sum;
}

run_result make_result(const schbench_options& options, const totals& all, const window& recorded) {
  run_result result;
  result.seconds = recorded.seconds();
  result.operations = static_cast<double>(all.loops);
  auto& m = result.metrics;
  m.push_back(distribution_us("wakeup_latency_us", all.all_latency()));
  m.push_back(figure("loops_per_s", ratio(static_cast<double>(all.loops), recorded.seconds()), direction::higher));
  if (options.v1()) {
    m.push_back(distribution_us("request_latency_us", all.request));
    m.push_back(
        figure("requests_per_s", ratio(static_cast<double>(recorded.requests), recorded.seconds()), direction::higher));
  }
  for (size_t i = 0; i < distance_count; i++)
    if (all.latency[i].samples() > 0)
      m.push_back(detail(distribution_us(fmt::format("wakeup_latency_us.{}", distance_names[i]), all.latency[i])));
  m.push_back(detail(distribution_us("wake_to_post_us", all.burst)));
  m.push_back(detail(distribution_us("post_to_run_us", all.run)));
  if (all.overshoot.samples() > 0) m.push_back(detail(distribution_us("timer_overshoot_us", all.overshoot)));

  auto& c = result.counters;
  c["bursts"] = static_cast<int64_t>(all.bursts);
  c["wakes"] = static_cast<int64_t>(all.wakes);
  c["loops"] = static_cast<int64_t>(all.loops);
  c["loops_min_of_a_worker"] = static_cast<int64_t>(all.workers > 0 ? all.loops_min : 0);
  c["loops_max_of_a_worker"] = static_cast<int64_t>(all.loops_max);
  for (size_t i = 0; i < distance_count; i++)
    c[fmt::format("woken_{}", distance_names[i])] = static_cast<int64_t>(all.latency[i].samples());
  if (options.compat) c["zeros_dropped"] = static_cast<int64_t>(all.dropped);
  if (options.v1() && !recorded.rate_samples.empty()) {
    c["rate_samples"] = static_cast<int64_t>(recorded.rate_samples.size());
    for (const int p : {0, 20, 50, 90, 100})
      c[fmt::format("rate_p{}", p)] = static_cast<int64_t>(percentile_of(recorded.rate_samples, p));
  }
  return result;
}

void check_result(const schbench_options& options, const totals& all, const window& recorded, int cpus,
                  run_result& result) {
  const auto note = [&result](std::string text) { result.notes.push_back(std::move(text)); };
  const auto fail = [&result](std::string text) {
    result.ended = ending::failed;
    result.error = std::move(text);
  };
  const uint64_t samples = all.all_latency().samples();
  if (all.out_of_order > 0) fail(fmt::format("{} wake-ups out of LIFO order", all.out_of_order));
  if (samples + all.dropped != all.loops)
    fail(fmt::format("{} samples and {} loops", samples + all.dropped, all.loops));
  // A wake-up whose worker had not run yet at the end is counted by its waker alone, one that was under way at the
  // beginning by nobody.
  const uint64_t unmatched = all.wakes > all.loops ? all.wakes - all.loops : all.loops - all.wakes;
  if (unmatched > all.workers)
    fail(fmt::format("{} wake-ups and {} loops of {} workers", all.wakes, all.loops, all.workers));
  if (all.loops == 0) return note("no worker was woken inside the window");

  // Little: workers = throughput x cycle time. Cycles that the window cuts are counted by the clock: on a busy machine
  // they are the long ones, so a mean would not do.
  const double held_ns = static_cast<double>(all.workers) * recorded.seconds() * 1e9;
  if (std::fabs(all.cycle_ns + all.cut_ns - held_ns) > 0.02 * held_ns)
    fail(fmt::format("invalid: {} workers, but throughput times cycle time is {:.1f} (Little's law, 2 % allowed)",
                     all.workers, (all.cycle_ns + all.cut_ns) / (recorded.seconds() * 1e9)));
  if (all.cut_ns > 0.1 * held_ns)
    note(fmt::format("{:.0f} % of the workers' time is in cycles that the window cuts: run longer",
                     all.cut_ns / held_ns * 100));

  if (!options.v1()) {
    const double thought_cpus =
        static_cast<double>(all.loops) * std::chrono::duration<double>(options.think_time).count() / recorded.seconds();
    if (options.wall() && thought_cpus > cpus * 1.02)
      note(fmt::format("the spins by the clock count as {:.1f} CPUs of work on {}: compare with --think work",
                       thought_cpus, cpus));
    if (!options.wall() && thought_cpus > cpus * 1.05 + ratio(static_cast<double>(all.workers) *
                                                                  static_cast<double>(options.think_time.count()),
                                                              recorded.seconds() * 1e9))
      fail(fmt::format("invalid: {:.2f} CPUs of calibrated work on {} CPUs", thought_cpus, cpus));
  }
  if (options.workers_each > 1 && all.bursts == all.wakes && all.bursts > 100 && !options.v1())
    note("every burst woke a single worker: this load does not make bursts");
  if (samples < 10'000)
    note(fmt::format("{} samples: percentiles marked ? have fewer than 10 samples beyond them", samples));
  if (options.compat && all.dropped > 0) note(fmt::format("--compat dropped {} samples under 1 us", all.dropped));
  if (options.yield_every.count() > 0)
    note(fmt::format("fibers yield every {} inside the think time", show_duration(options.yield_every)));
}

namespace {

std::string percentile_line(double percent, int decimals, const histogram& h, bool star) {
  const double us = h.percentile_ns(percent).value_or(0) / 1000;
  return fmt::format("\t{}{:.{}f}th: {}\n", star ? "*" : "", percent, decimals, std::llround(us));
}

std::string classic_layout(const schbench_options& options, const run_result& result) {
  const histogram& h = result.find("wakeup_latency_us")->samples();
  std::string out = "Latency percentiles (usec)\n";
  for (const double p : {50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9}) out += percentile_line(p, 4, h, p == 99.0);
  out += fmt::format("\tmin={}, max={}\n", h.min_ns().value_or(0) / 1000, h.max_ns().value_or(0) / 1000);
  if (options.pipe_bytes > 0)
    out += fmt::format("avg worker transfer: {:.2f} ops/sec\n", result.find("loops_per_s")->figure().value_or(0));
  return out;
}

struct v1_block {
  std::string label, unit;
  double seconds;
  uint64_t samples;
  std::vector<std::pair<double, int64_t>> percentiles;  // the starred one is 99, of rates 50
  double starred;
  int64_t min, max;
};

std::string v1_text(const v1_block& b) {
  std::string out =
      fmt::format("{} percentiles ({}) runtime {:.0f} (s) ({} total samples)\n", b.label, b.unit, b.seconds, b.samples);
  double before = 0;
  for (const auto& [percent, value] : b.percentiles) {
    const auto between = static_cast<uint64_t>((percent - before) / 100 * static_cast<double>(b.samples));
    out +=
        fmt::format("\t{} {:.1f}th: {:<10d} ({} samples)\n", percent == b.starred ? "*" : " ", percent, value, between);
    before = percent;
  }
  return out + fmt::format("\t  min={}, max={}\n", b.min, b.max);
}

v1_block latency_block(std::string label, double seconds, const histogram& h) {
  v1_block b{std::move(label),
             "usec",
             seconds,
             h.samples(),
             {},
             99.0,
             h.min_ns().value_or(0) / 1000,
             h.max_ns().value_or(0) / 1000};
  for (const double p : {50.0, 90.0, 99.0, 99.9})
    b.percentiles.emplace_back(p, std::llround(h.percentile_ns(p).value_or(0) / 1000));
  return b;
}

std::string v1_layout(const run_result& result) {
  const auto counter = [&result](const std::string& name) {
    const auto at = result.counters.find(name);
    return at == result.counters.end() ? int64_t{0} : at->second;
  };
  std::string out =
      v1_text(latency_block("Wakeup Latencies", result.seconds, result.find("wakeup_latency_us")->samples()));
  out += v1_text(latency_block("Request Latencies", result.seconds, result.find("request_latency_us")->samples()));
  v1_block rate{"RPS", "requests", result.seconds,     static_cast<uint64_t>(counter("rate_samples")),
                {},    50.0,       counter("rate_p0"), counter("rate_p100")};
  for (const double p : {20.0, 50.0, 90.0}) rate.percentiles.emplace_back(p, counter(fmt::format("rate_p{:.0f}", p)));
  out += v1_text(rate);
  return out + fmt::format("average rps: {:.2f}\n", result.find("requests_per_s")->figure().value_or(0));
}

}  // namespace

std::string original_layout(const schbench_options& options, const run_result& result) {
  return options.v1() ? v1_layout(result) : classic_layout(options, result);
}

}  // namespace heddle::bench::schbench
