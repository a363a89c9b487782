#include "affinity/limits.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "affinity/machines.h"
#include "affinity/pin.h"

using namespace heddle::core;
namespace fs = std::filesystem;

namespace {

// A made-up "/" with the files given; gone at the end of the test.
class fake_root {
 public:
  explicit fake_root(const std::vector<std::pair<std::string, std::string>>& files)
      : path_(fs::temp_directory_path() /
              ("heddle_root_" + std::to_string(::getpid()) + "_" + std::to_string(count_++))) {
    for (const auto& [name, text] : files) {
      fs::create_directories((path_ / name).parent_path());
      std::ofstream(path_ / name) << text << '\n';
    }
  }
  ~fake_root() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  fs::path path_;
};

const std::string v2_mount = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const std::string v1_mount = "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

std::string quota_text(const std::vector<std::pair<std::string, std::string>>& files) {
  const fake_root root(files);
  const auto quota = read_quota(root.path());
  return quota ? quota->where : "none";
}

topology named(const char* name) { return *make_named_machine(name); }

}  // namespace

TEST_CASE("limits: a quota of cgroup v2") {
  const auto with = [](const std::string& cpu_max) {
    return quota_text(
        {{"proc/self/mountinfo", v2_mount}, {"proc/self/cgroup", "0::/app"}, {"sys/fs/cgroup/app/cpu.max", cpu_max}});
  };
  CHECK(with("400000 100000") == "cgroup v2 quota 4.0 in /app");
  CHECK(with("150000 100000") == "cgroup v2 quota 1.5 in /app");
  CHECK(with("25000 100000") == "cgroup v2 quota 0.25 in /app");
  CHECK(with("50000 200000") == "cgroup v2 quota 0.25 in /app");
  CHECK(with("max 100000") == "none");
  CHECK(with("") == "none");
}

TEST_CASE("limits: a quota of cgroup v1") {
  const auto with = [](const std::string& quota) {
    return quota_text({{"proc/self/mountinfo", v1_mount},
                       {"proc/self/cgroup", "5:memory:/else\n4:cpu,cpuacct:/app\n0::/"},
                       {"sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", quota},
                       {"sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "100000"}});
  };
  CHECK(with("400000") == "cgroup v1 quota 4.0 in /app");
  CHECK(with("-1") == "none");
}

TEST_CASE("limits: the tightest of all ancestors counts") {
  CHECK(quota_text({{"proc/self/mountinfo", v2_mount},
                    {"proc/self/cgroup", "0::/a/b/c"},
                    {"sys/fs/cgroup/a/cpu.max", "200000 100000"},
                    {"sys/fs/cgroup/a/b/cpu.max", "max 100000"},
                    {"sys/fs/cgroup/a/b/c/cpu.max", "800000 100000"}}) == "cgroup v2 quota 2.0 in /a");
}

TEST_CASE("limits: a container sees only its own part of the hierarchy") {
  // The mount shows /docker/xyz; the process's path is written from the host's point of view.
  CHECK(quota_text({{"proc/self/mountinfo", "33 25 0:29 /docker/xyz /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"},
                    {"proc/self/cgroup", "4:cpu:/docker/xyz"},
                    {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000"},
                    {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}}) == "cgroup v1 quota 3.0");
  // A process that was moved out of its namespace's root.
  CHECK(quota_text({{"proc/self/mountinfo", v2_mount},
                    {"proc/self/cgroup", "0::/../other"},
                    {"sys/fs/cgroup/cpu.max", "100000 100000"}}) == "cgroup v2 quota 1.0");
  // The path is the host's, the mount is the namespace's: the path does not exist there.
  CHECK(quota_text({{"proc/self/mountinfo", v2_mount},
                    {"proc/self/cgroup", "0::/kubepods/pod1/app"},
                    {"sys/fs/cgroup/cpu.max", "250000 100000"}}) == "cgroup v2 quota 2.5");
}

TEST_CASE("limits: mounts elsewhere, with blanks, and both versions side by side") {
  CHECK(quota_text({{"proc/self/mountinfo", "30 25 0:26 / /my\\040cgroups rw - cgroup2 none rw"},
                    {"proc/self/cgroup", "0::/"},
                    {"my cgroups/cpu.max", "100000 50000"}}) == "cgroup v2 quota 2.0");
  CHECK(quota_text({{"proc/self/mountinfo", v1_mount + "\n40 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"},
                    {"proc/self/cgroup", "4:cpu,cpuacct:/x\n0::/y"},
                    {"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "500000"},
                    {"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000"},
                    {"sys/fs/cgroup/unified/y/cpu.max", "700000 100000"}}) == "cgroup v1 quota 5.0 in /x");
  CHECK(quota_text({}) == "none");
}

TEST_CASE("limits: workers are the allowed CPUs or the quota rounded up, at least one, with a reason") {
  const topology machine = named("2n40");
  const auto choose = [&](double quota) {
    process_limits limits;
    limits.quota = cpu_quota{quota, "cgroup v2 quota"};
    return choose_workers(machine, {}, limits);
  };
  CHECK(choose_workers(machine, {}, {}).chosen == machine.all());
  CHECK(choose_workers(machine, {}, {}).reason == "one per CPU");
  CHECK(choose(4.0).chosen.count() == 4);
  CHECK(choose(4.0).reason == "cgroup v2 quota");
  CHECK(choose(1.5).chosen.count() == 2);
  CHECK(choose(0.25).chosen.count() == 1);
  CHECK(choose(100).chosen.count() == 40);
  CHECK(choose(100).reason == "one per CPU");
  CHECK(choose(4.0).allowed == machine.all());
}

TEST_CASE("limits: the affinity mask restricts and says so") {
  const topology machine = named("2n40");
  process_limits limits;
  limits.mask = std::vector<int>{2, 4, 4000};
  const worker_choice choice = choose_workers(machine, {}, limits);
  CHECK(machine.list(choice.chosen) == "2,4");
  CHECK(choice.reason == "the affinity mask allows CPUs 2,4 of 0-39");
  limits.mask = std::vector<int>{4000};
  CHECK(choose_workers(machine, {}, limits).error == "no CPU of this machine (0-39) is in the affinity mask");
}

TEST_CASE("limits: what is asked for beats the quota, not the mask") {
  const topology machine = named("2n40");
  process_limits limits;
  limits.mask = std::vector<int>{0, 1, 2, 3};
  limits.quota = cpu_quota{1.0, "cgroup v2 quota 1.0"};
  CHECK(choose_workers(machine, {.workers = 3}, limits).chosen.count() == 3);
  CHECK(choose_workers(machine, {.workers = 5}, limits).error == "--workers: '5' is not 1..4");
  CHECK(choose_workers(machine, {.workers = 0, .workers_source = "HEDDLE_WORKERS"}, limits).error ==
        "HEDDLE_WORKERS: '0' is not 1..4");
  CHECK(machine.list(choose_workers(machine, {.workers = 2, .cpus = "2-3"}, limits).chosen) == "2-3");
  CHECK(choose_workers(machine, {.cpus = "2-5"}, limits).error ==
        "--cpus: '2-5' is not within CPUs 0-3, which are allowed");
  CHECK(choose_workers(machine, {.cpus = "x"}, limits).error == "--cpus: 'x' is not a CPU list such as 0,2-5");
  CHECK(choose_workers(machine, {.cpus = "2-3"}, limits).reason ==
        "the affinity mask allows CPUs 0-3 of 0-39; --cpus 2-3; cgroup v2 quota 1.0");
}

TEST_CASE("limits: few workers get cores of their own, near each other, fast ones first") {
  const topology machine = named("2n40");
  CHECK(machine.list(choose_workers(machine, {.workers = 10}, {}).chosen) == "0-9");
  CHECK(machine.list(choose_workers(machine, {.workers = 12}, {}).chosen) == "0-11");
  CHECK(machine.list(choose_workers(machine, {.workers = 21}, {}).chosen) == "0-20");
  // Under a quota: where the process runs.
  process_limits limits;
  limits.quota = cpu_quota{2.0, "quota"};
  limits.running_on = 33;
  CHECK(machine.list(choose_workers(machine, {}, limits).chosen) == "10-11");
  const topology hybrid = named("hybrid");
  CHECK(hybrid.list(choose_workers(hybrid, {.workers = 7}, {}).chosen) == "0,2,4,6,8,10,12");
}

TEST_CASE("limits: a mask of any length is read (the kernel refuses a short buffer)") {
  // A kernel built for 2048 CPUs: EINVAL below 256 bytes.
  const auto kernel = [](size_t bytes, unsigned long* words) -> long {
    if (bytes < 256) {
      errno = EINVAL;
      return -1;
    }
    words[0] = 5;
    words[2047 / 64] = 1ul << (2047 % 64);
    return 256;
  };
  CHECK(affinity_mask(kernel) == std::vector<int>{0, 2, 2047});
  const auto refuses = [](size_t, unsigned long*) -> long {
    errno = EPERM;
    return -1;
  };
  CHECK(affinity_mask(refuses).empty());
  const auto never_pleased = [](size_t, unsigned long*) -> long {
    errno = EINVAL;
    return -1;
  };
  CHECK(affinity_mask(never_pleased).empty());
}

TEST_CASE("pin: a thread runs where it is told, and a refusal is reported") {
  std::thread([] {
    const std::vector<int> before = affinity_mask();
    REQUIRE_FALSE(before.empty());
    CHECK_FALSE(pin_this_thread(before.back()));
    CHECK(affinity_mask() == std::vector<int>{before.back()});
    CHECK(pin_this_thread(100'000) == std::errc::invalid_argument);
    CHECK(pin_this_thread(-1) == std::errc::invalid_argument);
    CHECK(affinity_mask() == std::vector<int>{before.back()});
    CHECK_FALSE(allow_this_thread(before));
    CHECK(affinity_mask() == before);
  }).join();
}

TEST_CASE("limits: this process") {
  const process_limits limits = read_limits();
  REQUIRE(limits.mask);
  CHECK(*limits.mask == affinity_mask());
}
