// What `heddle micro` measures, as values: figures (name, meaning, what they are held against), families of figures that one
// measurement yields, and the round in which a family writes down what it read. Families are listed in families.h.
#pragma once

#include <heddle/runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench_apps/common/result.h"

namespace heddle::bench::micro {

// A cost of the machine itself, measured in every run. A target given for the reference machine moves with it.
enum class anchor { none, switch_ns, rmw_ns, line_ns, page_ns, futex_us };

struct figure_info {
  std::string_view name;  // with its unit, as in result files
  std::string_view meaning;
  direction better = direction::lower;
  std::optional<double> limit = std::nullopt;   // what the hardware allows on the reference machine
  std::optional<double> target = std::nullopt;  // what heddle is held to there
  anchor scaled_by = anchor::none;              // neither limit nor target moves with another machine
};

struct reading {
  double value;
  std::optional<double> cpu_ns_per_op;  // of all threads of this process
};

// One round: what a family may know, and where its readings go.
class round {
 public:
  struct given {
    size_t workers = 1;          // of the case
    std::vector<int> cpus = {};  // OS ids, ascending, that the workers may use
    std::string settings = {};   // of the command line
    uint64_t seed = 1;
    int64_t live = 1'000'000;
    int64_t part = 1;  // measure only one part in so many
  };
  explicit round(given what) : given_(std::move(what)) {}

  size_t workers() const { return given_.workers; }
  const std::vector<int>& cpus() const { return given_.cpus; }
  uint64_t seed() const { return given_.seed; }
  int64_t live() const { return given_.live; }
  // How many of something to do where `whole` make a good figure on a machine of today.
  int64_t count(int64_t whole) const { return std::max<int64_t>(1, whole / given_.part); }
  // A fresh runtime's options: exactly `workers` workers, the settings, and `also` behind them.
  runtime_options options(size_t workers, std::string_view also = {}) const;

  void record(std::string_view figure, double value, std::optional<double> cpu_ns_per_op = std::nullopt) {
    readings_.insert_or_assign(std::string(figure), reading{value, cpu_ns_per_op});
  }
  const std::map<std::string, reading, std::less<>>& readings() const { return readings_; }
  // What a reader must know, e.g. why a figure is missing.
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  given given_;
  std::map<std::string, reading, std::less<>> readings_;
  std::vector<std::string> notes_;
};

struct family {
  std::span<const figure_info> figures;
  size_t workers = 0;    // its definition's; 0: those of the case. A machine with fewer CPUs leaves the family out
  int rounds_max = 100;  // long ones are repeated less often
  void (*measure)(round&);
};

// Wall clock and this process's CPU clock together.
class stopwatch {
 public:
  stopwatch() : wall_ns_(wall_now()), cpu_ns_(cpu_now()) {}
  double wall_ns() const { return static_cast<double>(wall_now() - wall_ns_); }
  double cpu_ns() const { return static_cast<double>(cpu_now() - cpu_ns_); }

  static int64_t wall_now() noexcept;
  static int64_t cpu_now() noexcept;

 private:
  int64_t wall_ns_;
  int64_t cpu_ns_;
};

// The compiler may not merge, move or drop what stands on its two sides; Site makes call sites differ.
template <int Site>
[[gnu::always_inline]] inline void keep_apart() {
  asm volatile("# site %c0" ::"i"(Site) : "memory");
}

// Smallest of the values that `percent` percent of them do not exceed. Nothing without values.
std::optional<double> percentile(std::vector<double> values, double percent);

}  // namespace heddle::bench::micro
