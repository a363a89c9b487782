// The built-in scripts: which statements a transaction sends, in which order, with which random values. They are
// PostgreSQL's own (pgbench prints and parses them), so that a report here lines up with a report there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/rng.h"

namespace heddle::bench::pgbench {

enum class script_kind { tpcb_like, simple_update, select_only };
enum class query_mode { simple, prepared };

// Rows per unit of scale.
inline constexpr int64_t accounts_per_scale = 100'000;
inline constexpr int64_t tellers_per_scale = 10;
inline constexpr int64_t branches_per_scale = 1;

// What one transaction draws.
struct variables {
  int64_t aid = 0, bid = 0, tid = 0, delta = 0;
};

// A step is either a meta command of the client or a statement for the server.
enum class step_kind {
  set_aid,
  set_bid,
  set_tid,
  set_delta,
  begin,
  update_accounts,
  select_accounts,
  update_tellers,
  update_branches,
  insert_history,
  end,
};

std::string_view name_of(step_kind kind);

struct step {
  step_kind kind;
  std::string_view text;  // as the report prints it
  bool meta() const { return kind <= step_kind::set_delta; }
};

struct script {
  std::string_view name;  // "<builtin: TPC-B (sort of)>"
  std::span<const step> steps;
  bool writes_history() const;
};
const script& builtin(script_kind kind);

void draw(step_kind meta, int64_t scale, core::rng& random, variables& into);

// Appends the statement as SQL text: with the values in it (simple), or with parameters (to be prepared).
void append_sql(step_kind statement, const variables& values, std::string& out);
std::string_view prepared_sql(step_kind statement);
// The values a prepared statement is bound to, in the order of its parameters.
void parameters(step_kind statement, const variables& values, std::vector<int64_t>& out);

}  // namespace heddle::bench::pgbench
