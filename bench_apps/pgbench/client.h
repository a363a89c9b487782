// The client: dispatchers, each a task that serves its share of the connections as the original's threads do with poll. It
// sends a statement, sleeps until any of its connections has an answer, reads that, sends the next.
//
// Closed loop: a client begins its next transaction when the last has ended. With a rate, beginnings are a Poisson process over
// all clients and a transaction's latency counts from the moment it was to begin, however late it did (schedule lag).
#pragma once

#include <cmath>
#include <deque>
#include <functional>
#include <mutex>
#include <queue>
#include <string>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/pgbench/options.h"
#include "bench_apps/pgbench/server.h"
#include "bench_apps/pgbench/wire.h"

namespace heddle::bench::pgbench {

// What all dispatchers go by; the times are set before they are released.
struct course {
  const pgbench_options& options;
  const script& steps;
  nanos window{0};            // a transaction that was to begin before is warm-up
  nanos until = core::never;  // none begins after
};

// For progress lines: written by one dispatcher, read now and then by the reporter. Relaxed: a line may be a transaction late.
struct alignas(core::cache_line) live_counters {
  core::atomic<int64_t> transactions{0}, skipped{0}, failed{0};
  core::atomic<double> latency_ms{0}, latency_ms2{0}, lag_ms{0};
};

struct client_statistics {
  int64_t transactions = 0;  // inside the window
  int64_t warmup = 0;        // before it
  int64_t skipped = 0;       // with -R and -L: too late to be sent
  int64_t late = 0;          // over the -L limit
  std::string error;         // the first the server reported
  histogram latency;
  histogram lag;
  std::vector<histogram> steps;  // with -r, by step of the script
  double latency_ns = 0;         // sum, and how long clients were at it: what Little's law compares
  double active_ns = 0;
  nanos ended{0};
};

// Where a dispatcher sleeps: connections that have something to say queue up here. Each is in the list at most twice (once as
// readable, once as writable), since it must be armed again before it may notify again.
template <backend B>
class poller {
 public:
  void notify(uint32_t connection) {
    bool first = false;
    {
      const std::lock_guard guard(mutex_);
      first = ready_.empty();
      ready_.push_back(connection);
    }
    if (first) word_.post();  // who finds company need not wake anybody: the list is taken whole
  }

  // Swaps the list out; sleeps while it is empty, until `deadline` at most.
  void take(std::vector<uint32_t>& into, nanos deadline) {
    into.clear();
    while (!swap(into))
      if (deadline == core::never)
        word_.wait();
      else if (!word_.wait_until(deadline))
        return;
  }

 private:
  bool swap(std::vector<uint32_t>& into) {
    const std::lock_guard guard(mutex_);
    into.swap(ready_);
    return !into.empty();
  }

  typename B::mutex mutex_;
  std::vector<uint32_t> ready_;
  typename B::word word_;
};

template <backend B>
class dispatcher {
 public:
  dispatcher(B& b, const course& run, core::rng random) : b_(b), run_(run), random_(random) {
    seen_.steps.resize(run.steps.steps.size());
  }

  // Before serve(): a client of ours, and its connection for the server's end.
  connection<B>& add_client() {
    const auto index = static_cast<uint32_t>(clients_.size());
    clients_.emplace_back(poller_, index, core::rng(random_.next()), run_.options.transactions);
    return clients_.back().link;
  }

  // The task's body. Says `connected` when every client is, and begins transactions at `go`.
  void serve(typename B::word& connected, typename B::word& go) {
    connect();
    connected.post();
    go.wait();
    live_ = clients_.size();
    began_ = b_.now();
    arrival_ = began_;
    for (client& c : clients_) next_transaction(c, began_);
    std::vector<uint32_t> ready;
    while (live_ > 0) {
      poller_.take(ready, throttled_.empty() ? core::never : throttled_.top().first);
      for (uint32_t i : ready) serve_client(clients_[i]);
      if (!throttled_.empty()) begin_due();
    }
    seen_.ended = b_.now();
  }

  const client_statistics& seen() const { return seen_; }
  const live_counters& live() const { return counters_; }

 private:
  struct client final : listener {
    client(poller<B>& all, uint32_t number, core::rng r, int64_t transactions)
        : home(all), index(number), random(r), left(transactions), link(*this) {}
    void notify() override { home.notify(index); }

    poller<B>& home;
    const uint32_t index;
    core::rng random;
    int64_t left;  // with -t
    connection<B> link;
    inbox in;
    std::string out;
    size_t sent = 0;  // of `out`
    variables values;
    size_t at = 0;  // in the script
    nanos to_begin{0};
    nanos step_began{0};
    int greetings = 0;
    bool failed = false;
  };

  void connect() {
    size_t open = 0;
    for (client& c : clients_) {
      c.greetings = prepared() ? 2 : 1;  // the server is ready after the start-up, and after the statements
      message_writer(c.out, startup_message).text("heddle").text("pgbench");
      if (prepared())
        for (const step& s : run_.steps.steps)
          if (!s.meta()) message_writer(c.out, parse_message).text(name_of(s.kind)).text(prepared_sql(s.kind));
      if (prepared()) message_writer(c.out, sync_message);
      arm(c);
      send(c);
    }
    std::vector<uint32_t> ready;
    while (open < clients_.size()) {
      poller_.take(ready, core::never);
      for (uint32_t i : ready) {
        client& c = clients_[i];
        send(c);
        while (c.greetings > 0 && read_until_ready(c)) c.greetings--;
        if (c.greetings > 0)
          arm(c);
        else
          open++;
      }
    }
  }

  // Chooses when the next transaction begins: now, later (with a rate), or never.
  void next_transaction(client& c, nanos now) {
    c.to_begin = run_.options.rate > 0 ? next_arrival(c, now) : now;
    const bool spent = !run_.options.by_time() && c.left <= 0;
    if (spent || c.failed || c.to_begin >= run_.until || stop_requested()) return leave(c, now);
    if (c.to_begin > now) return throttled_.emplace(c.to_begin, c.index), void();
    begin(c, now);
  }

  // The next moment of this dispatcher's share of the Poisson process. Moments that are already later than the limit are skipped.
  nanos next_arrival(client& c, nanos now) {
    const double mean_ns = 1e9 * static_cast<double>(run_.options.dispatchers) / run_.options.rate;
    const auto limit = nanos{static_cast<int64_t>(run_.options.latency_limit_ms * 1e6)};
    for (;;) {
      arrival_ += nanos{static_cast<int64_t>(-std::log(1 - random_.unit()) * mean_ns)};
      const bool spent = !run_.options.by_time() && c.left <= 0;
      if (limit.count() == 0 || arrival_ + limit >= now || arrival_ >= run_.until || spent) return arrival_;
      c.left--;
      if (arrival_ >= run_.window) seen_.skipped++, core::bump(counters_.skipped, 1);
    }
  }

  void begin_due() {
    const nanos now = b_.now();
    while (!throttled_.empty() && throttled_.top().first <= now) {
      client& c = clients_[throttled_.top().second];
      throttled_.pop();
      begin(c, now);
    }
  }

  void begin(client& c, nanos now) {
    if (run_.options.rate > 0 && c.to_begin >= run_.window) {
      seen_.lag.record(now - c.to_begin);
      core::bump(counters_.lag_ms, to_ms(now - c.to_begin));
    }
    c.at = 0;
    go_on(c, now);
  }

  // Runs meta commands and sends the next statement; at the script's end the transaction is done.
  void go_on(client& c, nanos now) {
    const auto& steps = run_.steps.steps;
    c.step_began = now;
    for (; c.at < steps.size(); c.at++) {
      if (!steps[c.at].meta()) return send_statement(c, steps[c.at].kind);
      draw(steps[c.at].kind, run_.options.scale, c.random, c.values);
      if (run_.options.per_statement) note_step(c, b_.now());
    }
    finish(c, now);
    next_transaction(c, now);
  }

  void finish(client& c, nanos now) {
    c.left--;
    if (c.to_begin < run_.window) return seen_.warmup++, void();
    const nanos latency = now - c.to_begin;
    seen_.transactions++;
    seen_.latency.record(latency);
    seen_.latency_ns += static_cast<double>(latency.count());
    const double ms = to_ms(latency);
    if (run_.options.latency_limit_ms > 0 && ms > run_.options.latency_limit_ms) seen_.late++;
    core::bump(counters_.transactions, 1);
    core::bump(counters_.latency_ms, ms);
    core::bump(counters_.latency_ms2, ms * ms);
  }

  void leave(client& c, nanos now) {
    message_writer(c.out, terminate_message);
    send(c);
    seen_.active_ns += static_cast<double>((now - std::max(began_, run_.window)).count());
    live_--;
  }

  void send_statement(client& c, step_kind statement) {
    if (prepared()) {
      parameters(statement, c.values, bound_);
      {
        message_writer bind(c.out, bind_message);
        bind.text(name_of(statement)).int16(static_cast<int>(bound_.size()));
        for (int64_t v : bound_) bind.decimal(v);
      }
      message_writer(c.out, execute_message);
      message_writer(c.out, sync_message);
    } else {
      message_writer query(c.out, query_message);
      append_sql(statement, c.values, query.buffer());
      query.byte('\0');
    }
    arm(c);
    send(c);
  }

  // Sends what the queue takes; the rest goes when the server has made room and says so.
  void send(client& c) {
    while (c.sent < c.out.size()) {
      c.sent += c.link.requests.try_write(std::string_view(c.out).substr(c.sent));
      if (c.sent < c.out.size() && c.link.requests.writer_sleeps()) return;
    }
    c.out.clear();
    c.sent = 0;
  }

  // From here on the connection notifies once when it becomes readable; it may already be.
  void arm(client& c) {
    if (!c.link.responses.reader_sleeps()) poller_.notify(c.index);
  }

  void serve_client(client& c) {
    if (c.sent < c.out.size()) send(c);
    if (!read_until_ready(c)) return arm(c);
    const nanos now = b_.now();
    if (run_.options.per_statement) note_step(c, now);
    if (c.failed) return next_transaction(c, now);
    c.at++;
    go_on(c, now);
  }

  // Takes in what arrived; true when the server is ready for the next statement.
  bool read_until_ready(client& c) {
    for (;;) {
      while (const auto m = c.in.next()) {
        if (m->type == ready_for_query) return true;
        if (m->type == error_response) fail(c, body_reader(m->body));
      }
      const size_t arrived = c.link.responses.try_read(c.in.space(receive_bytes));
      if (arrived == 0) return false;
      c.in.arrived(arrived);
    }
  }

  void fail(client& c, body_reader body) {
    c.failed = true;
    core::bump(counters_.failed, 1);
    const std::string severity(body.text());
    if (seen_.error.empty()) seen_.error = severity + ": " + std::string(body.text());
  }

  void note_step(client& c, nanos now) {
    if (c.to_begin >= run_.window) seen_.steps[c.at].record(now - c.step_began);
    c.step_began = now;
  }

  bool prepared() const { return run_.options.queries() == query_mode::prepared; }
  static double to_ms(nanos d) { return static_cast<double>(d.count()) / 1e6; }

  static constexpr size_t receive_bytes = 4096;
  using moment = std::pair<nanos, uint32_t>;  // when, and which client

  B& b_;
  const course& run_;
  core::rng random_;
  poller<B> poller_;
  std::deque<client> clients_;  // never move: connections point at them
  std::priority_queue<moment, std::vector<moment>, std::greater<>> throttled_;
  size_t live_ = 0;
  nanos began_{0};
  nanos arrival_{0};
  std::vector<int64_t> bound_;
  client_statistics seen_;
  live_counters counters_;
};

}  // namespace heddle::bench::pgbench
