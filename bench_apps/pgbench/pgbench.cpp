// Directs a run: tables, sessions, dispatchers, the clock between them, and the books at the end.
#include "bench_apps/pgbench/pgbench.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>

#include "bench_apps/common/dispatch.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/pgbench/client.h"
#include "bench_apps/pgbench/options.h"
#include "bench_apps/pgbench/report.h"
#include "bench_apps/pgbench/server.h"

namespace heddle::bench {
namespace {

using namespace pgbench;

// A task and what it is told and tells.
template <backend B>
struct dispatcher_role {
  dispatcher_role(B& b, const course& run, core::rng random) : body(b, run, random) {}
  dispatcher<B> body;
  typename B::word connected, go;
};

// One line every -P seconds, as the original prints it.
template <backend B>
class progress_reporter {
 public:
  progress_reporter(B& b, const std::deque<dispatcher_role<B>>& all, int64_t every_s)
      : b_(b), all_(all), every_(std::chrono::seconds{every_s}) {}

  void serve(nanos start, typename B::word& stop) {
    snapshot before;
    for (nanos next = start + every_; !stop.wait_until(next); next += every_) {
      const snapshot now = take();
      print(b_.now() - start, every_, now, before);
      before = now;
    }
  }

 private:
  struct snapshot {
    int64_t transactions = 0, skipped = 0, failed = 0;
    double latency_ms = 0, latency_ms2 = 0, lag_ms = 0;
  };

  snapshot take() const {
    snapshot s;
    for (const auto& d : all_) {
      const live_counters& c = d.body.live();
      s.transactions += c.transactions.load(core::relaxed);
      s.skipped += c.skipped.load(core::relaxed);
      s.failed += c.failed.load(core::relaxed);
      s.latency_ms += c.latency_ms.load(core::relaxed);
      s.latency_ms2 += c.latency_ms2.load(core::relaxed);
      s.lag_ms += c.lag_ms.load(core::relaxed);
    }
    return s;
  }

  void print(nanos since, nanos span, const snapshot& now, const snapshot& before) const {
    const auto count = static_cast<double>(now.transactions - before.transactions);
    const double n = std::max(count, 1.0), mean = (now.latency_ms - before.latency_ms) / n;
    const double deviation = std::sqrt(std::max(0.0, (now.latency_ms2 - before.latency_ms2) / n - mean * mean));
    std::string line =
        fmt::format("progress: {:.1f} s, {:.1f} tps, lat {:.3f} ms stddev {:.3f}, {} failed",
                    std::chrono::duration<double>(since).count(), count / std::chrono::duration<double>(span).count(),
                    mean, deviation, now.failed - before.failed);
    if (now.lag_ms > 0) line += fmt::format(", lag {:.3f} ms", (now.lag_ms - before.lag_ms) / n);
    if (now.skipped > 0) line += fmt::format(", {} skipped", now.skipped - before.skipped);
    fmt::print(stderr, "{}\n", line);
  }

  B& b_;
  const std::deque<dispatcher_role<B>>& all_;
  const nanos every_;
};

template <backend B>
class scene {
 public:
  scene(B& b, const pgbench_options& options, const run_request& request)
      : b_(b),
        options_(options),
        warmup_(request.warmup),
        db_(options.scale, options.flush_time),
        course_{options, builtin(options.script())} {
    core::rng random(request.seed);
    for (int64_t i = 0; i < options.dispatchers; i++) dispatchers_.emplace_back(b, course_, core::rng(random.next()));
    for (int64_t i = 0; i < options.clients; i++) {
      connection<B>& link = dispatchers_[static_cast<size_t>(i % options.dispatchers)].body.add_client();
      sessions_.emplace_back(b, db_, link, static_cast<uint32_t>(i + 1), options.statement_cpu);
    }
  }

  // The directing role.
  void play() {
    const nanos start = b_.now();
    std::vector<role> roles;
    for (size_t i = 0; i < sessions_.size(); i++)
      roles.push_back(b_.spawn(fmt::format("session {}", i + 1), [&s = sessions_[i]] { s.serve(); }));
    for (size_t i = 0; i < dispatchers_.size(); i++)
      roles.push_back(
          b_.spawn(fmt::format("client {}", i + 1), [&d = dispatchers_[i]] { d.body.serve(d.connected, d.go); }));
    for (auto& d : dispatchers_) d.connected.wait();
    const nanos connected = b_.now();
    all_.connected = connected - start;
    all_.window = course_.window = connected + warmup_;
    if (options_.by_time()) course_.until = course_.window + options_.runtime;

    typename B::word stop;
    role reporter;
    progress_reporter<B> progress(b_, dispatchers_, options_.progress_s);
    if (options_.progress_s > 0) reporter = b_.spawn("progress", [&] { progress.serve(course_.window, stop); });
    for (auto& d : dispatchers_) d.go.post();
    for (role& r : roles) r.join();
    if (options_.progress_s > 0) {
      stop.post();
      reporter.join();
    }
  }

  run_result result() {
    for (const auto& d : dispatchers_) all_.add(d.body.seen());
    for (const auto& s : sessions_) all_.add(s.seen());
    all_.flushes = db_.log.seen();
    run_result r = make_result(options_, all_);
    b_.describe(r);
    check_result(options_, all_, close_books(), r);
    return r;
  }

 private:
  using role = decltype(std::declval<B&>().spawn(std::string(), [] {}));

  books close_books() {
    books found;
    for (size_t i = 0; i < locked_tables; i++) {
      found.balances[i] = db_.tables[i].sum();
      for (const row& r : db_.tables[i].rows()) found.locks_held |= r.holder != row_locks<B>::nobody;
    }
    found.history_sum = db_.past.sum();
    found.history_rows = db_.past.size();
    return found;
  }

  B& b_;
  const pgbench_options& options_;
  const nanos warmup_;
  database<B> db_;
  course course_;
  std::deque<dispatcher_role<B>> dispatchers_;
  std::deque<session<B>> sessions_;
  totals all_;
};

// Nothing where the system does not say.
std::optional<int64_t> available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string name, unit; in >> name;) {
    int64_t kib = 0;
    if (!(in >> kib)) return {};
    std::getline(in, unit);
    if (name == "MemAvailable:") return kib * 1024;
  }
  return {};
}

void refuse_what_does_not_fit(int64_t scale) {
  const auto available = available_bytes();
  if (available && bytes_for(scale) > *available)
    throw capability_error(fmt::format("-s: '{}' needs {:.1f} GiB of memory, {:.1f} are available", scale,
                                       static_cast<double>(bytes_for(scale)) / (1 << 30),
                                       static_cast<double>(*available) / (1 << 30)));
}

class pgbench_program final : public app {
 public:
  void declare(arguments& args) override { options_.declare(args); }
  void check() override { options_.check(); }
  ordered_json options() const override { return options_.json(); }
  nanos run_length() const override { return options_.runtime; }
  run_result run(const run_request& request) override {
    refuse_what_does_not_fit(options_.scale);
    return on_backend(request, [&](auto& b) {
      auto one = std::make_unique<scene<std::remove_cvref_t<decltype(b)>>>(b, options_, request);
      b.run([&] { one->play(); });
      return one->result();
    });
  }
  std::string original(const run_result& result) const override { return original_layout(options_, result); }
  std::string_view primary_metric() const override { return "tps"; }

 private:
  pgbench_options options_;
};

}  // namespace

std::unique_ptr<app> make_pgbench() { return std::make_unique<pgbench_program>(); }

}  // namespace heddle::bench
