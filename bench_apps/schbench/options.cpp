#include "bench_apps/schbench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench_apps/common/cpu_list.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench {

using namespace std::chrono_literals;

void schbench_options::declare(arguments& args) {
  args.group("schbench");
  args.choice("--mode", mode, {"classic", "v1"}, "the tool of 2016-2019 or that of 2023");
  args.choice("--think", think, {"work", "wall"},
              "classic: a fixed amount of work, or a spin by the clock as the original does");
  args.value("-m,--message-threads", "2, v1 1", in_range(message_roles, tasks), describe(tasks), "N", "message roles");
  args.value("-t,--threads", "16, v1 CPUs/m", in_range(workers_each, tasks), describe(tasks), "N",
             "workers per message role");
  args.value("-r,--runtime", "30s", in_range(runtime, run_time), describe(run_time), "DURATION",
             "how long to record (bare number: s)");
  args.value("-s,--sleeptime", "30ms, v1 100us", in_range(sleep, think_time_us), describe(think_time_us), "DURATION",
             "classic: a message role's sleep between bursts; v1: at the start of a request (bare number: us)");
  args.value("-c,--cputime", "30ms", in_range(think_time, think_time_us), describe(think_time_us), "DURATION",
             "classic: a worker's think time (bare number: us)");
  args.size(
      "-p,--pipe", pipe_bytes, {0, 1 << 30},
      "classic: both sides fill a shared buffer of this size instead of thinking; -s and -c are 0 then unless given");
  args.count("-F,--cache-footprint", footprint_kib, {1, 1 << 20}, "v1: KiB that a worker's matrices fill");
  args.count("-n,--operations", operations, {1, 1'000'000}, "v1: matrix products per request");
  args.flag("-L,--no-locking", no_cpu_lock, "v1: work without the lock of the CPU");
  args.duration("--yield-every", yield_every, think_time_us, "fibers: yield inside the think time this often; 0 never");
  args.flag("--compat", compat, "count as the original: whole microseconds, zeros dropped (says how many)");
}

void schbench_options::check() {
  const auto fill = [](auto& value, auto missing, auto wanted) {
    if (value == missing) value = wanted;
  };
  const int64_t cpus = static_cast<int64_t>(allowed_cpus().size());
  fill(message_roles, 0, v1() ? 1 : 2);
  fill(workers_each, 0, v1() ? (cpus + message_roles - 1) / message_roles : 16);
  fill(runtime, 0ns, nanos{30s});
  if (pipe_bytes > 0 && v1()) throw usage_error("-p: belongs to --mode classic");
  if (pipe_bytes > 0) fill(sleep, -1ns, 0ns), fill(think_time, -1ns, 0ns);
  fill(sleep, -1ns, v1() ? nanos{100us} : nanos{30ms});
  fill(think_time, -1ns, nanos{30ms});
  if (worker_count() > tasks.max)
    throw usage_error(fmt::format("-t: '{}' is not a number of workers that times -m {} stays within {}", workers_each,
                                  message_roles, tasks.max));
  if (v1() && wall()) throw usage_error("--think: 'wall' is not work, the only kind in --mode v1 (matrix products)");
}

int schbench_options::matrix_side() const {
  return std::max(1, static_cast<int>(std::sqrt(static_cast<double>(footprint_kib) * 1024 / 3 / 8)));
}

nlohmann::ordered_json schbench_options::json() const {
  const auto us = [](nanos d) { return std::chrono::duration<double, std::micro>(d).count(); };
  nlohmann::ordered_json out = {{"--mode", mode},
                                {"-m", message_roles},
                                {"-t", workers_each},
                                {"-r", std::chrono::duration<double>(runtime).count()},
                                {"-s", us(sleep)}};
  if (v1()) {
    out["-F"] = footprint_kib;
    out["-n"] = operations;
    out["-L"] = no_cpu_lock;
  } else {
    out["--think"] = think;
    out["-c"] = us(think_time);
    if (pipe_bytes > 0) out["-p"] = pipe_bytes;
  }
  if (yield_every.count() > 0) out["--yield-every"] = us(yield_every);
  if (compat) out["--compat"] = true;
  return out;
}

}  // namespace heddle::bench
