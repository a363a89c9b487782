#include "bench_apps/common/measure.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <sstream>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/interrupt.h"

namespace heddle::bench {
namespace {

resources spent_so_far() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {.cpu_user_s = seconds(u.ru_utime),
          .cpu_sys_s = seconds(u.ru_stime),
          .switches_voluntary = u.ru_nvcsw,
          .switches_involuntary = u.ru_nivcsw,
          .cpu_us_per_op = std::nullopt};
}

resources operator-(const resources& after, const resources& before) {
  return {.cpu_user_s = after.cpu_user_s - before.cpu_user_s,
          .cpu_sys_s = after.cpu_sys_s - before.cpu_sys_s,
          .switches_voluntary = after.switches_voluntary - before.switches_voluntary,
          .switches_involuntary = after.switches_involuntary - before.switches_involuntary,
          .cpu_us_per_op = std::nullopt};
}

}  // namespace

system_times read_system_times() {
  system_times times;
  const double tick_s = 1.0 / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    if (line.size() > 3 && std::isdigit(static_cast<unsigned char>(line[3]))) {
      times.cpus++;
      continue;
    }
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    std::istringstream(line.substr(3)) >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
    times.busy_s = (user + nice + system + irq + softirq) * tick_s;
    times.steal_s = steal * tick_s;
  }
  return times;
}

std::vector<std::string> disturbances(const system_times& before, const system_times& after, double own_cpu_s,
                                      double wall_s) {
  const double available_s = wall_s * after.cpus;
  // Ticks of 10 ms: below a tenth of a second of CPU time a share says nothing.
  if (available_s < 0.5) return {};
  std::vector<std::string> found;
  const double others_pct = (after.busy_s - before.busy_s - own_cpu_s) / available_s * 100;
  const double steal_pct = (after.steal_s - before.steal_s) / available_s * 100;
  if (others_pct > 2)
    found.push_back(fmt::format("others used {:.1f} % of the CPU time (2 % is tolerable)", others_pct));
  if (steal_pct > 1)
    found.push_back(fmt::format("the hypervisor took {:.1f} % of the CPU time (1 % is tolerable)", steal_pct));
  return found;
}

run_result run_measured(app& what, const run_request& request) {
  const system_times system_before = read_system_times();
  const resources before = spent_so_far();
  const auto start = std::chrono::steady_clock::now();
  run_result result;
  try {
    result = what.run(request);
  } catch (const run_error& e) {
    result.ended = ending::failed;
    result.error = e.what();
  }
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.seed = request.seed;
  result.spent = spent_so_far() - before;
  const double own_s = result.spent.cpu_user_s + result.spent.cpu_sys_s;
  if (result.operations && *result.operations > 0) result.spent.cpu_us_per_op = own_s * 1e6 / *result.operations;
  if (request.on_host()) result.disturbances = disturbances(system_before, read_system_times(), own_s, wall_s);
  if (stop_requested() && result.ended == ending::complete) result.ended = ending::interrupted;
  return result;
}

}  // namespace heddle::bench
