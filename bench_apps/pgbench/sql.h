// The server's reading of a statement: the text becomes a plan. It understands the statements of the built-in scripts,
// by their grammar and not by comparing whole texts, with literals or $n parameters where values stand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace heddle::bench::pgbench {

enum class table_id : uint8_t { accounts, tellers, branches, history };
inline constexpr size_t locked_tables = 3;  // history is only appended to
std::string_view name_of(table_id table);

enum class verb : uint8_t { begin, end, select, update, insert };

// A literal, or the parameter with that number (from 1).
struct operand {
  int64_t value = 0;
  int parameter = 0;
};

// update: {delta, key}; select: {key}; insert: {tid, bid, aid, delta}.
struct plan {
  verb action = verb::begin;
  table_id table = table_id::accounts;
  uint8_t operand_count = 0;
  std::array<operand, 4> operands{};

  int parameter_count() const;
};

// Nothing where the text is no statement of that grammar.
std::optional<plan> parse_sql(std::string_view text);

// The operands with the parameters put in; `given` must hold parameter_count() values.
std::array<int64_t, 4> bind(const plan& p, std::span<const int64_t> given);

}  // namespace heddle::bench::pgbench
