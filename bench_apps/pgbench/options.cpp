#include "bench_apps/pgbench/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench_apps/common/errors.h"

namespace heddle::bench {

using namespace std::chrono_literals;

namespace {

constexpr int64_t transactions_default = 10;
constexpr duration_range statement_range{0ns, 1s, 1us};
constexpr duration_range flush_range{1ns, 1000s, 1us};

}  // namespace

void pgbench_options::declare(arguments& args) {
  args.group("pgbench");
  args.count("-c,--client", clients, tasks, "clients, each with a connection and a server task of its own");
  args.count("-j,--jobs", dispatchers, tasks, "client dispatchers; each serves its share of the connections");
  args.count("-s,--scale", scale, {1, 10'000}, "scale: 100000 accounts, 10 tellers, 1 branch each");
  args.value("-t,--transactions", "10", in_range(transactions, loops), describe(loops), "N",
             "transactions of each client");
  args.value("-T,--time", "", in_range(runtime, run_time), describe(run_time), "DURATION",
             "run this long instead (bare number: s)");
  args.flag("-S,--select-only", select_only, "the select-only script");
  args.flag("-N,--skip-some-updates", simple_update, "the script without tellers and branches");
  args.choice("-M,--protocol", mode, {"simple", "prepared"}, "parse every statement, or once");
  args.real("-R,--rate", rate, 0, 1e9, "open loop: transactions per second over all clients, Poisson; 0 closed loop");
  args.real("-L,--latency-limit", latency_limit_ms, 0, 1e6,
            "ms: count slower ones; with -R skip what is later; 0 none");
  args.count("-P,--progress-every", progress_s, {0, 86'400}, "seconds between progress lines on stderr; 0 none");
  args.flag("-r,--report-per-command", per_statement, "latency of each statement");
  args.flag("-n,--no-vacuum", no_vacuum, "accepted: there is nothing to vacuum");
  args.choice("--transport", transport, {"chan"}, "what connects client and server: in-process byte queues");
  args.value("--statement-us", "20, prepared 10", in_range(statement_cpu_given_, statement_range),
             describe(statement_range), "DURATION",
             "calibrated CPU work of a statement beside the real look-ups (bare number: us)");
  args.value(
      "--flush", "off",
      [this](const std::string& text) {
        flush = text;
        flush_time = 0ns;
        return text == "off" || in_range(flush_time, flush_range)(text);
      },
      fmt::format("off or {}", describe(flush_range)), "off|DURATION",
      "how long the device takes to make a commit durable (bare number: us)");
}

void pgbench_options::check() {
  if (select_only && simple_update) throw usage_error("-S and -N exclude each other: choose one script");
  if (by_time() && transactions > 0) throw usage_error("-t and -T exclude each other: choose a number or a time");
  if (!by_time() && transactions == 0) transactions = transactions_default;
  statement_cpu = statement_cpu_given_.count() >= 0 ? statement_cpu_given_
                  : mode == "prepared"              ? nanos{10us}
                                                    : nanos{20us};
  dispatchers = std::min(dispatchers, clients);  // as the original: no dispatcher without a connection
}

pgbench::script_kind pgbench_options::script() const {
  using pgbench::script_kind;
  return select_only ? script_kind::select_only : simple_update ? script_kind::simple_update : script_kind::tpcb_like;
}

pgbench::query_mode pgbench_options::queries() const {
  return mode == "simple" ? pgbench::query_mode::simple : pgbench::query_mode::prepared;
}

nlohmann::ordered_json pgbench_options::json() const {
  nlohmann::ordered_json out = {{"-c", clients}, {"-j", dispatchers}, {"-s", scale}};
  if (by_time())
    out["-T"] = std::chrono::duration<double>(runtime).count();
  else
    out["-t"] = transactions;
  out["-M"] = mode;
  if (select_only) out["-S"] = true;
  if (simple_update) out["-N"] = true;
  if (rate > 0) out["-R"] = rate;
  if (latency_limit_ms > 0) out["-L"] = latency_limit_ms;
  if (per_statement) out["-r"] = true;
  out["--transport"] = transport;
  out["--statement-us"] = std::chrono::duration<double, std::micro>(statement_cpu).count();
  if (flush == "off")
    out["--flush"] = flush;
  else
    out["--flush"] = show_duration(flush_time);
  return out;
}

}  // namespace heddle::bench
