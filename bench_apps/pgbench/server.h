// The server: one task per connection, as PostgreSQL has one process. It takes bytes from its connection, parses and
// executes what they ask for, and answers in bytes; the tables, locks and log it shares with the other sessions.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/pgbench/byte_queue.h"
#include "bench_apps/pgbench/commit_log.h"
#include "bench_apps/pgbench/row_locks.h"
#include "bench_apps/pgbench/sql.h"
#include "bench_apps/pgbench/storage.h"
#include "bench_apps/pgbench/wire.h"

namespace heddle::bench::pgbench {

template <backend B>
struct database {
  database(int64_t scale, nanos flush)
      : tables{heap_table(accounts_per_scale * scale, accounts_per_scale),
               heap_table(tellers_per_scale * scale, tellers_per_scale),
               heap_table(branches_per_scale * scale, branches_per_scale)},
        log(flush) {}

  std::array<heap_table, locked_tables> tables;
  row_locks<B> locks;
  typename B::mutex history_latch;
  history past;
  commit_log<B> log;
};

// A task's way of sleeping on queues: one flag.
template <backend B>
struct word_listener final : listener {
  void notify() override { word.post(); }
  typename B::word word;
};

// Both directions, and who sleeps on the server's end. The client's end listens for many connections at once.
template <backend B>
struct connection {
  explicit connection(listener& client) : requests(server, client), responses(client, server) {}
  word_listener<B> server;
  byte_queue requests;
  byte_queue responses;
};

// What a session saw; read when its task has ended.
struct session_statistics {
  int64_t committed = 0;
  int64_t statements = 0;
  std::array<int64_t, locked_tables> locks{};
  std::array<histogram, locked_tables> lock_wait;  // of the locks that had to wait
};

template <backend B>
class session {
 public:
  session(B& b, database<B>& db, connection<B>& link, uint32_t id, nanos statement_cpu)
      : b_(b), db_(db), link_(link), id_(id), statement_cpu_(statement_cpu) {}

  // The task's body: until the client says goodbye.
  void serve() {
    for (;;) {
      const message m = receive();
      if (m.type == terminate_message) break;
      answer(m);
    }
    HEDDLE_ASSERT(held_.empty());
  }

  const session_statistics& seen() const { return seen_; }

 private:
  message receive() {
    for (;;) {
      if (const auto m = in_.next()) return *m;
      while (true) {
        const size_t arrived = link_.requests.try_read(in_.space(receive_bytes));
        in_.arrived(arrived);
        if (arrived > 0) break;
        if (link_.requests.reader_sleeps()) link_.server.word.wait();
      }
    }
  }

  void answer(const message& m) {
    body_reader body(m.body);
    switch (m.type) {
      case startup_message:
        message_writer(out_, authentication_ok).int32(0);
        return ready();
      case query_message:
        if (const auto p = parse_sql(body.text()))
          execute(*p, bind(*p, {}));
        else
          complain("syntax error");
        return ready();
      case parse_message: {
        const std::string name(body.text());
        if (const auto p = parse_sql(body.text())) {
          prepared_[name] = *p;
          message_writer(out_, parse_complete);
        } else {
          complain("syntax error");
        }
        return;
      }
      case bind_message:
        return bind_parameters(body);
      case execute_message:
        return portal_ ? execute(*portal_, portal_values_) : complain("nothing is bound");
      case sync_message:
        return ready();
      default:
        complain("unknown message");
    }
  }

  void bind_parameters(body_reader& body) {
    portal_ = nullptr;
    const auto found = prepared_.find(body.text());
    std::array<int64_t, 4> values{};
    const int count = body.int16();
    if (count < 0 || count > 4) return complain("too many parameters");
    for (int i = 0; i < count; i++) values[static_cast<size_t>(i)] = body.decimal();
    if (found == prepared_.end() || !body.ok() || count != found->second.parameter_count())
      return complain("parameters do not fit the statement");
    portal_ = &found->second;
    portal_values_ = bind(*portal_, {values.data(), static_cast<size_t>(count)});
    message_writer(out_, bind_complete);
  }

  // The parser's, planner's and executor's time is burnt; look-ups, locks, updates and the log are real.
  void execute(const plan& p, const std::array<int64_t, 4>& values) {
    seen_.statements++;
    b_.burn(statement_cpu_);
    switch (p.action) {
      case verb::begin:
        in_transaction_ = true;
        return complete("BEGIN");
      case verb::select:
        return select(p, values[0]);
      case verb::update:
        update(p, values[0], values[1]);
        break;
      case verb::insert:
        insert(values);
        break;
      case verb::end:
        commit();
        return complete("COMMIT");
    }
    if (!in_transaction_) commit();
  }

  void select(const plan& p, int64_t key) {
    row* r = table(p).find(key);
    if (r) {
      b_.touch(r, sizeof(row), access::read);
      message_writer(out_, row_description)
          .int16(1)
          .text("abalance")
          .int32(16384)
          .int16(3)
          .int32(23)
          .int16(4)
          .int32(-1)
          .int16(0);
      message_writer(out_, data_row).int16(1).decimal(r->balance.load(core::relaxed));
    }
    complete(r ? "SELECT 1" : "SELECT 0");
  }

  void update(const plan& p, int64_t delta, int64_t key) {
    row* r = table(p).find(key);
    if (!r) return complete("UPDATE 0");
    lock(p.table, *r);
    b_.touch(r, sizeof(row), access::write);
    r->balance.store(r->balance.load(core::relaxed) + delta, core::relaxed);  // by its holder alone
    log_row(p.table, *r);
    complete("UPDATE 1");
  }

  // The new version of the row as a whole, as a write-ahead log holds it.
  void log_row(table_id id, const row& r) {
    message_writer(log_, static_cast<char>('0' + static_cast<int>(id)))
        .int32(r.key)
        .int32(r.branch)
        .decimal(r.balance.load(core::relaxed))
        .text({r.filler, sizeof r.filler});
  }

  void insert(const std::array<int64_t, 4>& v) {
    const history::entry e{.tid = static_cast<int32_t>(v[0]),
                           .bid = static_cast<int32_t>(v[1]),
                           .aid = static_cast<int32_t>(v[2]),
                           .delta = static_cast<int32_t>(v[3]),
                           .at_ns = b_.now().count(),
                           .filler = {}};
    {
      const std::lock_guard guard(db_.history_latch);
      db_.past.append(e);
    }
    log_.append(reinterpret_cast<const char*>(&e), sizeof e);
    complete("INSERT 0 1");
  }

  // Locks are given back after the flush: until then nobody may build on what could still be lost.
  void commit() {
    if (!log_.empty()) db_.log.commit(b_, log_, granted_);
    for (row* r : held_) db_.locks.unlock(*r);
    held_.clear();
    log_.clear();
    in_transaction_ = false;
    seen_.committed++;
  }

  void lock(table_id id, row& r) {
    if (std::find(held_.begin(), held_.end(), &r) != held_.end()) return;
    const auto at = static_cast<size_t>(id);
    const nanos waited = db_.locks.lock(b_, r, id_, granted_);
    seen_.locks[at]++;
    if (waited.count() > 0) seen_.lock_wait[at].record(waited);
    held_.push_back(&r);
  }

  void complete(std::string_view tag) { message_writer(out_, command_complete).text(tag); }
  void complain(std::string_view what) { message_writer(out_, error_response).text("ERROR").text(what); }

  // Ends an answer and sends it.
  void ready() {
    message_writer(out_, ready_for_query).byte(in_transaction_ ? 'T' : 'I');
    for (std::string_view rest = out_; !rest.empty();) {
      rest.remove_prefix(link_.responses.try_write(rest));
      if (!rest.empty() && link_.responses.writer_sleeps()) link_.server.word.wait();
    }
    out_.clear();
  }

  heap_table& table(const plan& p) { return db_.tables[static_cast<size_t>(p.table)]; }

  static constexpr size_t receive_bytes = 4096;

  B& b_;
  database<B>& db_;
  connection<B>& link_;
  const uint32_t id_;
  const nanos statement_cpu_;
  inbox in_;
  std::string out_;
  std::map<std::string, plan, std::less<>> prepared_;
  const plan* portal_ = nullptr;
  std::array<int64_t, 4> portal_values_{};
  bool in_transaction_ = false;
  std::vector<row*> held_;
  std::string log_;
  typename B::word granted_;  // by a row's former holder, or by whoever flushed for us
  session_statistics seen_;
};

}  // namespace heddle::bench::pgbench
