// Directs a run: one crowd after the other, from the first number of users to the last, and the result made of them.
#include "bench_apps/aim7/aim7.h"

#include <fmt/format.h>

#include <deque>
#include <optional>

#include "bench_apps/aim7/crowd.h"
#include "bench_apps/aim7/report.h"
#include "bench_apps/common/dispatch.h"

namespace heddle::bench {
namespace {

using namespace aim7;

template <backend B>
run_result run_on(B& b, const aim7_options& options, const run_request& request) {
  std::optional<work_directory> directory;
  if (request.on_host() && options.any(uses_files)) directory.emplace(options.dir);
  std::vector<point> points;
  std::deque<crowd<B>> crowds;
  for (const int64_t users : options.points()) {
    if (stop_requested()) break;
    // On a virtual machine, which knows memory by its address, no crowd is given what another one had.
    if (request.on_host()) crowds.clear();
    crowds.emplace_back(b, options, request, users, directory ? directory->path() : "");
    b.run([&] { points.push_back(crowds.back().play()); });
  }
  run_result result = make_result(points);
  b.describe(result);
  check_result(options, points, b.cpu_count(), result);
  return result;
}

class aim7_program final : public app {
 public:
  void declare(arguments& args) override { options_.declare(args); }
  void check() override { options_.check(); }
  void check_request(const run_request& request) const override {
    if (request.warmup.count() > 0)
      throw usage_error("--warmup: aim7 has none, it times a fixed number of jobs from the first to the last");
  }
  ordered_json options() const override { return options_.json(); }
  nanos run_length() const override { return nanos{0}; }
  run_result run(const run_request& request) override {
    check_request(request);
    return on_backend(request, [&](auto& b) { return run_on(b, options_, request); });
  }
  std::string original(const run_result& result) const override { return original_layout(result); }
  std::string_view primary_metric() const override { return "jobs_per_min"; }

 private:
  aim7_options options_;
};

}  // namespace

std::unique_ptr<app> make_aim7() { return std::make_unique<aim7_program>(); }

}  // namespace heddle::bench
