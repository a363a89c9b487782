#include "bench_apps/micro/figure.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "bench_apps/common/cpu_list.h"

namespace heddle::bench::micro {
namespace {

int64_t read_clock(clockid_t clock) noexcept {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

int64_t stopwatch::wall_now() noexcept { return read_clock(CLOCK_MONOTONIC); }
int64_t stopwatch::cpu_now() noexcept { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

runtime_options round::options(size_t workers, std::string_view also) const {
  std::string settings = given_.settings;
  if (!also.empty()) settings += (settings.empty() ? "" : ",") + std::string(also);
  runtime_options o;
  o.cpus = show_cpu_list(given_.cpus);
  o.workers = workers;
  o.settings = std::move(settings);
  o.seed = given_.seed;
  return o;
}

std::optional<double> percentile(std::vector<double> values, double percent) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

}  // namespace heddle::bench::micro
