// The apps on a virtual machine: the same command is the same output, to the byte.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_apps/aim7/aim7.h"
#include "bench_apps/common/command.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/hackbench/hackbench.h"
#include "bench_apps/lab/compare.h"
#include "bench_apps/pgbench/pgbench.h"
#include "bench_apps/schbench/schbench.h"
#include "tests/bench_apps/captured.h"

using namespace heddle::bench;

namespace {

using words = std::vector<std::string>;

struct outcome {
  int status;
  std::string out, err;
};

outcome heddle_program(const words& typed) {
  static constexpr app_kind apps[] = {schbench_app, pgbench_app, hackbench_app, aim7_app};
  static constexpr command commands[] = {compare_command};
  captured out(stdout), err(stderr);
  outcome o{run_program(typed, commands, apps), "", ""};
  o.err = err.end();
  o.out = out.end();
  return o;
}

// Twice the same, stdout and every case of the result file.
outcome twice(words typed) {
  const std::string file = "simulated_test.json";
  typed.insert(typed.end(), {"--json", file});
  outcome first;
  nlohmann::json cases;
  for (const bool again : {false, true}) {
    const outcome o = heddle_program(typed);
    CHECK(o.err == "");
    CHECK(o.status == exit_done);
    std::ifstream in(file);
    const auto document = nlohmann::json::parse(in, nullptr, false);
    REQUIRE(!document.is_discarded());
    if (again) {
      CHECK(o.out == first.out);
      CHECK(document["cases"] == cases);
    }
    first = o;
    cases = document["cases"];
  }
  std::remove(file.c_str());
  return first;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("simulated: schbench by the seed, on a described and a named machine") {
  const outcome o =
      twice({"schbench", "--machine", "pack:2 core:10 pu:2", "-m", "2", "-t", "16", "-r", "200ms", "--seed", "3"});
  CHECK(has(o.out, "seed      3"));
  CHECK(has(o.out, "wakeup_latency_us"));
  CHECK(!has(o.out, "cpu_s"));  // the process's cost differs from run to run
  const outcome other = twice({"schbench", "--machine", "2n40", "-m", "2", "-t", "16", "-r", "200ms", "--seed", "4"});
  CHECK(other.out != o.out);
  twice({"schbench", "--machine", "hybrid", "--mode", "v1", "-m", "1", "-t", "8", "-F", "16", "-n", "1", "-r", "20ms"});
}

TEST_CASE("simulated: a machine from a file, and part of one") {
  const outcome o = twice({"schbench", "--machine", std::string(HEDDLE_SOURCE_DIR) + "/tests/data/two_kinds.xml", "-m",
                           "1", "-t", "3", "-r", "100ms"});
  CHECK(has(o.out, "two_kinds.xml, virtual"));
  twice({"schbench", "--machine", "2n40", "--cpus", "0-3,20-23", "--workers", "6", "-t", "4", "-r", "100ms"});
}

TEST_CASE("simulated: pgbench") {
  const outcome o = twice({"pgbench", "--machine", "1x4x2", "-c", "8", "-j", "2", "-T", "100ms"});
  CHECK(has(o.out, "tps"));
}

TEST_CASE("simulated: hackbench, whose descriptors stay on the host") {
  const outcome o = twice({"hackbench", "--machine", "pack:2 core:10 pu:2", "-g", "3", "-f", "4", "-l", "30"});
  CHECK(has(o.out, "messages_per_s"));
  const outcome pipe = heddle_program({"hackbench", "--machine", "2x4", "-p"});
  CHECK(pipe.status == exit_usage);
  CHECK(pipe.out == "");
  CHECK(pipe.err == "heddle: --transport: 'pipe' is not chan, all that runs on a virtual machine (2x4)\n");
}

TEST_CASE("simulated: aim7, whose files and pipes are modelled") {
  const outcome o = twice({"aim7", "--machine", "pack:2 core:10 pu:2", "-s", "10", "-e", "40", "-i", "15", "-j", "30",
                           "--size", "0.05", "--sleep-jobs", "1ms"});
  CHECK(has(o.out, "jobs_per_min"));
  CHECK(has(o.out, "job_latency_us.disk_sync"));
}

TEST_CASE("simulated: compare has no row for what the process cost, and every block repeats") {
  const outcome o =
      twice({"compare",  "--machine", "2x6", "--repeat", "6", "--case", "base:", "--case", "off:NO_WAKE_AFFINE",
             "schbench", "-m",        "2",   "-t",       "4", "-s",     "300",   "-c",     "300",
             "-r",       "50ms"});
  CHECK(has(o.out, "wakeup_latency_us.p50 *"));
  CHECK(!has(o.out, "cpu_us_per_op"));
  const outcome varied = twice({"compare", "--machine", "2x4", "--repeat", "1", "--vary", "wa_burst_ns=0,1us", "--vary",
                                "-t=2,4", "schbench", "-m", "1", "-s", "300", "-c", "300", "-r", "20ms"});
  CHECK(has(varied.out, "-t 4"));
}

TEST_CASE("simulated: --schedstat has the counters of every run, in the kernel's layout") {
  const std::string file = "simulated_test.schedstat";
  const outcome o = heddle_program({"schbench", "--machine", "pack:1 core:2 pu:2", "-m", "1", "-t", "2", "-r", "20ms",
                                    "--repeat", "2", "--schedstat", file});
  CHECK(o.status == 0);
  std::ifstream in(file);
  int versions = 0, cpus = 0, domains = 0;
  for (std::string line; std::getline(in, line);) {
    versions += line == "version 15";
    cpus += line.starts_with("cpu");
    domains += line.starts_with("domain");
  }
  CHECK(versions == 2);
  CHECK(cpus == 8);
  CHECK(domains == 16);
  std::remove(file.c_str());
  CHECK(heddle_program({"schbench", "--machine", "pack:1 core:2 pu:2", "--schedstat", "/nowhere/at/all"}).status == 2);
  CHECK(heddle_program({"compare", "--schedstat", file, "--case", "a:", "--case", "b:seed=2", "schbench"}).status == 2);
}

TEST_CASE("simulated: kernel threads cannot run there, said in one line") {
  for (const char* backend : {"threads", "both"}) {
    const outcome o = heddle_program({"schbench", "--machine", "2x4", "--backend", backend, "-r", "1"});
    CHECK(o.status == exit_usage);
    CHECK(o.out == "");
    CHECK(has(o.err, "all that runs on a virtual machine (2x4)"));
  }
}
