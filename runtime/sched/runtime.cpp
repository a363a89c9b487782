// heddle::runtime: options -> scheduler, and what it tells about itself.
#include "heddle/runtime.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "affinity/discover.h"
#include "affinity/limits.h"
#include "heddle/detail/errors.h"
#include "runtime/base/settings_list.h"
#include "runtime/fiber/overflow.h"
#include "runtime/machine/host.h"
#include "runtime/machine/virtual.h"
#include "runtime/sched/schedstat.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/threads.h"
#include "runtime/sync/block.h"

namespace heddle {

using namespace heddle::core;

namespace {

std::function<void(int, std::string_view)> logger(const runtime_options& options) {
  if (options.log)
    return [log = options.log](int level, std::string_view line) { log(static_cast<severity>(level), line); };
  return [](int, std::string_view line) {
    std::fprintf(stderr, "heddle: %.*s\n", static_cast<int>(line.size()), line.data());
  };
}

// A fiber that outlived its shutdown still runs inside: the scheduler stays for ever, where a debugger and a leak checker find it.
void abandon(scheduler* s) noexcept {
  static constinit atomic<scheduler*> last{nullptr};
  s->abandoned_before = last.exchange(s, relaxed);
}

std::string_view environment(const runtime_options& options, const char* name) {
  const char* value = options.read_environment ? std::getenv(name) : nullptr;
  return value ? value : "";
}

std::unique_ptr<settings_list> read_settings(const runtime_options& options) {
  auto list = std::make_unique<settings_list>();
  const auto add = [&](settings_source source, std::string_view items) {
    if (items.empty()) return;
    if (const std::string error = list->add(source, items); !error.empty())
      throw std::invalid_argument("heddle: " + error);
  };
  add(settings_source::environment, environment(options, "HEDDLE_SETTINGS"));
  if (const std::string_view rung = environment(options, "HEDDLE_IO"); !rung.empty())
    add(settings_source::environment, "io=" + std::string(rung));
  add(settings_source::api, options.settings);
  if (options.stack_bytes) add(settings_source::api, "stack_bytes=" + std::to_string(options.stack_bytes));
  return list;
}

// The options beat the environment.
worker_request read_request(const runtime_options& options) {
  worker_request r;
  r.cpus_source = "runtime_options::cpus";
  r.workers_source = "runtime_options::workers";
  r.cpus = options.cpus;
  if (options.workers) r.workers = static_cast<int>(options.workers);
  if (r.cpus.empty()) {
    r.cpus_source = "HEDDLE_CPUS";
    r.cpus = environment(options, "HEDDLE_CPUS");
  }
  if (const std::string_view wanted = environment(options, "HEDDLE_WORKERS");
      !r.workers && !wanted.empty() && wanted != "auto") {
    int n = 0;
    const auto [end, bad] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), n);
    if (bad != std::errc{} || end != wanted.data() + wanted.size())
      throw std::invalid_argument("heddle: HEDDLE_WORKERS: '" + std::string(wanted) + "' is not a number or 'auto'");
    r.workers = n;
    r.workers_source = "HEDDLE_WORKERS";
  }
  return r;
}

}  // namespace

runtime::runtime(runtime_options options) : shutdown_deadline_(options.shutdown_deadline) {
  auto log = logger(options);
  scheduler_options s;
  settings_ = read_settings(options);
  s.initial = settings_->resolve().values;
  s.stack_bytes = static_cast<size_t>(s.initial.stack_bytes);
  s.seed = options.seed;
  s.shutdown_deadline = options.shutdown_deadline;

  loaded_machine loaded = load_machine(options.machine.spec());
  if (!loaded.machine) throw std::invalid_argument("heddle: " + loaded.error);
  const bool host = options.machine.spec() == "host";
  if (host && !loaded.machine->this_system)
    throw std::invalid_argument(
        "heddle: machine: hwloc's environment describes another system; a host runtime cannot start on it");

  const worker_choice chosen =
      choose_workers(*loaded.machine, read_request(options), host ? read_limits() : process_limits{});
  if (!chosen.error.empty()) throw std::invalid_argument("heddle: " + chosen.error);
  reason_ = chosen.reason;
  s.cpus = restricted(*loaded.machine, chosen.chosen);
  s.log = log;
  if (host)
    s.on = make_host(s.cpus, [log](std::string_view line) { log(static_cast<int>(severity::warning), line); });
  else
    s.on = make_virtual(s.cpus, s.initial, s.seed);
  scheduler_ = std::make_unique<scheduler>(std::move(s));
  if (options.handle_stack_overflow) watch_stacks(scheduler_->pool);
}

runtime::~runtime() {
  if (!scheduler_) return;
  if (scheduler_->on->forked()) {  // its threads, and what they hold, are the parent's
    abandon(scheduler_.release());
    return;
  }
  const shutdown_report report = shutdown(shutdown_deadline_);
  if (!report.stuck.empty())
    for (const auto& f : report.stuck)
      scheduler_->log(static_cast<int>(severity::error), "left running at shutdown: fiber " + std::to_string(f.id) +
                                                             " '" + f.name + "', " + f.state +
                                                             (f.waiting_on.empty() ? "" : " on " + f.waiting_on));
  unwatch_stacks(scheduler_->pool);
  if (scheduler_->leaked) abandon(scheduler_.release());
}

size_t runtime::workers() const noexcept { return scheduler_->workers.size(); }
std::string runtime::workers_reason() const { return reason_; }

runtime_stats runtime::stats() const {
  runtime_stats out;
  for (const auto& w : scheduler_->workers)
    for (size_t i = 0; i < counter_count; i++)
      out.counters[counter_name(static_cast<counter>(i))] += w->count.get(static_cast<counter>(i));
  for (const auto& w : scheduler_->workers) {
    const reason_counters& r = w->reasons;
    for (size_t i = 0; i < wake_reason_count; i++)
      out.counters[std::string(to_string(static_cast<wake_reason>(i)))] += r.wake[i].load(relaxed);
    for (size_t i = 0; i < affine_reason_count; i++)
      out.counters[std::string(to_string(static_cast<affine_reason>(i)))] += r.affine[i].load(relaxed);
    for (size_t i = 0; i < fork_reason_count; i++)
      out.counters[std::string(to_string(static_cast<fork_reason>(i)))] += r.fork[i].load(relaxed);
    for (size_t i = 0; i < balance_reason_names.size(); i++)
      out.counters["lb_" + std::string(balance_reason_names[i])] += r.balance[i].load(relaxed);
    out.counters["wide"] += r.wide.load(relaxed);
    out.counters["slow"] += r.slow.load(relaxed);
    out.counters["burst"] += r.burst.load(relaxed);
    out.counters["probes"] += r.probes.load(relaxed);
    out.counters["lost_races"] += r.lost_races.load(relaxed);
    out.counters["searches"] += r.searches.load(relaxed);
    out.counters["searches_failed"] += r.searches_failed.load(relaxed);
    for (size_t i = 0; i < reach_count; i++) {
      out.counters[std::string("woken_") + reach_names[i]] += r.woken[i].load(relaxed);
      out.counters[std::string("pulled_") + reach_names[i]] += r.pulled[i].load(relaxed);
      out.counters[std::string("migrations_") + reach_names[i]] += r.migrated[i].load(relaxed);
    }
    count_levels(*w, out.counters);
  }
  out.counters["spawned"] += scheduler_->outside_spawned.load(relaxed);
  out.counters["rescues"] += scheduler_->rescues.load(relaxed);
  scheduler_->on->count([&](std::string_view name, uint64_t value) { out.counters[std::string(name)] += value; });
  out.fibers_live = scheduler_->live();
  out.workers = workers();
  return out;
}

void runtime::schedstat(std::ostream& out) const { write_schedstat(*scheduler_, out); }

void runtime::dump(std::ostream& out) const {
  const int64_t now = scheduler_->on->now().count();
  scheduler_->pool.for_each([&](fiber_record& f) {
    if (!f.live.load(acquire) || f.joiner.load(acquire) == joiner_done) return;
    const stuck_fiber d = scheduler_->describe(f);
    out << "fiber " << d.id << " '" << d.name << "' " << d.state;
    if (!d.waiting_on.empty())
      out << " on " << d.waiting_on << ' ' << f.wait_object.load(relaxed) << " for "
          << (now - f.wait_since.load(relaxed)) / 1000 << " us";
    out << '\n';
  });
}

void runtime::set(std::string_view list) {
  scheduler_->on->check_thread();
  auto wanted = std::make_unique<settings_list>(*settings_);
  if (const std::string error = wanted->add(settings_source::api, list); !error.empty())
    throw std::invalid_argument("heddle: " + error);
  const settings values = wanted->resolve().values;
  if (const setting_row* row = first_start_difference(*scheduler_->rules.load(acquire), values))
    throw std::invalid_argument("heddle: " + std::string(row->name) + " can only be set at start");
  settings_ = std::move(wanted);
  scheduler_->change_settings(values);
}

shutdown_report runtime::shutdown(std::chrono::nanoseconds deadline) {
  if (carrier* c = this_carrier(); c && c->home == scheduler_.get())
    throw std::logic_error("heddle: runtime::shutdown inside one of its own fibers, for whose end it would wait");
  scheduler_->on->check_thread();
  shutdown_report report;
  for (stuck_fiber& f : scheduler_->shutdown(deadline))
    report.stuck.push_back({f.id, std::move(f.name), std::move(f.state), std::move(f.waiting_on)});
  return report;
}

}  // namespace heddle
