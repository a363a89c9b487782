#include "bench_apps/pgbench/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "runtime/base/check.h"

namespace heddle::bench::pgbench {

namespace {

constexpr int64_t delta_max = 5000;

constexpr step set_aid{step_kind::set_aid, "\\set aid random(1, 100000 * :scale)"};
constexpr step set_bid{step_kind::set_bid, "\\set bid random(1, 1 * :scale)"};
constexpr step set_tid{step_kind::set_tid, "\\set tid random(1, 10 * :scale)"};
constexpr step set_delta{step_kind::set_delta, "\\set delta random(-5000, 5000)"};
constexpr step begin{step_kind::begin, "BEGIN;"};
constexpr step update_accounts{step_kind::update_accounts,
                               "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;"};
constexpr step select_accounts{step_kind::select_accounts, "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;"};
constexpr step update_tellers{step_kind::update_tellers,
                              "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;"};
constexpr step update_branches{step_kind::update_branches,
                               "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;"};
constexpr step insert_history{step_kind::insert_history,
                              "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, "
                              ":delta, CURRENT_TIMESTAMP);"};
constexpr step end{step_kind::end, "END;"};

constexpr std::array tpcb_steps{
    set_aid,         set_bid,        set_tid,         set_delta,      begin, update_accounts,
    select_accounts, update_tellers, update_branches, insert_history, end};
constexpr std::array simple_update_steps{set_aid,         set_bid,         set_tid,        set_delta, begin,
                                         update_accounts, select_accounts, insert_history, end};
constexpr std::array select_steps{set_aid, select_accounts};

constexpr script scripts[] = {{"<builtin: TPC-B (sort of)>", tpcb_steps},
                              {"<builtin: simple update>", simple_update_steps},
                              {"<builtin: select only>", select_steps}};

int64_t uniform(core::rng& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}

}  // namespace

std::string_view name_of(step_kind kind) {
  constexpr std::string_view names[] = {
      "set_aid",         "set_bid",        "set_tid",         "set_delta",      "begin", "update_accounts",
      "select_accounts", "update_tellers", "update_branches", "insert_history", "end"};
  return names[static_cast<size_t>(kind)];
}

bool script::writes_history() const {
  return std::any_of(steps.begin(), steps.end(), [](const step& s) { return s.kind == step_kind::insert_history; });
}

const script& builtin(script_kind kind) { return scripts[static_cast<size_t>(kind)]; }

void draw(step_kind meta, int64_t scale, core::rng& random, variables& into) {
  switch (meta) {
    case step_kind::set_aid:
      into.aid = uniform(random, 1, accounts_per_scale * scale);
      return;
    case step_kind::set_bid:
      into.bid = uniform(random, 1, branches_per_scale * scale);
      return;
    case step_kind::set_tid:
      into.tid = uniform(random, 1, tellers_per_scale * scale);
      return;
    case step_kind::set_delta:
      into.delta = uniform(random, -delta_max, delta_max);
      return;
    default:
      HEDDLE_ASSERT(false && "a meta command");
  }
}

void append_sql(step_kind statement, const variables& v, std::string& out) {
  auto at = std::back_inserter(out);
  switch (statement) {
    case step_kind::begin:
      out += "BEGIN;";
      return;
    case step_kind::end:
      out += "END;";
      return;
    case step_kind::update_accounts:
      fmt::format_to(at, "UPDATE pgbench_accounts SET abalance = abalance + {} WHERE aid = {};", v.delta, v.aid);
      return;
    case step_kind::select_accounts:
      fmt::format_to(at, "SELECT abalance FROM pgbench_accounts WHERE aid = {};", v.aid);
      return;
    case step_kind::update_tellers:
      fmt::format_to(at, "UPDATE pgbench_tellers SET tbalance = tbalance + {} WHERE tid = {};", v.delta, v.tid);
      return;
    case step_kind::update_branches:
      fmt::format_to(at, "UPDATE pgbench_branches SET bbalance = bbalance + {} WHERE bid = {};", v.delta, v.bid);
      return;
    case step_kind::insert_history:
      fmt::format_to(at,
                     "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({}, {}, {}, {}, "
                     "CURRENT_TIMESTAMP);",
                     v.tid, v.bid, v.aid, v.delta);
      return;
    default:
      HEDDLE_ASSERT(false && "a statement");
  }
}

std::string_view prepared_sql(step_kind statement) {
  switch (statement) {
    case step_kind::begin:
      return "BEGIN;";
    case step_kind::end:
      return "END;";
    case step_kind::update_accounts:
      return "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;";
    case step_kind::select_accounts:
      return "SELECT abalance FROM pgbench_accounts WHERE aid = $1;";
    case step_kind::update_tellers:
      return "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;";
    case step_kind::update_branches:
      return "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;";
    case step_kind::insert_history:
      return "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);";
    default:
      HEDDLE_ASSERT(false && "a statement");
  }
  return {};
}

void parameters(step_kind statement, const variables& v, std::vector<int64_t>& out) {
  out.clear();
  switch (statement) {
    case step_kind::update_accounts:
      out = {v.delta, v.aid};
      return;
    case step_kind::select_accounts:
      out = {v.aid};
      return;
    case step_kind::update_tellers:
      out = {v.delta, v.tid};
      return;
    case step_kind::update_branches:
      out = {v.delta, v.bid};
      return;
    case step_kind::insert_history:
      out = {v.tid, v.bid, v.aid, v.delta};
      return;
    default:
      return;
  }
}

}  // namespace heddle::bench::pgbench
