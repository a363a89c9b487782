#include "bench_apps/aim7/aim7.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "bench_apps/aim7/files.h"
#include "bench_apps/aim7/kernels.h"
#include "bench_apps/aim7/mixes.h"
#include "bench_apps/aim7/options.h"
#include "bench_apps/aim7/report.h"
#include "bench_apps/common/arguments.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/measure.h"
#include "tests/seed.h"

using namespace heddle::bench;
using namespace heddle::bench::aim7;
using namespace std::chrono_literals;

namespace {

using words = std::vector<std::string>;

aim7_options parsed(const words& typed) {
  aim7_options o;
  arguments args("aim7", "");
  o.declare(args);
  args.parse(typed);
  o.check();
  return o;
}

run_result run_with(const run_request& request, const words& typed) {
  const auto one = make_aim7();
  arguments args("aim7", "");
  one->declare(args);
  args.parse(typed);
  one->check();
  return run_measured(*one, request);
}

std::string refusal(const words& typed) {
  try {
    parsed(typed);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int64_t count_of(const std::vector<job>& plan, family f) {
  return std::ranges::count_if(plan, [f](job j) { return kind_of(j).in == f; });
}

// Two users who did the plan of `o`, each in a second; `spoil` changes the second one or the point.
template <class F>
run_result checked(const aim7_options& o, F spoil) {
  point p{.users = 2, .elapsed = 1s};
  user_records users[2];
  for (user_records& r : users) {
    r.ended = 1s;
    for (const job what : o.plan) r.note(what, nanos{1s} / static_cast<int64_t>(o.plan.size()), 7, 0);
  }
  spoil(users[1], p);
  for (const user_records& r : users) p.add(r, nanos{0});
  run_result result = make_result({p});
  check_result(o, {p}, 2, result);
  return result;
}

}  // namespace

TEST_CASE("aim7: a mix's families have the shares of the reference") {
  const auto alltests = plan_for(find_mix("alltests"), 1000);
  CHECK(count_of(alltests, family::arithmetic) == 300);
  CHECK(count_of(alltests, family::disk_sync) == 80);
  CHECK(count_of(alltests, family::sleep) == 10);
  const auto disk = plan_for(find_mix("disk"), 1000);
  CHECK(count_of(disk, family::disk_direct) == 250);
  CHECK(count_of(disk, family::arithmetic) == 0);
  for (const std::string_view name : built_in_names()) {
    CAPTURE(name);
    double total = 0;
    for (const mix_line& line : find_mix(std::string(name))) total += line.weight;
    CHECK(total > 98.5);  // the reference rounds each share
    CHECK(total < 101.5);
    CHECK(plan_for(find_mix(std::string(name)), 100).size() >= 95);
  }
  CHECK(built_in_names().size() == 8);
}

TEST_CASE("aim7: a share that rounds to nothing is one job, as in the original") {
  const auto plan = plan_for(parse_mix("1000 sieve\n1 copy", "test"), 10);
  CHECK(plan.size() == 11);
  CHECK(std::ranges::count(plan, job::copy) == 1);
}

TEST_CASE("aim7: every user has the same jobs in an order of its own, by the seed") {
  const auto plan = plan_for(find_mix("shared"), 100);
  std::set<std::vector<job>> orders;
  for (uint64_t user = 0; user < 10; user++) {
    const auto order = shuffled(plan, heddle_test::seed(), user);
    CHECK(std::ranges::is_permutation(order, plan));
    CHECK(order == shuffled(plan, heddle_test::seed(), user));
    orders.insert(order);
  }
  CHECK(orders.size() == 10);
}

TEST_CASE("aim7: a mix file is read, and refused with its line") {
  const mix m = parse_mix("# my mix\n 30 arithmetic # six jobs\n\n0.5 spawn\n0 copy\n", "mine");
  CHECK(m.size() == 7);
  CHECK(m.back().what == job::spawn);
  CHECK(m.front().weight == doctest::Approx(5));
  const auto said = [](std::string_view text) {
    try {
      parse_mix(text, "mine");
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(said("3 sieve\nx copy") == "mine, line 2: 'x' is not a weight from 0 to 1e9");
  CHECK(said("-1 copy") == "mine, line 1: '-1' is not a weight from 0 to 1e9");
  CHECK(said("1 tea") == "mine, line 1: 'tea' is not a job or a family of jobs");
  CHECK(said("1") == "mine, line 1: '1' is not WEIGHT NAME");
  CHECK(said("1 copy twice") == "mine, line 1: '1 copy twice' is not WEIGHT NAME");
  CHECK(said("# nothing") == "mine: no job has a weight");
}

TEST_CASE("aim7: what cannot be is refused in one line") {
  CHECK(has(refusal({"-f", "nosuch"}), "-f: 'nosuch' is not a mix (alltests, compute"));
  CHECK(has(refusal({"-s", "6"}), "-s: '6' is not"));
  CHECK(has(refusal({"--without", "tea"}), "--without: 'tea' is not a family of jobs"));
  words everything = {"-f", "disk"};
  for (const char* name : {"metadata", "disk_buffered", "disk_direct", "disk_sync"})
    everything.insert(everything.end(), {"--without", name});
  CHECK(has(refusal(everything), "no job of the mix is left"));
  CHECK_THROWS_AS(run_with({.warmup = 1s}, {"-u", "1", "-f", "compute", "--size", "1e-4"}), usage_error);
  CHECK_THROWS_AS(run_with({}, {"-u", "1", "-f", "disk", "--dir", "/nonexistent"}), usage_error);
}

TEST_CASE("aim7: defaults are the original's") {
  const aim7_options o = parsed({});
  CHECK(o.points() == std::vector<int64_t>{1, 2, 3, 4, 5});
  CHECK(o.jobs == 100);
  CHECK(o.mix_name == "alltests");
  CHECK(count_of(o.plan, family::sleep) == 0);
  CHECK(count_of(parsed({"--sleep-jobs", "5s"}).plan, family::sleep) == 1);
  CHECK(parsed({"-u", "7"}).points() == std::vector<int64_t>{7});
  CHECK(parsed({"-s", "10", "-e", "100", "-i", "45"}).points() == std::vector<int64_t>{10, 55, 100});
  CHECK(parsed({"--without", "process"}).plan.size() < o.plan.size());
  CHECK(o.file_bytes(1) == 1036 * 1024);
  CHECK(o.file_bytes(100) % 4096 == 0);
}

TEST_CASE("aim7: kernels do what they say, the same each time") {
  CHECK(add_long(1000) == 499'500);
  CHECK(sieve(1) == 78'498);
  CHECK(sieve(3) == 3 * 78'498);
  CHECK(sort(2) != 0);
  CHECK(solve(3) == 4);
  for (auto* kernel : {add_double, multiply_long, multiply_double, divide_long, divide_double})
    CHECK(kernel(1000) == kernel(1000));
  for (auto* kernel : {sort, transform, strings, blocks, copy}) {
    CHECK(kernel(2) == kernel(2));
    CHECK(kernel(2) != kernel(3));
  }
}

TEST_CASE("aim7: user files hold what was written, and nothing is left behind") {
  std::string path;
  {
    const work_directory dir(std::filesystem::temp_directory_path());
    path = dir.path();
    user_files files(plain_files(), path + "/u0", 64 << 10);
    files.prepare();
    CHECK(files.write(0) == 64 << 10);
    CHECK(files.write(0, 16 << 10) == 64 << 10);
    CHECK(files.write(O_DIRECT) == 64 << 10);
    CHECK(files.read(0) == 64 << 10);
    CHECK(files.read(O_DIRECT) == 64 << 10);
    CHECK(files.copy() == 64 << 10);
    CHECK(files.create_and_remove(3) == 3);
    CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
    // 64 blocks are 64 calls, and opening, closing and removing three.
    const int64_t before = files.operations();
    files.write(0);
    CHECK(files.operations() - before == 67);
    files.tidy();
    CHECK(std::filesystem::is_empty(path));
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("aim7: every user does every job, on both backends and in every mix") {
  for (const auto backend : {backend_kind::threads, backend_kind::fibers})
    for (const std::string_view mix : built_in_names()) {
      CAPTURE(name_of(backend));
      CAPTURE(mix);
      const words typed = {
          "-s",     std::string("1"), "-e",           "3",  "-i", "2", "-f", std::string(mix), "-j", "30",
          "--size", "0.003",          "--sleep-jobs", "1ms"};
      const run_result run = run_with({.backend = backend, .seed = heddle_test::seed()}, typed);
      CHECK(run.error == "");
      CHECK(run.ended == ending::complete);
      const auto plan = parsed(typed).plan;
      CHECK(run.counters.at("jobs") == 4 * static_cast<int64_t>(plan.size()));
      CHECK(run.counters.at("points") == 2);
      for (const family f : {family::ipc, family::process, family::disk_direct, family::numeric}) {
        const metric* latency = run.find("job_latency_us." + std::string(name_of(f)));
        CHECK((latency ? latency->samples().samples() : 0) == static_cast<uint64_t>(4 * count_of(plan, f)));
      }
      CHECK(run.find("jobs_per_min")->figure().value_or(0) > 0);
      CHECK(run.find("jti_pct")->figure().value_or(0) <= 100);
    }
}

TEST_CASE("aim7: on a virtual machine, twice the same") {
  for (const char* mix : {"alltests", "disk", "high_systime"}) {
    CAPTURE(mix);
    const auto once = [mix] {
      return run_with({.machine = "pack:2 core:10 pu:2", .seed = heddle_test::seed()},
                      {"-s", "30", "-e", "50", "-i", "20", "-f", mix, "-j", "20", "--size", "0.05"});
    };
    const run_result run = once(), again = once();
    CHECK(run.error == "");
    CHECK(run.ended == ending::complete);
    CHECK(run.seconds > 0);
    CHECK(run.seconds == again.seconds);
    CHECK(run.counters == again.counters);
    CHECK(run.find("user_s.50")->figure() == 0.0);  // the process's own time is no part of it
  }
}

TEST_CASE("aim7: twice the compute users on more CPUs than users take no longer on a virtual machine") {
  const auto jobs_per_min = [](const char* users) {
    return run_with({.machine = "1x16x2"}, {"-u", users, "-f", "compute", "--without", "ipc", "--without",
                                            "disk_buffered", "--without", "metadata", "--size", "0.1"})
        .find("jobs_per_min")
        ->figure()
        .value_or(0);
  };
  CHECK(jobs_per_min("8") > 1.8 * jobs_per_min("4"));
}

TEST_CASE("aim7: a sound run passes its checks, a broken one fails and says how") {
  const aim7_options o = parsed({"-f", "compute", "-j", "10"});
  CHECK(checked(o, [](auto&, auto&) {}).error == "");
  CHECK(has(checked(o, [](auto& r, auto&) { r.done[static_cast<size_t>(job::sieve)]--; }).error,
            "the job sieve was done 1 times of 2"));
  CHECK(has(checked(o, [](auto& r, auto&) { r.digest[static_cast<size_t>(job::sort)]++; }).error, "same work for all"));
  CHECK(has(checked(o, [](auto& r, auto&) { r.note(job::sort, 1ms, 8, 0); }).error, "same work twice"));
  CHECK(has(checked(o, [](auto& r, auto&) { r.error = "disk full"; }).error, "disk full"));
  CHECK(has(checked(o, [](auto& r, auto&) { r.busy_ns *= 0.9; }).error, "Little"));
  CHECK(has(checked(o, [](auto& r, auto&) { r.ended = 2s; }).error, "invalid"));
  CHECK(has(checked(o, [](auto&, auto& p) { p.job_cpu_s = 2.5; }).error, "CPU time"));
  CHECK(checked(o, [](auto& r, auto& p) { r.done[0]--, p.cut_short = true; }).error == "");
}

TEST_CASE("aim7: the original's layout and figures") {
  point p{.users = 2, .elapsed = 2s, .finish_s = {1, 2}};
  p.done[0] = 20;
  CHECK(p.jobs_per_min() == 600);
  CHECK(p.deviation_s() == doctest::Approx(0.7071));
  CHECK(p.jti_pct() == doctest::Approx(100 - 47.14).epsilon(0.001));
  p.user_s = 1.5;
  const std::string text = original_layout(make_result({p}));
  CHECK(has(text, "2       2.00     0.00    1.50    600.00     300.00     0.71     47.14    52.86\n"));
  CHECK(text.ends_with("Max Jobs per Minute 600.00\n"));
}
