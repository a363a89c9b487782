#include "bench_apps/hackbench/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::bench::hackbench {
namespace {

double seconds(nanos d) { return std::chrono::duration<double>(d).count(); }
double ms(nanos d) { return std::chrono::duration<double, std::milli>(d).count(); }

metric detail(std::string name, double value) {
  metric m = figure(std::move(name), value, direction::lower);
  m.detail = true;
  return m;
}

// Messages that lie between a sender's clock read and the receiver's, on average over the run: Little's law.
double under_way(const totals& all) {
  return all.run.count() > 0 ? all.latency.sum_ns() / static_cast<double>(all.run.count()) : 0;
}

// How many there is room for: what the channels hold, one in the hands of each sender and each receiver.
double places(const hackbench_options& o) {
  const double receivers = static_cast<double>(o.groups * o.fan);
  return receivers * static_cast<double>(o.capacity_bytes / o.message_bytes) + 2 * receivers;
}

// On how many CPUs the receivers ran, and how evenly: that a backend which used one CPU is not taken for a fast one.
std::string shares_text(const std::map<int, int64_t>& by_cpu) {
  int64_t all = 0, least = INT64_MAX, most = 0;
  for (const auto& [cpu, count] : by_cpu) {
    all += count;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  const auto pct = [all](int64_t count) { return 100.0 * static_cast<double>(count) / static_cast<double>(all); };
  return fmt::format("messages were received on {} CPU{}, {:.1f} to {:.1f} % each", by_cpu.size(),
                     by_cpu.size() == 1 ? "" : "s", pct(least), pct(most));
}

void check_counts(const hackbench_options& o, const totals& all, run_result& result) {
  const auto fail = [&result](std::string text) {
    result.ended = ending::failed;
    if (result.error.empty()) result.error = std::move(text);
  };
  if (!all.error.empty()) fail(all.error);
  if (all.sent != all.received || all.torn_bytes != 0)
    fail(fmt::format("{} messages sent, {} received, {} bytes of torn ones", all.sent, all.received, all.torn_bytes));
  if (!all.cut_short && all.sent != o.message_count())
    fail(fmt::format("{} messages sent of {}", all.sent, o.message_count()));
  if (o.tagged() && all.tags_sent != all.tags_received)
    fail("messages arrived with other contents than they were sent with");
  if (o.stamped() && static_cast<int64_t>(all.latency.samples()) != all.received)
    fail(fmt::format("{} latencies of {} messages", all.latency.samples(), all.received));
  if (o.stamped() && o.chan() && under_way(all) > 1.02 * places(o))
    fail(
        fmt::format("invalid: throughput times latency is {:.0f} messages, and there is room for {:.0f} (Little's law)",
                    under_way(all), places(o)));
}

}  // namespace

void totals::add_sender(const role_records& r) {
  sent += r.messages;
  blocked += r.blocked;
  tags_sent += r.tags;
  if (error.empty()) error = r.error;
}

void totals::add_receiver(const role_records& r) {
  received += r.messages;
  short_reads += r.short_reads;
  torn_bytes += r.torn_bytes;
  tags_received += r.tags;
  latency.merge(r.latency);
  for (const auto& [cpu, count] : r.by_cpu) by_cpu[cpu] += count;
  first_ended = std::min(first_ended, r.ended);
  last_ended = std::max(last_ended, r.ended);
  if (error.empty()) error = r.error;
}

run_result make_result(const hackbench_options& options, const totals& all) {
  run_result result;
  result.seconds = seconds(all.run);
  result.operations = static_cast<double>(all.received);
  auto& m = result.metrics;
  m.push_back(figure("time_s", result.seconds, direction::lower));
  if (options.stamped()) m.push_back(distribution_us("message_latency_us", all.latency));
  m.push_back(
      figure("messages_per_s",
             result.seconds > 0 ? std::optional(static_cast<double>(all.received) / result.seconds) : std::nullopt,
             direction::higher));
  m.push_back(detail("creation_time_ms", ms(all.creation)));
  m.push_back(detail("teardown_time_ms", ms(all.teardown)));
  m.push_back(detail("receiver_spread_ms", ms(all.last_ended - all.first_ended)));
  if (options.stamped()) m.push_back(detail("messages_under_way", under_way(all)));
  auto& c = result.counters;
  c["tasks"] = options.task_count();
  c["messages"] = all.received;
  c["receiving_cpus"] = static_cast<int64_t>(all.by_cpu.size());
  if (options.chan())
    c["blocked_writes"] = all.blocked;
  else
    c["short_reads"] = all.short_reads;
  return result;
}

void check_result(const hackbench_options& options, const totals& all, run_result& result) {
  check_counts(options, all, result);
  const auto note = [&result](std::string text) { result.notes.push_back(std::move(text)); };
  if (all.received == 0) return;
  note(shares_text(all.by_cpu));
  note(fmt::format("creation {:.3g} ms, teardown {:.3g} ms, the last receiver ended {:.3g} ms after the first",
                   ms(all.creation), ms(all.teardown), ms(all.last_ended - all.first_ended)));
  if (options.chan())
    note(fmt::format("{:.1f} % of the writes waited for room{}",
                     100.0 * static_cast<double>(all.blocked) / static_cast<double>(all.sent),
                     options.stamped() ? fmt::format("; {:.0f} messages under way on average", under_way(all)) : ""));
  const double per_channel = static_cast<double>(options.messages_per_receiver() * options.message_bytes);
  if (options.chan() && per_channel < 4.0 * static_cast<double>(options.capacity_bytes))
    note(
        fmt::format("a channel carries {:.0f} bytes and holds {}: senders hardly wait; give more -l or less --capacity",
                    per_channel, options.capacity_bytes));
  if (!options.stamped() && !options.no_stamps)
    note(fmt::format("-s {}: no latency, a stamp needs 8 bytes{}", options.message_bytes,
                     options.chan() ? "" : " and a message that is written in one piece (4096)"));
}

std::string original_layout(const hackbench_options& options, const run_result& result) {
  return fmt::format(
      "Running in threaded mode with {} groups using {} file descriptors each (== {} tasks)\n"
      "Each sender will pass {} messages of {} bytes\nTime: {:.3f}\n",
      options.groups, 2 * options.fan, options.task_count(), options.rounds, options.message_bytes, result.seconds);
}

}  // namespace heddle::bench::hackbench
