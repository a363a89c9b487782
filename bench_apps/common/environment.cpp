#include "bench_apps/common/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>

#include "affinity/discover.h"
#include "affinity/limits.h"

extern char** environ;

namespace heddle::bench {
namespace {

constexpr std::array<std::string_view, 5> known = {"HEDDLE_IO", "HEDDLE_WORKERS", "HEDDLE_CPUS", "HEDDLE_SETTINGS",
                                                   "HEDDLE_SEED"};

// The value of the first line of /proc/cpuinfo that begins with `key`.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

}  // namespace

void warn_about_unknown_variables() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("HEDDLE_") && std::ranges::find(known, name) == known.end())
      fmt::print(stderr, "heddle: warning: {} is set, but no part of heddle reads it\n", name);
  }
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? std::optional<std::string>(value) : std::nullopt;
}

std::string kernel_name() {
  utsname u{};
  return uname(&u) == 0 ? fmt::format("{} {}", u.sysname, u.release) : "";
}

std::string cpu_model() { return cpuinfo("model name"); }

// By fmt: gcc 12 sees an overflow in libstdc++'s own `" " + string`.
bool under_hypervisor() { return fmt::format(" {} ", cpuinfo("flags")).find(" hypervisor ") != std::string::npos; }

nlohmann::ordered_json environment_record() {
  const auto quota = core::read_quota();
  return {{"kernel", kernel_name()},
          {"cpu_model", cpu_model()},
          {"cgroup_quota", quota ? nlohmann::ordered_json(quota->cpus) : nlohmann::ordered_json()},
          {"virtual_machine", under_hypervisor()},
          {"hwloc", core::hwloc_version()},
          {"compiler", __VERSION__},
          {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"warnings", nlohmann::ordered_json::array()}};
}

}  // namespace heddle::bench
