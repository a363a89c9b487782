#include "bench_apps/schbench/schbench.h"

#include <doctest/doctest.h>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/calibration.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/measure.h"
#include "bench_apps/schbench/report.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<app> schbench_with(const std::vector<std::string>& words) {
  auto one = make_schbench();
  arguments args("schbench", "");
  one->declare(args);
  args.parse(words);
  one->check();
  return one;
}

run_result run_with(backend_kind backend, const std::vector<std::string>& words) {
  static const calibration work = calibration::measure();
  return run_measured(*schbench_with(words), {.backend = backend, .work = &work});
}

schbench::totals plausible_totals(uint64_t workers) {
  schbench::totals all;
  for (uint64_t w = 0; w < workers; w++) {
    schbench::worker_records r;
    for (int i = 0; i < 95; i++) r.latency[0].record(1us), r.loops++, r.cycle_ns += 10e6;
    r.first_began = 20ms;
    r.last_ended = 970ms;  // a cycle is cut at each end of the second
    all.add(r, {.begin = 0s, .end = 1s});
  }
  schbench::message_records m;
  m.bursts = 50 * workers;
  m.wakes = 95 * workers;
  all.add(m);
  return all;
}

// What check_result makes of a run of 4 workers and one second, after `spoil`.
template <class F>
run_result checked(F spoil) {
  schbench_options o;
  o.message_roles = 1;
  o.workers_each = 4;
  o.think_time = 1ms;
  auto all = plausible_totals(4);
  spoil(all);
  run_result result;
  schbench::check_result(o, all, {.begin = 0s, .end = 1s}, 2, result);
  return result;
}

}  // namespace

TEST_CASE("schbench: every wake-up of a run is one sample, in both modes") {
  for (const auto backend : {backend_kind::threads, backend_kind::fibers})
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"-m", "2", "-t", "3", "-s", "500", "-c", "100", "-r", "200ms"},
          std::vector<std::string>{"-m", "2", "-t", "3", "-s", "500", "-c", "100", "-r", "200ms", "--think", "wall"},
          std::vector<std::string>{"-m", "2", "-t", "3", "-p", "4KiB", "-r", "200ms"},
          std::vector<std::string>{"--mode", "v1", "-m", "1", "-t", "3", "-s", "50", "-F", "8", "-n", "1", "-r",
                                   "200ms"}}) {
      CAPTURE(name_of(backend));
      CAPTURE(words);
      const run_result run = run_with(backend, words);
      CHECK(run.error == "");
      CHECK(run.ended == ending::complete);
      REQUIRE(run.find("wakeup_latency_us") != nullptr);
      const auto samples = static_cast<int64_t>(run.find("wakeup_latency_us")->samples().samples());
      CHECK(samples > 0);
      CHECK(samples == run.counters.at("loops"));
      CHECK(run.counters.at("woken_same_cpu") + run.counters.at("woken_same_llc") +
                run.counters.at("woken_other_llc") ==
            samples);
      CHECK(run.seconds >= 0.2);
      CHECK(run.spent.cpu_us_per_op.has_value());
    }
}

TEST_CASE("schbench: the original's layouts") {
  const std::string classic =
      schbench_with({})->original(run_with(backend_kind::threads, {"-t", "2", "-s", "500", "-c", "100", "-r", "50ms"}));
  CHECK(classic.starts_with("Latency percentiles (usec)\n\t50.0000th: "));
  CHECK(classic.find("\t*99.0000th: ") != std::string::npos);
  CHECK(classic.find("\tmin=") != std::string::npos);
  const std::vector<std::string> v1 = {"--mode", "v1", "-t", "2", "-s", "50", "-F", "8", "-n", "1", "-r", "50ms"};
  const std::string text = schbench_with(v1)->original(run_with(backend_kind::threads, v1));
  CHECK(text.starts_with("Wakeup Latencies percentiles (usec) runtime "));
  for (const char* part :
       {"Request Latencies percentiles (usec)", "RPS percentiles (requests)", "\t* 99.0th: ", "average rps: "})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("schbench: defaults are the modes' own") {
  const auto classic = schbench_with({})->options();
  CHECK(classic["-m"] == 2);
  CHECK(classic["-t"] == 16);
  CHECK(classic["-r"] == 30.0);
  CHECK(classic["-s"] == 30000.0);
  CHECK(classic["-c"] == 30000.0);
  const auto v1 = schbench_with({"--mode", "v1"})->options();
  CHECK(v1["-m"] == 1);
  CHECK(v1["-s"] == 100.0);
  CHECK(v1["-F"] == 256);
  CHECK(v1["-n"] == 5);
}

TEST_CASE("schbench: with -p nobody sleeps or thinks unless told to") {
  CHECK(schbench_with({"-p", "64"})->options()["-c"] == 0.0);
  CHECK(schbench_with({"-p", "64"})->options()["-s"] == 0.0);
  CHECK(schbench_with({"-p", "64", "-c", "7"})->options()["-c"] == 7.0);
}

TEST_CASE("schbench: combinations that mean nothing are refused") {
  CHECK_THROWS_AS(schbench_with({"--mode", "v1", "--think", "wall"}), usage_error);
  CHECK_THROWS_AS(schbench_with({"--mode", "v1", "-p", "64"}), usage_error);
  CHECK_THROWS_AS(schbench_with({"-m", "1000000", "-t", "2"}), usage_error);
}

TEST_CASE("schbench: a sound run passes its checks, a broken one fails and says how") {
  CHECK(checked([](auto&) {}).error == "");
  CHECK(checked([](auto& all) { all.out_of_order = 1; }).error.find("LIFO") != std::string::npos);
  CHECK(checked([](auto& all) { all.loops += 1; }).error.find("samples") != std::string::npos);
  CHECK(checked([](auto& all) { all.wakes += 5; }).error.find("wake-ups") != std::string::npos);
  CHECK(checked([](auto& all) { all.cycle_ns *= 0.9; }).error.find("Little") != std::string::npos);
  CHECK(checked([](auto& all) { all.cycle_ns *= 1.1; }).ended == ending::failed);
}

TEST_CASE("schbench: more calibrated work than the CPUs could do is refused") {
  schbench_options o;
  o.message_roles = 1;
  o.workers_each = 4;
  o.think_time = 10ms;  // 380 loops of 10 ms in a second: 3.8 CPUs of work
  run_result result;
  schbench::check_result(o, plausible_totals(4), {.begin = 0s, .end = 1s}, 2, result);
  CHECK(result.ended == ending::failed);
  CHECK(result.error.find("CPUs of calibrated work") != std::string::npos);
}
