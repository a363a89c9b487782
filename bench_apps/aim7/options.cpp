#include "bench_apps/aim7/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bench_apps/common/errors.h"

namespace heddle::bench {

using namespace aim7;

namespace {

constexpr duration_range sleep_range{nanos{0}, std::chrono::seconds{1000}, std::chrono::seconds{1}};
constexpr count_range user_range{1, 100'000};

std::string temporary_directory() {
  const char* given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? given : "/tmp";
}

}  // namespace

void aim7_options::declare(arguments& args) {
  args.group("aim7");
  args.count("-s,--startusers", start_users, user_range, "the first number of users");
  args.count("-e,--endusers", end_users, user_range, "the last number of users");
  args.count("-i,--increment", increment, user_range, "from one number of users to the next; never adapted");
  args.value("-u,--users", "", in_range(users, user_range), describe(user_range), "N", "this number alone: -s N -e N");
  args.count("-j,--jobs", jobs, {1, 1'000'000}, "jobs of each user; some more where a share rounds to less than one");
  args.text("-f,--workfile", mix_name,
            "the mix: alltests, compute, custom, disk, fserver, high_systime, new_fserver, shared, or a file of lines "
            "WEIGHT NAME, the name of a job or of a family");
  args.real("--size", size, 1e-6, 1000, "work of one job; 1: as much as the original's");
  args.texts("--without", without, "leave a family out (process: creating tasks); may be repeated");
  args.duration(
      "--sleep-jobs", sleep_job, sleep_range,
      "how long the job sleeps that the original has in alltests and high_systime (5s there); 0 leaves it out");
  args.text("--dir", dir, "where files are made, in a directory of their own; $TMPDIR or /tmp if not given");
}

void aim7_options::check() {
  if (users > 0) start_users = end_users = users;
  if (start_users > end_users)
    throw usage_error(
        fmt::format("-s: '{}' is not a first number of users up to the last, {} (-e)", start_users, end_users));
  mix chosen = find_mix(mix_name);
  for (const std::string& name : without) {
    const auto left_out = find_family(name);
    if (!left_out) throw usage_error(fmt::format("--without: '{}' is not a family of jobs", name));
    std::erase_if(chosen, [&](const mix_line& line) { return kind_of(line.what).in == *left_out; });
  }
  if (sleep_job.count() == 0) std::erase_if(chosen, [](const mix_line& line) { return line.what == job::sleep; });
  if (chosen.empty()) throw usage_error("--without: no job of the mix is left");
  plan = plan_for(chosen, jobs);
  if (dir.empty()) dir = temporary_directory();
}

// 10 KiB and a mebibyte that all users share, in whole blocks of 4 KiB.
int64_t aim7_options::file_bytes(int64_t users_now) const {
  const double bytes = size * (10.0 * 1024 + 1024.0 * 1024 / static_cast<double>(users_now));
  return std::max<int64_t>(1, std::llround(bytes / 4096)) * 4096;
}

std::vector<int64_t> aim7_options::points() const {
  std::vector<int64_t> all;
  for (int64_t n = start_users; n <= end_users; n += increment) all.push_back(n);
  return all;
}

bool aim7_options::any(bool (*is)(family)) const {
  return std::ranges::any_of(plan, [is](job j) { return is(kind_of(j).in); });
}

nlohmann::ordered_json aim7_options::json() const {
  nlohmann::ordered_json out = {
      {"-s", start_users}, {"-e", end_users}, {"-i", increment}, {"-j", jobs}, {"-f", mix_name}};
  out["jobs_of_a_user"] = plan.size();
  out["--size"] = size;
  if (!without.empty()) out["--without"] = without;
  if (sleep_job.count() > 0) out["--sleep-jobs"] = std::chrono::duration<double>(sleep_job).count();
  return out;
}

}  // namespace heddle::bench
