// What this binary is made of.
#include <fmt/format.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "affinity/discover.h"
#include "bench_apps/common/command.h"

namespace heddle::bench {

std::string_view version() { return HEDDLE_VERSION_TEXT; }

std::string version_text() {
  return fmt::format(
      "heddle {}\n"
      "  build     {}, {}\n"
      "  hwloc     {} (interface)\n"
      "  CLI11     {}\n"
      "  fmt       {}.{}.{}\n"
      "  json      {}.{}.{}\n",
      version(), HEDDLE_BUILD_TEXT, __VERSION__, core::hwloc_version(), CLI11_VERSION, FMT_VERSION / 10000,
      FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
      NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace heddle::bench
