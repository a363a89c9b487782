#include "bench_apps/common/cpu_list.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <memory>

#include "affinity/limits.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/machine_facts.h"

namespace heddle::bench {
namespace {

constexpr int cpu_id_max = 1 << 20;

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
  const core::topology& host = facts_of("host").machine;
  core::worker_request asked{.cpus = list};
  if (workers != "auto") asked.workers = static_cast<int>(std::stoul(workers));
  const core::worker_choice choice = core::choose_workers(host, asked, core::read_limits());
  if (!choice.error.empty()) throw usage_error(choice.error);
  std::vector<int> cpus;
  for (const core::cpu_id cpu : choice.chosen) cpus.push_back(host.os_id(cpu));
  return cpus;
}

}  // namespace heddle::bench
