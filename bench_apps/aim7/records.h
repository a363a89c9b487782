// What users note while they work, and a point: all users of one number of users together.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "bench_apps/aim7/jobs.h"
#include "bench_apps/common/histogram.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::aim7 {

struct alignas(core::cache_line) user_records {
  nanos began{0}, ended{0};
  std::array<int64_t, job_count> done{};
  std::array<uint64_t, job_count> digest{};  // of a job done once; 0 before
  std::array<histogram, family_count> latency;
  std::map<int, int64_t> by_cpu;  // jobs by the CPU they ended on
  double busy_ns = 0;             // sum of the jobs' durations
  int64_t burnt_ns = 0;
  int64_t file_operations = 0, direct_refused = 0;
  std::string error;

  void note(job what, nanos took, uint64_t result, int cpu) {
    const auto at = static_cast<size_t>(what);
    if (done[at]++ > 0 && digest[at] != result && error.empty())
      error = std::string("the job ") + std::string(kind_of(what).name) + " did not do the same work twice";
    digest[at] = result;
    latency[static_cast<size_t>(kind_of(what).in)].record(took);
    by_cpu[cpu]++;
    busy_ns += static_cast<double>(took.count());
  }
};

struct point {
  int64_t users = 0;
  nanos elapsed{0};              // from the start of all to the end of the last
  std::vector<double> finish_s;  // of each user, since the start
  std::array<int64_t, job_count> done{};
  std::array<uint64_t, job_count> digest{};
  std::array<histogram, family_count> latency;
  std::map<int, int64_t> by_cpu;
  double busy_ns = 0, active_ns = 0;  // of the users: in jobs, and from first to last
  double job_cpu_s = 0;               // on the host what the process used, else what was said to be burnt
  double user_s = 0, system_s = 0;    // on the host
  int64_t file_operations = 0, direct_refused = 0;
  std::string error;
  bool cut_short = false;  // by a signal

  void add(const user_records& r, nanos start);

  int64_t jobs() const;
  double jobs_per_min() const;
  double deviation_s() const;  // of the users' finish times
  double deviation_pct() const;
  double jti_pct() const { return 100 - deviation_pct(); }
};

}  // namespace heddle::bench::aim7
