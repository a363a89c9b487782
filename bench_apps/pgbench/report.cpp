#include "bench_apps/pgbench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle::bench::pgbench {

namespace {

metric detail(metric m) {
  m.detail = true;
  return m;
}

double per(double a, double b) { return b > 0 ? a / b : 0; }
double percent(int64_t part, int64_t whole) { return per(100 * static_cast<double>(part), static_cast<double>(whole)); }
double ms(std::optional<double> ns) { return ns.value_or(0) / 1e6; }

int64_t counter(const run_result& result, const std::string& name) {
  const auto at = result.counters.find(name);
  return at == result.counters.end() ? 0 : at->second;
}

std::string step_metric(const step& s) { return fmt::format("statement_latency_us.{}", name_of(s.kind)); }

histogram all_lock_waits(const session_statistics& s) {
  histogram sum;
  for (const histogram& h : s.lock_wait) sum.merge(h);
  return sum;
}

}  // namespace

void totals::add(const client_statistics& c) {
  clients.transactions += c.transactions;
  clients.warmup += c.warmup;
  clients.skipped += c.skipped;
  clients.late += c.late;
  if (clients.error.empty()) clients.error = c.error;
  clients.latency.merge(c.latency);
  clients.lag.merge(c.lag);
  clients.steps.resize(std::max(clients.steps.size(), c.steps.size()));
  for (size_t i = 0; i < c.steps.size(); i++) clients.steps[i].merge(c.steps[i]);
  clients.latency_ns += c.latency_ns;
  clients.active_ns += c.active_ns;
  clients.ended = std::max(clients.ended, c.ended);
}

void totals::add(const session_statistics& s) {
  sessions.committed += s.committed;
  sessions.statements += s.statements;
  for (size_t i = 0; i < locked_tables; i++) {
    sessions.locks[i] += s.locks[i];
    sessions.lock_wait[i].merge(s.lock_wait[i]);
  }
}

run_result make_result(const pgbench_options& options, const totals& all) {
  const script& steps = builtin(options.script());
  run_result result;
  result.seconds = std::chrono::duration<double>(all.clients.ended - all.window).count();
  result.operations = static_cast<double>(all.clients.transactions);
  auto& m = result.metrics;
  m.push_back(figure("tps", per(static_cast<double>(all.clients.transactions), result.seconds), direction::higher));
  m.push_back(distribution_us("latency_us", all.clients.latency));
  m.push_back(distribution_us("lock_wait_us", all_lock_waits(all.sessions)));
  if (options.rate > 0) m.push_back(distribution_us("schedule_lag_us", all.clients.lag));
  for (size_t i = 0; i < locked_tables; i++)
    if (all.sessions.locks[i] > 0)
      m.push_back(detail(distribution_us(fmt::format("lock_wait_us.{}", name_of(static_cast<table_id>(i))),
                                         all.sessions.lock_wait[i])));
  if (options.per_statement)
    for (size_t i = 0; i < steps.steps.size(); i++)
      m.push_back(detail(distribution_us(step_metric(steps.steps[i]), all.clients.steps[i])));
  if (all.flushes.flushes > 0)
    m.push_back(detail(figure("flush_group_size",
                              per(static_cast<double>(all.flushes.commits), static_cast<double>(all.flushes.flushes)),
                              direction::higher)));
  m.push_back(detail(figure("connection_time_ms", ms(static_cast<double>(all.connected.count())), direction::lower)));

  auto& c = result.counters;
  c["transactions"] = all.clients.transactions;
  c["statements"] = all.sessions.statements;
  c["log_bytes"] = all.flushes.bytes;
  if (options.rate > 0) c["skipped"] = all.clients.skipped;
  if (options.latency_limit_ms > 0) c["late"] = all.clients.late;
  for (size_t i = 0; i < locked_tables; i++) {
    const std::string_view table = name_of(static_cast<table_id>(i));
    if (all.sessions.locks[i] == 0) continue;
    c[fmt::format("locks_{}", table)] = all.sessions.locks[i];
    c[fmt::format("lock_waits_{}", table)] = static_cast<int64_t>(all.sessions.lock_wait[i].samples());
  }
  if (all.flushes.flushes > 0) {
    c["flushes"] = all.flushes.flushes;
    c["flush_group_max"] = all.flushes.group_max;
  }
  return result;
}

void check_result(const pgbench_options& options, const totals& all, const books& found, run_result& result) {
  const auto note = [&result](std::string text) { result.notes.push_back(std::move(text)); };
  const auto fail = [&result](std::string text) {
    result.ended = ending::failed;
    if (result.error.empty()) result.error = std::move(text);
  };
  if (!all.clients.error.empty()) fail(fmt::format("the server answered {}", all.clients.error));

  // Every balance moved by what history says; a script that leaves tables out leaves them at 0.
  const auto& [accounts, tellers, branches] = found.balances;
  const bool all_tables = options.script() == script_kind::tpcb_like;
  if (accounts != found.history_sum || tellers != (all_tables ? accounts : 0) ||
      branches != (all_tables ? accounts : 0))
    fail(fmt::format("the books do not balance: accounts {}, tellers {}, branches {}, history {}", accounts, tellers,
                     branches, found.history_sum));
  const int64_t begun = all.clients.transactions + all.clients.warmup;
  const int64_t rows = builtin(options.script()).writes_history() ? begun : 0;
  if (found.history_rows != rows || all.sessions.committed != rows)
    fail(fmt::format("{} transactions, but {} history rows and {} commits", rows, found.history_rows,
                     all.sessions.committed));
  if (found.locks_held) fail("a row is still locked");

  if (all.clients.transactions == 0) return note("no transaction began and ended inside the window");
  // Little: the time clients were at it is the time their transactions took. Per client, the first and last may be cut off.
  const bool enough = all.clients.transactions >= 100 * options.clients;
  if (options.rate == 0 && enough &&
      std::fabs(all.clients.latency_ns - all.clients.active_ns) > 0.02 * all.clients.active_ns)
    fail(fmt::format("invalid: {} clients, but throughput times latency is {:.2f} (Little's law, 2 % allowed)",
                     options.clients,
                     all.clients.latency_ns / all.clients.active_ns * static_cast<double>(options.clients)));
  if (options.rate > 0 && all.clients.skipped == 0) {
    const double reached = result.metrics.front().figure().value_or(0);
    if (options.by_time() && reached < 0.97 * options.rate && static_cast<double>(all.clients.transactions) > 10'000)
      note(fmt::format(
          "{:.0f} of {:.0f} transactions/s asked for: the rate is above capacity, and lag grows with the run", reached,
          options.rate));
  }
  if (options.scale < options.clients && all_tables && options.clients > 1)
    note(fmt::format(
        "-s {} is below -c {}: branch rows admit {} transactions at a time, so this measures waiting for locks",
        options.scale, options.clients, options.scale));
}

namespace {

std::string statement_lines(const pgbench_options& options, const run_result& result) {
  std::string out = "statement latencies in milliseconds and failures:\n";
  for (const step& s : builtin(options.script()).steps)
    if (const metric* m = result.find(step_metric(s)))
      out += fmt::format("   {:11.3f}  {:10}  {}\n", ms(m->samples().mean_ns()), 0, s.text);
  return out;
}

// Lines the original has not, after its own so that its parsers still find theirs.
std::string further_lines(const run_result& result) {
  std::string out;
  const auto percentiles = [&](std::string_view label, const histogram& h) {
    out += fmt::format("{} p50 = {:.3f} ms, p95 = {:.3f} ms, p99 = {:.3f} ms, p99.9 = {:.3f} ms, max = {:.3f} ms\n",
                       label, ms(h.percentile_ns(50)), ms(h.percentile_ns(95)), ms(h.percentile_ns(99)),
                       ms(h.percentile_ns(99.9)), ms(h.max_ns()));
  };
  percentiles("latency", result.find("latency_us")->samples());
  for (size_t i = 0; i < locked_tables; i++) {
    const std::string_view table = name_of(static_cast<table_id>(i));
    const int64_t locks = counter(result, fmt::format("locks_{}", table)),
                  waits = counter(result, fmt::format("lock_waits_{}", table));
    if (locks == 0) continue;
    const histogram& h = result.find(fmt::format("lock_wait_us.{}", table))->samples();
    out += fmt::format("lock wait on {}: {} of {} locks ({:.1f}%), average {:.3f} ms, max {:.3f} ms\n", table, waits,
                       locks, percent(waits, locks), ms(h.mean_ns()), ms(h.max_ns()));
  }
  if (const metric* group = result.find("flush_group_size"))
    out += fmt::format("flush group size: average {:.1f}, max {}, flushes {}\n", group->figure().value_or(0),
                       counter(result, "flush_group_max"), counter(result, "flushes"));
  return out;
}

}  // namespace

std::string original_layout(const pgbench_options& options, const run_result& result) {
  const int64_t done = counter(result, "transactions"), skipped = counter(result, "skipped");
  const histogram& latency = result.find("latency_us")->samples();
  std::string out = fmt::format(
      "transaction type: {}\nscaling factor: {}\nquery mode: {}\nnumber of clients: {}\nnumber of threads: {}\nmaximum "
      "number of tries: 1\n",
      builtin(options.script()).name, options.scale, options.mode, options.clients, options.dispatchers);
  if (options.by_time())
    out += fmt::format("duration: {:g} s\nnumber of transactions actually processed: {}\n",
                       std::chrono::duration<double>(options.runtime).count(), done);
  else
    out += fmt::format("number of transactions per client: {}\nnumber of transactions actually processed: {}/{}\n",
                       options.transactions, done, options.transactions * options.clients);
  out += "number of failed transactions: 0 (0.000%)\n";
  if (options.rate > 0 && options.latency_limit_ms > 0)
    out += fmt::format("number of transactions skipped: {} ({:.3f}%)\n", skipped, percent(skipped, done + skipped));
  if (options.latency_limit_ms > 0)
    out += fmt::format("number of transactions above the {:.1f} ms latency limit: {}/{} ({:.3f}%)\n",
                       options.latency_limit_ms, counter(result, "late"), done, percent(counter(result, "late"), done));
  out += fmt::format("latency average = {:.3f} ms\nlatency stddev = {:.3f} ms\n", ms(latency.mean_ns()),
                     ms(latency.stddev_ns()));
  if (const metric* lag = result.find("schedule_lag_us"))
    out += fmt::format("rate limit schedule lag: avg {:.3f} (max {:.3f}) ms\n", ms(lag->samples().mean_ns()),
                       ms(lag->samples().max_ns()));
  out += fmt::format("initial connection time = {:.3f} ms\ntps = {:.6f} (without initial connection time)\n",
                     result.find("connection_time_ms")->figure().value_or(0), result.find("tps")->figure().value_or(0));
  if (options.per_statement) out += statement_lines(options, result);
  return out + further_lines(result);
}

}  // namespace heddle::bench::pgbench
