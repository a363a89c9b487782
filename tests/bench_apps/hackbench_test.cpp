#include "bench_apps/hackbench/hackbench.h"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/byte_channel.h"
#include "bench_apps/common/calibration.h"
#include "bench_apps/common/descriptor_channel.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/thread_backend.h"
#include "bench_apps/hackbench/report.h"
#include "tests/seed.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<app> hackbench_with(const std::vector<std::string>& words) {
  auto one = make_hackbench();
  arguments args("hackbench", "");
  one->declare(args);
  args.parse(words);
  one->check();
  return one;
}

run_result run_with(const run_request& request, const std::vector<std::string>& words) {
  return hackbench_with(words)->run(request);
}

std::string refusal(const run_request& request, const std::vector<std::string>& words) {
  try {
    hackbench_with(words)->check_request(request);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// What check_result says of a run of 2 groups of 3 x 3 with 4 rounds, after `spoil`.
template <class F>
run_result checked(F spoil) {
  hackbench_options o;
  o.groups = 2;
  o.fan = 3;
  o.rounds = 4;
  o.check();
  hackbench::totals all;
  all.run = 1s;
  for (int task = 0; task < 6; task++) {
    hackbench::role_records sender, receiver;
    for (uint64_t i = 0; i < 12; i++) {
      sender.messages++, receiver.messages++;
      sender.tags += i, receiver.tags += i;
      receiver.latency.record(1ms);
      receiver.by_cpu[task % 2]++;
    }
    all.add_sender(sender);
    all.add_receiver(receiver);
  }
  spoil(all);
  run_result result;
  hackbench::check_result(o, all, result);
  return result;
}

}  // namespace

TEST_CASE("hackbench: every message of every sender arrives once, on both backends and every transport") {
  for (const auto backend : {backend_kind::threads, backend_kind::fibers})
    for (const char* transport : {"chan", "pipe", "socket"})
      for (const char* bytes : {"100", "5"}) {
        CAPTURE(name_of(backend));
        CAPTURE(transport);
        CAPTURE(bytes);
        const run_result run = run_with({.backend = backend, .seed = heddle_test::seed()},
                                        {"-g", "2", "-f", "4", "-l", "25", "-s", bytes, "--transport", transport});
        CHECK(run.error == "");
        CHECK(run.ended == ending::complete);
        CHECK(run.counters.at("messages") == 2 * 4 * 4 * 25);
        CHECK(run.counters.at("tasks") == 16);
        CHECK(run.operations == 800);
        const metric* latency = run.find("message_latency_us");
        CHECK((latency != nullptr) == (std::string(bytes) == "100"));
        if (latency != nullptr) CHECK(latency->samples().samples() == 800);
      }
}

TEST_CASE("hackbench: a small channel makes senders wait, and nothing is lost by it") {
  for (const auto backend : {backend_kind::threads, backend_kind::fibers}) {
    const run_result run = run_with({.backend = backend}, {"-g", "1", "-f", "8", "-l", "50", "--capacity", "250"});
    CHECK(run.error == "");
    CHECK(run.counters.at("messages") == 8 * 8 * 50);
    CHECK(run.counters.at("blocked_writes") > 0);
  }
}

TEST_CASE("hackbench: on a virtual machine, twice the same") {
  const auto once = [] {
    return run_with({.machine = "pack:2 core:10 pu:2", .seed = heddle_test::seed()},
                    {"-g", "4", "-f", "5", "-l", "20"});
  };
  const run_result run = once(), again = once();
  CHECK(run.error == "");
  CHECK(run.counters.at("messages") == 4 * 5 * 5 * 20);
  CHECK(run.counters.at("receiving_cpus") > 1);
  CHECK(run.seconds > 0);
  CHECK(run.seconds == again.seconds);
  CHECK(run.counters == again.counters);
}

TEST_CASE("hackbench: what cannot be is refused in one line") {
  CHECK_THROWS_AS(hackbench_with({"-g", "30000"}), usage_error);
  CHECK_THROWS_AS(hackbench_with({"-s", "70000"}), usage_error);
  CHECK_NOTHROW(hackbench_with({"-s", "70000", "-p"}));
  CHECK(refusal({.machine = "2x4"}, {"-p"}) ==
        "--transport: 'pipe' is not chan, all that runs on a virtual machine (2x4)");
  CHECK(has(refusal({.machine = "2x4"}, {"--transport", "socket"}), "'socket' is not chan"));
  CHECK(has(refusal({.warmup = 1s}, {}), "--warmup"));
  CHECK(refusal({}, {"-p"}) == "");
}

TEST_CASE("hackbench: defaults and letters are the original's") {
  const auto o = hackbench_with({})->options();
  CHECK(o["-g"] == 10);
  CHECK(o["-f"] == 20);
  CHECK(o["-l"] == 100);
  CHECK(o["-s"] == 100);
  CHECK(o["--transport"] == "chan");
  CHECK(o["--capacity"] == 65536);
  CHECK(hackbench_with({"-p", "-T"})->options()["--transport"] == "pipe");
  CHECK(hackbench_with({})->primary_metric() == "time_s");
  run_result run;
  run.seconds = 0.1234;
  CHECK(hackbench_with({"-g", "3"})->original(run) ==
        "Running in threaded mode with 3 groups using 40 file descriptors each (== 120 tasks)\n"
        "Each sender will pass 100 messages of 100 bytes\nTime: 0.123\n");
}

TEST_CASE("hackbench: a sound run passes its checks, a broken one fails and says how") {
  CHECK(checked([](auto&) {}).error == "");
  CHECK(has(checked([](auto& all) { all.received--; }).error, "received"));
  CHECK(has(checked([](auto& all) { all.sent--, all.received--; }).error, "71 messages sent of 72"));
  CHECK(has(checked([](auto& all) { all.torn_bytes = 7; }).error, "7 bytes of torn"));
  CHECK(has(checked([](auto& all) { all.tags_received++; }).error, "other contents"));
  CHECK(has(checked([](auto& all) { all.latency.record(0s); }).error, "73 latencies"));
  CHECK(has(checked([](auto& all) { all.error = "read failed"; }).error, "read failed"));
  CHECK(checked([](auto& all) {
          all.sent -= 2, all.received -= 2;
          all.cut_short = true;
          all.latency = {};
          for (int i = 0; i < 70; i++) all.latency.record(1ms);
        }).error == "");
  // 72 messages of 200 s in one second: 14400 under way, and room for some 4000.
  CHECK(has(checked([](auto& all) {
              all.latency = {};
              for (int i = 0; i < 72; i++) all.latency.record(200s);
            }).error,
            "Little"));
}

TEST_CASE("byte_channel: messages of many writers arrive whole and in each writer's order, then the end") {
  thread_backend b({.backend = backend_kind::threads});
  byte_channel<thread_backend> channel(b, 100);  // 8 messages of 12 bytes: writers wait, and messages wrap around
  struct message {
    uint32_t writer, number, sum;
  };
  constexpr uint32_t writers = 4, each = 500;
  std::vector<std::thread> all;
  for (uint32_t w = 0; w < writers; w++)
    all.emplace_back([&, w] {
      for (uint32_t n = 0; n < each; n++) {
        const message m{w, n, w + n};
        channel.write({reinterpret_cast<const char*>(&m), sizeof m});
      }
    });
  std::vector<uint32_t> next(writers, 0);
  for (uint32_t i = 0; i < writers * each; i++) {
    message m{};
    std::span<char> into(reinterpret_cast<char*>(&m), sizeof m);
    while (!into.empty()) into = into.subspan(channel.read(into));
    REQUIRE(m.writer < writers);
    CHECK(m.number == next[m.writer]++);
    CHECK(m.sum == m.writer + m.number);
  }
  for (auto& t : all) t.join();
  channel.close_writing();
  char none = 0;
  CHECK(channel.read({&none, 1}) == 0);
}

TEST_CASE("descriptor_channel: the end for readers, an error and no signal for writers") {
  for (const auto kind : {descriptor_kind::pipe, descriptor_kind::socket}) {
    descriptor_channel<thread_backend> channel(kind);
    channel.write(std::string_view("abc"));
    channel.close_writing();
    char into[8];
    CHECK(channel.read(into) == 3);
    CHECK(channel.read(into) == 0);
    std::thread([&] {
      descriptor_channel<thread_backend> broken(kind);
      ignore_broken_pipe();
      broken.close_reading();
      CHECK_THROWS_AS(broken.write(std::string_view("abc")), run_error);
    }).join();
  }
}
