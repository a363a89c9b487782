#include "bench_apps/aim7/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace heddle::bench::aim7 {
namespace {

double seconds(nanos d) { return std::chrono::duration<double>(d).count(); }

metric detail(std::string name, double value, direction better) {
  metric m = figure(std::move(name), value, better);
  m.detail = true;
  return m;
}

// The columns of the original, by which it knows a point.
struct column {
  std::string_view name;
  direction better;
  double (*of)(const point&);
};
constexpr column columns[] = {
    {"elapsed_s", direction::lower, [](const point& p) { return seconds(p.elapsed); }},
    {"system_s", direction::lower, [](const point& p) { return p.system_s; }},
    {"user_s", direction::lower, [](const point& p) { return p.user_s; }},
    {"jobs_per_min", direction::higher, [](const point& p) { return p.jobs_per_min(); }},
    {"jobs_per_min_per_user", direction::higher,
     [](const point& p) { return p.jobs_per_min() / static_cast<double>(p.users); }},
    {"finish_stddev_s", direction::lower, [](const point& p) { return p.deviation_s(); }},
    {"finish_stddev_pct", direction::lower, [](const point& p) { return p.deviation_pct(); }},
    {"jti_pct", direction::higher, [](const point& p) { return p.jti_pct(); }},
};

std::string metric_of(const column& c, int64_t users) { return fmt::format("{}.{}", c.name, users); }

// Over all points alike: a band of users, as tables on the kernel list have it.
double mean_over(const std::vector<point>& points, double (*of)(const point&)) {
  double sum = 0;
  for (const point& p : points) sum += of(p);
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

double jobs_per_min(const point& p) { return p.jobs_per_min(); }
double jti_pct(const point& p) { return p.jti_pct(); }

std::string check_jobs(const aim7_options& o, const point& p) {
  if (!p.error.empty()) return p.error;
  if (p.cut_short) return "";
  for (const job_kind& k : job_kinds()) {
    const auto wanted = std::ranges::count(o.plan, k.what) * p.users;
    if (p.done[static_cast<size_t>(k.what)] != wanted)
      return fmt::format("the job {} was done {} times of {}", k.name, p.done[static_cast<size_t>(k.what)], wanted);
  }
  return "";
}

std::string check_times(const point& p, int cpus) {
  const double elapsed_s = seconds(p.elapsed), slack_s = 0.02;  // process times come in ticks
  if (p.job_cpu_s > 1.02 * elapsed_s * cpus + slack_s)
    return fmt::format("invalid: {:.2f} s of CPU time in {:.2f} s on {} CPUs", p.job_cpu_s, elapsed_s, cpus);
  // Little: users that are at it = throughput x duration of a job. A short run has too few jobs to say so.
  if (p.active_ns > 1e9 && std::fabs(p.busy_ns - p.active_ns) > 0.02 * p.active_ns)
    return fmt::format("invalid: {} users, but throughput times duration is {:.2f} (Little's law, 2 % allowed)",
                       p.users, p.busy_ns / p.active_ns * static_cast<double>(p.users));
  if (std::ranges::any_of(p.finish_s, [&](double f) { return f > elapsed_s; }))
    return "invalid: a user ended after the last one";
  return "";
}

std::string cpu_shares(const std::vector<point>& points) {
  std::map<int, int64_t> by_cpu;
  int64_t all = 0, least = INT64_MAX, most = 0;
  for (const point& p : points)
    for (const auto& [cpu, count] : p.by_cpu) by_cpu[cpu] += count;
  for (const auto& [cpu, count] : by_cpu) {
    all += count;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  const auto pct = [all](int64_t count) { return 100.0 * static_cast<double>(count) / static_cast<double>(all); };
  return fmt::format("jobs ended on {} CPU{}, {:.1f} to {:.1f} % each", by_cpu.size(), by_cpu.size() == 1 ? "" : "s",
                     pct(least), pct(most));
}

std::string point_text(const point& p) {
  return fmt::format(
      "{} user{}: {:.0f} jobs/min, {:.0f} each, in {:.3g} s; users ended {:.2g} s apart (stddev), JTI {:.1f}", p.users,
      p.users == 1 ? "" : "s", p.jobs_per_min(), p.jobs_per_min() / static_cast<double>(p.users), seconds(p.elapsed),
      p.deviation_s(), p.jti_pct());
}

}  // namespace

run_result make_result(const std::vector<point>& points) {
  run_result result;
  int64_t jobs = 0, operations = 0, refused = 0;
  std::array<histogram, family_count> latency;
  double most = 0;
  for (const point& p : points) {
    result.seconds += seconds(p.elapsed);
    jobs += p.jobs();
    operations += p.file_operations;
    refused += p.direct_refused;
    most = std::max(most, p.jobs_per_min());
    for (size_t f = 0; f < family_count; f++) latency[f].merge(p.latency[f]);
  }
  result.operations = static_cast<double>(jobs);
  auto& m = result.metrics;
  m.push_back(figure("jobs_per_min", mean_over(points, jobs_per_min), direction::higher));
  m.push_back(figure("jti_pct", mean_over(points, jti_pct), direction::higher));
  for (size_t f = 0; f < family_count; f++)
    if (latency[f].samples() > 0)
      m.push_back(
          distribution_us(fmt::format("job_latency_us.{}", name_of(static_cast<family>(f))), std::move(latency[f])));
  m.push_back(detail("jobs_per_min_max", most, direction::higher));
  for (const point& p : points)
    for (const column& c : columns) m.push_back(detail(metric_of(c, p.users), c.of(p), c.better));
  auto& c = result.counters;
  c["jobs"] = jobs;
  c["points"] = static_cast<int64_t>(points.size());
  c["file_operations"] = operations;
  if (refused > 0) c["direct_refused"] = refused;
  return result;
}

void check_result(const aim7_options& options, const std::vector<point>& points, int cpus, run_result& result) {
  for (const point& p : points)
    for (const std::string& wrong : {check_jobs(options, p), p.cut_short ? "" : check_times(p, cpus)})
      if (!wrong.empty()) {
        result.ended = ending::failed;
        if (result.error.empty()) result.error = wrong;
      }
  if (result.counters["jobs"] == 0) return;
  constexpr size_t told_singly = 20;
  for (size_t i = 0; i < std::min(points.size(), told_singly); i++) result.notes.push_back(point_text(points[i]));
  result.notes.push_back(cpu_shares(points));
  if (options.any([](family f) { return f == family::process; }))
    result.notes.push_back(
        "the family process creates and joins tasks of the backend, in place of fork (--without process)");
  if (const auto refused = result.counters.find("direct_refused"); refused != result.counters.end())
    result.notes.push_back(
        fmt::format("{} files could not be opened past the page cache there (O_DIRECT)", refused->second));
}

std::string original_layout(const run_result& result) {
  const auto value = [&result](const std::string& name) {
    const metric* m = result.find(name);
    return m ? m->figure().value_or(0) : 0.0;
  };
  std::string out =
      "Num     Parent   Child   Child  Jobs per   Jobs/min/  Std_dev  Std_dev  JTI\n"
      "Forked  Time     SysTime UTime   Minute     Child      Time     Percent \n";
  for (const metric& m : result.metrics) {
    constexpr std::string_view first = "elapsed_s.";
    if (!m.name.starts_with(first)) continue;
    const std::string users = m.name.substr(first.size());
    out +=
        fmt::format("{:<7} {:<8.2f} {:<7.2f} {:<7.2f} {:<10.2f} {:<10.2f} {:<8.2f} {:<8.2f} {:.2f}\n", users,
                    value("elapsed_s." + users), value("system_s." + users), value("user_s." + users),
                    value("jobs_per_min." + users), value("jobs_per_min_per_user." + users),
                    value("finish_stddev_s." + users), value("finish_stddev_pct." + users), value("jti_pct." + users));
  }
  return out + fmt::format("Max Jobs per Minute {:.2f}\n", value("jobs_per_min_max"));
}

}  // namespace heddle::bench::aim7
