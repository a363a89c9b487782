#include "bench_apps/aim7/mixes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/units.h"

namespace heddle::bench::aim7 {
namespace {

struct named_mix {
  std::string_view name, text;
};

// The families' shares of the original's weights. `sleep` is the one shell script that sleeps 5 s there; it is done only
// with --sleep-jobs.
constexpr named_mix mixes[] = {
    {"alltests",
     "30 arithmetic\n17 numeric\n5 memory\n8 ipc\n6 process\n1 sleep\n5 metadata\n20 disk_buffered\n8 disk_sync\n"},
    {"compute", "35 arithmetic\n34 numeric\n16 memory\n6 ipc\n1 metadata\n7 disk_buffered\n"},
    {"custom", "10 numeric\n2 memory\n20 ipc\n2 process\n12 metadata\n49 disk_buffered\n5 disk_sync\n"},
    {"disk", "5 metadata\n50 disk_buffered\n25 disk_direct\n20 disk_sync\n"},
    {"fserver", "20 arithmetic\n15 numeric\n12 memory\n10 ipc\n15 metadata\n25 disk_buffered\n3 disk_sync\n"},
    {"high_systime", "4 numeric\n15 memory\n35 ipc\n23 process\n4 sleep\n19 metadata\n"},
    {"new_fserver", "21 arithmetic\n15 numeric\n12 memory\n10 ipc\n16 metadata\n26 disk_buffered\n"},
    {"shared", "39 arithmetic\n17 numeric\n6 memory\n9 ipc\n6 process\n6 metadata\n13 disk_buffered\n4 disk_sync\n"},
};

void add_line(mix& m, const std::string& name, double weight, const std::string& at) {
  if (const auto one = find_job(name)) return m.push_back({*one, weight});
  const auto all = find_family(name);
  if (!all) throw usage_error(fmt::format("{}: '{}' is not a job or a family of jobs", at, name));
  const auto size = std::ranges::count(job_kinds(), *all, &job_kind::in);
  for (const job_kind& k : job_kinds())
    if (k.in == *all) m.push_back({k.what, weight / static_cast<double>(size)});
}

}  // namespace

mix parse_mix(std::string_view text, const std::string& where) {
  mix m;
  std::istringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string at = fmt::format("{}, line {}", where, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string weight_text, name, more;
    if (!(words >> weight_text)) continue;
    const auto weight = parse_real(weight_text);
    if (!weight || *weight < 0 || *weight > 1e9)
      throw usage_error(fmt::format("{}: '{}' is not a weight from 0 to 1e9", at, weight_text));
    if (!(words >> name) || words >> more) throw usage_error(fmt::format("{}: '{}' is not WEIGHT NAME", at, line));
    if (*weight > 0) add_line(m, name, *weight, at);
  }
  if (m.empty()) throw usage_error(fmt::format("{}: no job has a weight", where));
  return m;
}

std::optional<std::string_view> built_in_mix(std::string_view name) {
  const auto at = std::ranges::find(mixes, name, &named_mix::name);
  return at == std::end(mixes) ? std::nullopt : std::optional(at->text);
}

std::vector<std::string_view> built_in_names() {
  std::vector<std::string_view> names;
  for (const named_mix& m : mixes) names.push_back(m.name);
  return names;
}

mix find_mix(const std::string& name) {
  if (const auto text = built_in_mix(name)) return parse_mix(*text, name);
  std::ifstream file(name);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw usage_error(fmt::format("-f: '{}' is not a mix ({}) or a file of lines WEIGHT NAME", name,
                                  fmt::join(built_in_names(), ", ")));
  return parse_mix(text.str(), name);
}

std::vector<job> plan_for(const mix& m, int64_t jobs) {
  double total = 0;
  for (const mix_line& line : m) total += line.weight;
  std::vector<job> plan;
  for (const mix_line& line : m) {
    const auto count = std::llround(line.weight / total * static_cast<double>(jobs));
    plan.insert(plan.end(), static_cast<size_t>(std::max(1LL, count)), line.what);
  }
  return plan;
}

std::vector<job> shuffled(std::vector<job> plan, uint64_t seed, uint64_t user) {
  core::rng random(seed * 1'000'003 + user);
  for (size_t i = plan.size(); i > 1; i--) std::swap(plan[i - 1], plan[random.below(i)]);
  return plan;
}

}  // namespace heddle::bench::aim7
