#include "bench_apps/aim7/records.h"

#include <cmath>
#include <numeric>

namespace heddle::bench::aim7 {
namespace {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void point::add(const user_records& r, nanos start) {
  if (error.empty()) error = r.error;
  finish_s.push_back(std::chrono::duration<double>(r.ended - start).count());
  for (size_t j = 0; j < job_count; j++) {
    if (done[j] > 0 && r.done[j] > 0 && digest[j] != r.digest[j] && error.empty())
      error = std::string("the job ") + std::string(job_kinds()[j].name) + " was not the same work for all users";
    if (r.done[j] > 0) digest[j] = r.digest[j];
    done[j] += r.done[j];
  }
  for (size_t f = 0; f < family_count; f++) latency[f].merge(r.latency[f]);
  for (const auto& [cpu, count] : r.by_cpu) by_cpu[cpu] += count;
  busy_ns += r.busy_ns;
  active_ns += static_cast<double>((r.ended - r.began).count());
  job_cpu_s += static_cast<double>(r.burnt_ns) / 1e9;
  file_operations += r.file_operations;
  direct_refused += r.direct_refused;
}

int64_t point::jobs() const { return std::accumulate(done.begin(), done.end(), int64_t{0}); }

double point::jobs_per_min() const {
  const double s = std::chrono::duration<double>(elapsed).count();
  return s > 0 ? 60.0 * static_cast<double>(jobs()) / s : 0;
}

double point::deviation_s() const {
  if (finish_s.size() < 2) return 0;
  const double middle = mean(finish_s);
  double squares = 0;
  for (const double f : finish_s) squares += (f - middle) * (f - middle);
  return std::sqrt(squares / static_cast<double>(finish_s.size() - 1));
}

double point::deviation_pct() const {
  const double middle = mean(finish_s);
  return middle > 0 ? 100 * deviation_s() / middle : 0;
}

}  // namespace heddle::bench::aim7
