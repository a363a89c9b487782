#include "bench_apps/common/cpu_list.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "bench_apps/common/errors.h"

namespace heddle::bench {
namespace {

constexpr int cpu_id_max = 1 << 20;

bool take_id(std::string_view& text, int& id) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || id < 0 || id > cpu_id_max) return false;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return true;
}

// A mask of any size: the kernel refuses one that is shorter than its own.
struct mask {
  explicit mask(int cpus) : bytes(CPU_ALLOC_SIZE(cpus)), bits(CPU_ALLOC(cpus)) { CPU_ZERO_S(bytes, bits); }
  ~mask() { CPU_FREE(bits); }
  mask(const mask&) = delete;
  mask& operator=(const mask&) = delete;
  size_t bytes;
  ::cpu_set_t* bits;
};

}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (true) {
    int first = 0;
    if (!take_id(text, first)) return std::nullopt;
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_id(text, last) || last < first) return std::nullopt;
    }
    for (int cpu = first; cpu <= last; cpu++) cpus.push_back(cpu);
    if (text.empty()) break;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string show_cpu_list(const std::vector<int>& cpus) {
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) j++;
    out += fmt::format("{}{}", out.empty() ? "" : ",", cpus[i]);
    if (j > i) out += fmt::format("-{}", cpus[j]);
    i = j + 1;
  }
  return out;
}

std::vector<int> allowed_cpus() {
  for (int size = 1024; size <= cpu_id_max; size *= 2) {
    mask m(size);
    if (sched_getaffinity(0, m.bytes, m.bits) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < size; cpu++)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), m.bytes, m.bits)) cpus.push_back(cpu);
    return cpus;
  }
  return {0};
}

bool bind_this_thread(const std::vector<int>& cpus) {
  mask m(std::max(1024, cpus.back() + 1));
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), m.bytes, m.bits);
  return sched_setaffinity(0, m.bytes, m.bits) == 0;
}

std::vector<int> chosen_cpus(const std::string& list, const std::string& workers) {
  std::vector<int> cpus = allowed_cpus();
  if (!list.empty()) {
    const auto asked = parse_cpu_list(list);
    if (!asked) throw usage_error(fmt::format("--cpus: '{}' is not a list of CPUs such as 0,2-5", list));
    if (!std::ranges::includes(cpus, *asked))
      throw usage_error(
          fmt::format("--cpus: '{}' is not within the CPUs this process may use ({})", list, show_cpu_list(cpus)));
    cpus = *asked;
  }
  if (workers != "auto") {
    const size_t count = std::stoul(workers);
    if (count < cpus.size()) cpus.resize(count);
  }
  return cpus;
}

}  // namespace heddle::bench
