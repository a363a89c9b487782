// Directs a run of the roles (roles.h), checks what must hold at its end, and makes the result of it.
#include "bench_apps/schbench/schbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench_apps/common/calibration.h"
#include "bench_apps/common/dispatch.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/schbench/options.h"
#include "bench_apps/schbench/report.h"
#include "bench_apps/schbench/roles.h"

namespace heddle::bench {
namespace {

using namespace schbench;
using namespace std::chrono_literals;

constexpr nanos signal_poll = 50ms;  // how late an interrupt may be seen

// Sleeps until `deadline` or a signal; calls every_second about once a second meanwhile.
template <backend B, class F>
void direct(B& b, nanos deadline, F&& every_second) {
  nanos next_second = b.now() + 1s;
  while (b.now() < deadline && !stop_requested()) {
    b.sleep_until(std::min({deadline, next_second, b.now() + signal_poll}));
    if (b.now() < next_second) continue;
    every_second();
    next_second += 1s;
  }
}

template <backend B>
totals collect(const scenario<B>& s, const window& recorded) {
  totals all;
  for (const auto& w : s.workers()) all.add(w.records, recorded);
  for (const auto& m : s.messages()) all.add(m.records);
  return all;
}

template <backend B>
run_result run_on(B& b, const schbench_options& options, const run_request& request) {
  const std::vector<int> llcs = b.llc_of_cpu();
  scenario<B> roles(b, options, request.seed, llcs);
  window recorded;
  b.run([&] {
    roles.start();
    direct(b, b.now() + request.warmup, [] {});
    recorded.begin = b.now();
    roles.open(recorded.begin);
    uint64_t requests = roles.requests();
    const uint64_t requests_before = requests;
    direct(b, recorded.begin + options.runtime, [&] {
      const uint64_t now = roles.requests();
      recorded.rate_samples.push_back(static_cast<double>(now - requests));
      requests = now;
    });
    recorded.end = b.now();
    recorded.requests = roles.requests() - requests_before;
    roles.stop();
  });
  const totals all = collect(roles, recorded);
  run_result result = make_result(options, all, recorded);
  b.describe(result);
  check_result(options, all, recorded, b.cpu_count(), result);
  return result;
}

class schbench_program final : public app {
 public:
  void declare(arguments& args) override { options_.declare(args); }
  void check() override { options_.check(); }
  ordered_json options() const override { return options_.json(); }
  nanos run_length() const override { return options_.runtime; }
  run_result run(const run_request& request) override {
    return on_backend(request, [&](auto& b) { return run_on(b, options_, request); });
  }
  std::string original(const run_result& result) const override { return original_layout(options_, result); }
  std::string_view primary_metric() const override { return "wakeup_latency_us"; }

 private:
  schbench_options options_;
};

}  // namespace

std::unique_ptr<app> make_schbench() { return std::make_unique<schbench_program>(); }

}  // namespace heddle::bench
