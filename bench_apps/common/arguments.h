// One command's options: CLI11 underneath, with the project's units, bounds and refusal texts on top. A refused value is
// always `OPTION: 'VALUE' is not RANGE`. A scalar given twice takes the last value, so that `compare --vary` can append.
// CLI11 itself stays in arguments.cpp: its headers cost each file that includes them 13 seconds of compilation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench_apps/common/units.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle::bench {

struct count_range {
  int64_t min = 0;
  int64_t max = 1'000'000'000;
};
// What the contract calls tasks and loops; the lower bound is 1 unless an option documents 0.
inline constexpr count_range tasks{1, 1'000'000};
inline constexpr count_range loops{1, 1'000'000'000};

struct duration_range {
  nanos min{0};
  nanos max = std::chrono::seconds{1000};
  nanos bare = std::chrono::seconds{1};  // the unit of a number without one
};
inline constexpr duration_range run_time{std::chrono::milliseconds{1}, std::chrono::hours{30 * 24}};
inline constexpr duration_range think_time_us{nanos{0}, std::chrono::seconds{1000}, std::chrono::microseconds{1}};

// For options whose default is not one value (value() below): accept what lies in the range, and what the range is called.
std::function<bool(const std::string&)> in_range(int64_t& target, count_range range);
std::function<bool(const std::string&)> in_range(nanos& target, duration_range range);
std::string describe(count_range range);
std::string describe(duration_range range);

class arguments {
 public:
  arguments(std::string_view name, std::string_view summary);
  ~arguments();
  arguments(const arguments&) = delete;
  arguments& operator=(const arguments&) = delete;

  // `names` as CLI11 takes them: "-m,--message-threads", or "file" for a positional. The target's value on entry is the
  // default that --help shows.
  void count(const std::string& names, int64_t& target, count_range range, const std::string& help);
  void real(const std::string& names, double& target, double min, double max, const std::string& help);
  void duration(const std::string& names, nanos& target, duration_range range, const std::string& help);
  void size(const std::string& names, int64_t& target, count_range bytes, const std::string& help);
  void choice(const std::string& names, std::string& target, std::vector<std::string> allowed, const std::string& help);
  void text(const std::string& names, std::string& target, const std::string& help);
  void texts(const std::string& names, std::vector<std::string>& target, const std::string& help);  // may be repeated
  void flag(const std::string& names, bool& target, const std::string& help);
  // A value that knows how to parse itself: `accept` answers false for a refusal, `range` names what it takes.
  void value(const std::string& names, const std::string& shown_default, std::function<bool(const std::string&)> accept,
             const std::string& range, const std::string& type, const std::string& help);

  // Options declared from here on stand under this heading in --help.
  void group(std::string heading) { group_ = std::move(heading); }
  void footer(const std::string& text);
  // Options from a file, one `name = value` a line, as the option `name`.
  void config_file(const std::string& name, const std::string& help);
  // The first word that is no option, and all after it, are left in rest().
  void leave_rest();
  std::vector<std::string> rest() const;
  // As parse() took them: a negative number is glued to the option before it.
  const std::vector<std::string>& parsed_words() const { return args_; }

  // False: --help was asked for and printed. Throws usage_error.
  bool parse(const std::vector<std::string>& args);
  bool given(const std::string& name) const { return times_given(name) > 0; }
  size_t times_given(const std::string& name) const;
  std::vector<std::string> names() const;  // of every option, with dashes
  std::string help() const;

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& type, const std::string& shown_default);
  [[noreturn]] void refuse(const std::string& names, const std::string& value, const std::string& range) const;
  std::string spelling(const std::string& names) const;

  std::unique_ptr<CLI::App> cli_;
  std::string group_ = "Options";
  std::vector<std::string> args_;
};

}  // namespace heddle::bench
