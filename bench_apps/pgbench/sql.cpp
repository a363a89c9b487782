#include "bench_apps/pgbench/sql.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/check.h"

namespace heddle::bench::pgbench {

namespace {

struct table_words {
  std::string_view table, key, balance;
};
constexpr table_words words_of[] = {{"pgbench_accounts", "aid", "abalance"},
                                    {"pgbench_tellers", "tid", "tbalance"},
                                    {"pgbench_branches", "bid", "bbalance"},
                                    {"pgbench_history", "", ""}};

bool letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

// Words, numbers and marks of a statement, taken from the left.
class scanner {
 public:
  explicit scanner(std::string_view text) : rest_(text) {}

  bool word(std::string_view expected) {  // in either case
    const std::string_view seen = peek();
    const bool same = seen.size() == expected.size() &&
                      std::equal(seen.begin(), seen.end(), expected.begin(),
                                 [](char a, char b) { return a == b || (letter(a) && (a | 32) == (b | 32)); });
    if (same) rest_.remove_prefix(seen.size());
    return same;
  }

  bool words(std::initializer_list<std::string_view> expected) {
    return std::all_of(expected.begin(), expected.end(), [this](std::string_view w) { return word(w); });
  }

  std::optional<table_id> table() {
    for (size_t i = 0; i < std::size(words_of); i++)
      if (word(words_of[i].table)) return static_cast<table_id>(i);
    return {};
  }

  bool value(operand& into) {
    skip_blanks();
    const bool is_parameter = rest_.starts_with('$');
    if (is_parameter) rest_.remove_prefix(1);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    if (!is_parameter) return into = {.value = number}, true;
    if (number < 1 || number > 4) return false;
    return into = {.parameter = static_cast<int>(number)}, true;
  }

  bool ended() {
    word(";");
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }

  // The next name, or the next single mark.
  std::string_view peek() {
    skip_blanks();
    size_t size = 0;
    while (size < rest_.size() && (letter(rest_[size]) || rest_[size] == '_' || (size > 0 && digit(rest_[size]))))
      size++;
    return rest_.substr(0, std::max<size_t>(size, rest_.empty() ? 0 : 1));
  }

  std::string_view rest_;
};

std::optional<plan> parse_update(scanner& in) {
  plan p{.action = verb::update, .operand_count = 2};
  const auto table = in.table();
  if (!table || *table == table_id::history) return {};
  p.table = *table;
  const table_words& w = words_of[static_cast<size_t>(*table)];
  if (!in.words({"SET", w.balance, "=", w.balance, "+"}) || !in.value(p.operands[0])) return {};
  if (!in.words({"WHERE", w.key, "="}) || !in.value(p.operands[1])) return {};
  return p;
}

std::optional<plan> parse_select(scanner& in) {
  for (size_t i = 0; i < locked_tables; i++) {
    if (!in.word(words_of[i].balance)) continue;
    plan p{.action = verb::select, .table = static_cast<table_id>(i), .operand_count = 1};
    if (!in.words({"FROM", words_of[i].table, "WHERE", words_of[i].key, "="}) || !in.value(p.operands[0])) return {};
    return p;
  }
  return {};
}

std::optional<plan> parse_insert(scanner& in) {
  plan p{.action = verb::insert, .table = table_id::history, .operand_count = 4};
  if (!in.words({"INTO", "pgbench_history", "(", "tid", ",", "bid", ",", "aid", ",", "delta", ",", "mtime", ")"}))
    return {};
  if (!in.words({"VALUES", "("})) return {};
  for (operand& o : p.operands)
    if (!in.value(o) || !in.word(",")) return {};
  if (!in.words({"CURRENT_TIMESTAMP", ")"})) return {};
  return p;
}

}  // namespace

std::string_view name_of(table_id table) { return words_of[static_cast<size_t>(table)].table.substr(8); }

int plan::parameter_count() const {
  int highest = 0;
  for (const operand& o : operands) highest = std::max(highest, o.parameter);
  return highest;
}

std::optional<plan> parse_sql(std::string_view text) {
  scanner in(text);
  std::optional<plan> p;
  if (in.word("UPDATE"))
    p = parse_update(in);
  else if (in.word("SELECT"))
    p = parse_select(in);
  else if (in.word("INSERT"))
    p = parse_insert(in);
  else if (in.word("BEGIN"))
    p = plan{.action = verb::begin};
  else if (in.word("END") || in.word("COMMIT"))
    p = plan{.action = verb::end};
  return p && in.ended() ? p : std::nullopt;
}

std::array<int64_t, 4> bind(const plan& p, std::span<const int64_t> given) {
  HEDDLE_DEBUG_ASSERT(given.size() >= static_cast<size_t>(p.parameter_count()));
  std::array<int64_t, 4> values{};
  for (size_t i = 0; i < p.operand_count; i++) {
    const operand& o = p.operands[i];
    values[i] = o.parameter > 0 ? given[static_cast<size_t>(o.parameter - 1)] : o.value;
  }
  return values;
}

}  // namespace heddle::bench::pgbench
