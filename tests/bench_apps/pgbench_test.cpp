#include "bench_apps/pgbench/pgbench.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <thread>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/calibration.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/thread_backend.h"
#include "bench_apps/pgbench/byte_queue.h"
#include "bench_apps/pgbench/commit_log.h"
#include "bench_apps/pgbench/options.h"
#include "bench_apps/pgbench/report.h"
#include "bench_apps/pgbench/row_locks.h"
#include "bench_apps/pgbench/script.h"
#include "bench_apps/pgbench/sql.h"
#include "bench_apps/pgbench/storage.h"
#include "bench_apps/pgbench/wire.h"
#include "tests/seed.h"

using namespace heddle::bench;
using namespace heddle::bench::pgbench;
using heddle::core::rng;
using namespace std::chrono_literals;

namespace {

constexpr script_kind all_scripts[] = {script_kind::tpcb_like, script_kind::simple_update, script_kind::select_only};

run_request on_threads() { return {.backend = backend_kind::threads, .seed = heddle_test::seed()}; }

pgbench_options parsed(const std::vector<std::string>& words) {
  pgbench_options o;
  arguments args("pgbench", "");
  o.declare(args);
  args.parse(words);
  o.check();
  return o;
}

run_result run_app(const std::vector<std::string>& words) {
  static const calibration work = calibration::measure();
  const auto what = make_pgbench();
  arguments args("pgbench", "");
  what->declare(args);
  args.parse(words);
  what->check();
  run_request request = on_threads();
  request.work = &work;
  return what->run(request);
}

// A device whose flush ends when the test says so.
struct held_backend : thread_backend {
  explicit held_backend(const run_request& r) : thread_backend(r) {}
  std::function<void()> flush = [] {};
  void sleep_for(nanos) { flush(); }
};

}  // namespace

TEST_CASE("pgbench: every statement of every script is read back as what it says, with values and with parameters") {
  rng random(heddle_test::seed());
  for (script_kind kind : all_scripts)
    for (const step& s : builtin(kind).steps) {
      if (s.meta()) continue;
      variables v;
      for (step_kind meta : {step_kind::set_aid, step_kind::set_bid, step_kind::set_tid, step_kind::set_delta})
        draw(meta, 7, random, v);
      std::string text;
      append_sql(s.kind, v, text);
      CAPTURE(text);
      const auto direct = parse_sql(text);
      const auto prepared = parse_sql(prepared_sql(s.kind));
      REQUIRE(direct);
      REQUIRE(prepared);
      CHECK(direct->action == prepared->action);
      CHECK(direct->table == prepared->table);
      std::vector<int64_t> given;
      parameters(s.kind, v, given);
      CHECK(prepared->parameter_count() == static_cast<int>(given.size()));
      CHECK(pgbench::bind(*direct, {}) == pgbench::bind(*prepared, given));
    }
}

TEST_CASE("pgbench: what is no statement is refused") {
  for (const char* text :
       {"", "DROP TABLE pgbench_accounts;", "UPDATE pgbench_accounts SET tbalance = tbalance + 1 WHERE aid = 1;",
        "UPDATE pgbench_history SET delta = delta + 1 WHERE tid = 1;",
        "SELECT abalance FROM pgbench_tellers WHERE aid = 1;", "SELECT abalance FROM pgbench_accounts WHERE aid = ;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = $5;", "BEGIN; END;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, CURRENT_TIMESTAMP);"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_sql(text));
  }
  CHECK(parse_sql("select ABALANCE from pgbench_accounts where aid=-3"));
}

TEST_CASE("pgbench: values drawn stay inside the scale and reach its ends") {
  rng random(heddle_test::seed());
  std::set<int64_t> tellers;
  for (int i = 0; i < 2000; i++) {
    variables v;
    for (step_kind meta : {step_kind::set_aid, step_kind::set_bid, step_kind::set_tid, step_kind::set_delta})
      draw(meta, 2, random, v);
    CHECK((v.aid >= 1 && v.aid <= 200'000 && v.bid >= 1 && v.bid <= 2 && v.delta >= -5000 && v.delta <= 5000));
    tellers.insert(v.tid);
  }
  CHECK(tellers.size() == 20);
  CHECK(*tellers.begin() == 1);
  CHECK(*tellers.rbegin() == 20);
}

TEST_CASE("pgbench: messages arrive whole however the bytes are cut") {
  rng random(heddle_test::seed());
  std::string sent;
  constexpr int count = 200;
  for (int i = 0; i < count; i++) {
    message_writer(sent, 'D').int16(i).decimal(int64_t{i} * i - 500).text(std::string(random.below(90), 'x')).int32(-i);
  }
  inbox in;
  int received = 0;
  for (size_t at = 0; at < sent.size();) {
    const size_t piece = std::min(sent.size() - at, size_t{1} + random.below(60));
    const auto space = in.space(piece);
    std::copy_n(sent.data() + at, piece, space.data());
    in.arrived(piece);
    at += piece;
    while (const auto m = in.next()) {
      body_reader body(m->body);
      CHECK(m->type == 'D');
      CHECK(body.int16() == received);
      CHECK(body.decimal() == int64_t{received} * received - 500);
      body.text();
      CHECK(body.int32() == -received);
      CHECK(body.ok());
      received++;
    }
  }
  CHECK(received == count);
}

TEST_CASE("pgbench: a body that ends early reads as empty and says so") {
  body_reader body(
      std::string_view("\0\0\0\x09"
                       "12",
                       6));
  CHECK(body.decimal() == 0);
  CHECK_FALSE(body.ok());
  body_reader unended(std::string_view("abc", 3));
  CHECK(unended.text().empty());
  CHECK_FALSE(unended.ok());
}

TEST_CASE("pgbench: the index finds every key and no other, at every depth") {
  for (int rows : {1, 63, 64, 65, 4096, 4097, 300'000}) {
    std::vector<int32_t> keys(static_cast<size_t>(rows));
    for (size_t i = 0; i < keys.size(); i++) keys[i] = static_cast<int32_t>(2 * i + 10);
    const search_tree tree(keys);
    CHECK(tree.depth() == (rows <= 64 ? 1 : rows <= 4096 ? 2 : rows <= 262'144 ? 3 : 4));
    int wrong = 0;
    for (size_t i = 0; i < keys.size(); i++) {
      wrong += tree.find(keys[i]) != i;
      wrong += tree.find(keys[i] + 1) != search_tree::none;
    }
    wrong += tree.find(9) != search_tree::none;
    CHECK(wrong == 0);
  }
}

TEST_CASE("pgbench: a byte queue loses, repeats and reorders nothing, and both sides sleep and wake") {
  word_listener<thread_backend> reader, writer;
  byte_queue queue(reader, writer);
  constexpr uint32_t bytes = 2'000'000;
  rng random(heddle_test::seed());
  std::thread producer([&, r = rng(random.next())]() mutable {
    std::string piece;
    for (uint32_t sent = 0; sent < bytes;) {
      piece.clear();
      for (uint64_t i = 0, n = 1 + r.below(3000); i < n && sent < bytes; i++)
        piece.push_back(static_cast<char>(sent++ * 2654435761u >> 24));
      for (std::string_view rest = piece; !rest.empty();) {
        rest.remove_prefix(queue.try_write(rest));
        if (!rest.empty() && queue.writer_sleeps()) writer.word.wait();
      }
    }
  });
  uint32_t received = 0, wrong = 0;
  std::vector<char> buffer(5000);
  while (received < bytes) {
    const size_t n = queue.try_read({buffer.data(), 1 + random.below(buffer.size())});
    for (size_t i = 0; i < n; i++) wrong += buffer[i] != static_cast<char>(received++ * 2654435761u >> 24);
    if (n == 0 && queue.reader_sleeps()) reader.word.wait();
  }
  producer.join();
  CHECK(wrong == 0);
  CHECK(queue.empty());
}

TEST_CASE("pgbench: a row is handed over in the order of asking, and nobody overtakes") {
  thread_backend b(on_threads());
  const auto locks = std::make_unique<row_locks<thread_backend>>();
  row r, other;
  std::vector<int> order;  // written by the holder of r alone
  thread_backend::word mine;
  CHECK(locks->lock(b, r, 1, mine) == 0ns);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 6; i++) {
    waiters.emplace_back([&, i] {
      thread_backend::word granted;
      CHECK(locks->lock(b, r, static_cast<uint32_t>(i + 2), granted) > 0ns);
      order.push_back(i);
      locks->unlock(r);
    });
    while (locks->waiting(r) < i + 1) std::this_thread::yield();
  }
  CHECK(locks->lock(b, other, 1, mine) == 0ns);
  locks->unlock(r);
  for (auto& w : waiters) w.join();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(r.holder == row_locks<thread_backend>::nobody);
  CHECK(other.holder == 1);
}

TEST_CASE("pgbench: who commits during a flush waits for the next, and one flush serves them all") {
  held_backend b(on_threads());
  commit_log<held_backend> log(1us);
  int flushes = 0;
  b.flush = [&] {  // the first flush lasts until five more have come
    if (flushes++ == 0)
      while (log.waiting() < 5) std::this_thread::yield();
  };
  std::vector<std::thread> committers;
  for (int i = 0; i < 6; i++)
    committers.emplace_back([&] {
      held_backend::word flushed;
      log.commit(b, "record", flushed);
    });
  for (auto& c : committers) c.join();
  CHECK(flushes == 2);
  CHECK(log.seen().flushes == 2);
  CHECK(log.seen().group_max == 5);
  CHECK(log.seen().commits == 6);
  CHECK(log.seen().bytes == 36);
}

TEST_CASE("pgbench: without a flush time a commit waits for nothing") {
  held_backend b(on_threads());
  b.flush = [] { FAIL("no device"); };
  commit_log<held_backend> log(0ns);
  held_backend::word flushed;
  log.commit(b, "r", flushed);
  CHECK(log.seen().commits == 1);
}

TEST_CASE("pgbench: options refuse what excludes itself and fill in the rest") {
  CHECK_THROWS_AS(parsed({"-S", "-N"}), usage_error);
  CHECK_THROWS_AS(parsed({"-t", "5", "-T", "1"}), usage_error);
  CHECK_THROWS_WITH_AS(parsed({"--flush", "soon"}), doctest::Contains("--flush: 'soon' is not off or "), usage_error);
  CHECK_THROWS_WITH_AS(parsed({"-s", "10001"}), doctest::Contains("'10001' is not "), usage_error);
  CHECK(parsed({}).transactions == 10);
  CHECK(parsed({}).statement_cpu == 20us);
  CHECK(parsed({"-M", "prepared"}).statement_cpu == 10us);
  CHECK(parsed({"--statement-us", "0"}).statement_cpu == 0us);
  CHECK(parsed({"-c", "2", "-j", "8"}).dispatchers == 2);
  CHECK(parsed({"--flush", "2ms"}).flush_time == 2ms);
  CHECK(parsed({"--flush", "2ms", "--flush", "off"}).flush_time == 0ms);
}

TEST_CASE("pgbench: runs of every script, mode and loop end with balanced books and all transactions") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"-c", "6", "-j", "2", "-t", "40", "--statement-us", "1"},
           {"-c", "6", "-j", "2", "-t", "40", "--statement-us", "1", "-N", "-r"},
           {"-c", "5", "-j", "3", "-t", "40", "--statement-us", "1", "-S"},
           {"-c", "6", "-j", "2", "-t", "40", "--statement-us", "1", "-M", "prepared", "-s", "2"},
           {"-c", "6", "-j", "1", "-t", "20", "--statement-us", "0", "--flush", "50us"},
           {"-c", "4", "-j", "2", "-t", "40", "--statement-us", "1", "-R", "20000"}}) {
    const run_result r = run_app(words);
    INFO(words[5], words.back());
    CHECK(r.error == "");
    CHECK(r.ended == ending::complete);
    const int64_t clients = std::stoll(words[1]), each = std::stoll(words[5]);
    CHECK(r.counters.at("transactions") == clients * each);
    CHECK(r.find("latency_us")->samples().samples() == static_cast<uint64_t>(clients * each));
    CHECK(*r.find("tps")->figure() > 0);
    CHECK((r.find("schedule_lag_us") != nullptr) == (words.back() == "20000"));
  }
}

TEST_CASE("pgbench: at scale 1 clients wait for the branch, and the statement report shows where") {
  const run_result r = run_app({"-c", "6", "-j", "2", "-t", "30", "--statement-us", "1", "--flush", "200us", "-r"});
  CHECK(r.error == "");
  // The flush ends every transaction with the branch held: all but a few must queue for it.
  CHECK(r.counters.at("lock_waits_branches") > r.counters.at("locks_branches") / 2);
  const auto mean = [&](const char* step) {
    return *r.find(std::string("statement_latency_us.") + step)->samples().mean_ns();
  };
  CHECK(mean("update_branches") > mean("update_accounts"));
  CHECK(mean("update_branches") > mean("begin"));
}

TEST_CASE("pgbench: with a limit, transactions that would begin too late are skipped and not sent") {
  // 100 times what the CPU work allows.
  const run_result r = run_app({"-c", "2", "-T", "300ms", "--statement-us", "200", "-S", "-R", "1e6", "-L", "1"});
  CHECK(r.error == "");
  CHECK(r.counters.at("skipped") > r.counters.at("transactions"));
}

TEST_CASE("pgbench: the original's layout has the original's lines") {
  const auto what = make_pgbench();
  const pgbench_options o = parsed({"-c", "2", "-t", "10", "--statement-us", "1", "-r"});
  const run_result r = run_app({"-c", "2", "-t", "10", "--statement-us", "1", "-r"});
  const std::string text = original_layout(o, r);
  for (const char* line :
       {"transaction type: <builtin: TPC-B (sort of)>\n", "scaling factor: 1\n", "query mode: simple\n",
        "number of clients: 2\n", "number of threads: 1\n", "maximum number of tries: 1\n",
        "number of transactions per client: 10\n", "number of transactions actually processed: 20/20\n",
        "number of failed transactions: 0 (0.000%)\n",
        "latency average = ", "initial connection time = ", "tps = ", "  END;\n", "lock wait on branches: "})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
}

TEST_CASE("pgbench: books that do not balance, lost commits and held rows fail the run") {
  const pgbench_options o = parsed({});
  totals all;
  all.clients.transactions = all.sessions.committed = 3;
  const books right{.balances = {7, 7, 7}, .history_sum = 7, .history_rows = 3};
  const auto ended = [&](const books& b) {
    run_result r = make_result(o, all);
    check_result(o, all, b, r);
    return r.ended;
  };
  CHECK(ended(right) == ending::complete);
  books wrong = right;
  wrong.balances[1] = 8;
  CHECK(ended(wrong) == ending::failed);
  wrong = right;
  wrong.history_sum = 6;
  CHECK(ended(wrong) == ending::failed);
  wrong = right;
  wrong.history_rows = 2;
  CHECK(ended(wrong) == ending::failed);
  wrong = right;
  wrong.locks_held = true;
  CHECK(ended(wrong) == ending::failed);
}
