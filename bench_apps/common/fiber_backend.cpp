#include "bench_apps/common/fiber_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "affinity/placement.h"
#include "bench_apps/common/calibration.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/machine_facts.h"
#include "bench_apps/common/run_settings.h"
#include "bench_apps/common/units.h"

namespace heddle::bench {
namespace {

std::unique_ptr<heddle::runtime> start(const run_request& request) {
  try {
    return std::make_unique<heddle::runtime>(
        runtime_options{.machine = heddle::machine::named(request.machine),
                        .cpus = request.cpus,
                        .workers = request.workers == "auto" ? 0 : std::stoul(request.workers),
                        .settings = request.settings,
                        .seed = request.seed});
  } catch (const std::invalid_argument& e) {
    throw usage_error(e.what());
  } catch (const std::system_error& e) {
    throw run_error(e.what());
  }
}

std::string idle_policy(const core::settings& s) {
  switch (s.idle) {
    case core::idle_t::poll:
      return "poll for ever";
    case core::idle_t::park:
      return "park at once";
    case core::idle_t::adaptive:
      break;
  }
  return fmt::format("poll up to {}, then park", show_duration(nanos{s.spin_ns}));
}

// Where placement sent woken fibers, the commonest reason first; what stays under half a percent is left to the counters.
std::string placement_shares(const std::map<std::string, uint64_t>& counters) {
  std::vector<std::pair<uint64_t, std::string>> found;
  uint64_t all = 0;
  for (size_t i = 0; i < core::wake_reason_count; i++) {
    const std::string name(core::to_string(static_cast<core::wake_reason>(i)));
    const auto at = counters.find(name);
    if (at == counters.end() || at->second == 0) continue;
    found.emplace_back(at->second, name);
    all += at->second;
  }
  std::ranges::sort(found, std::greater());
  std::string text;
  for (const auto& [count, name] : found)
    if (const double pct = 100.0 * static_cast<double>(count) / static_cast<double>(all); pct >= 0.5)
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, pct);
  return text;
}

}  // namespace

fiber_backend::fiber_backend(const run_request& request)
    : machine_(request.machine),
      settings_(choose_settings(request.settings)),
      work_(request.work),
      runtime_(start(request)) {}

void fiber_backend::run(const std::function<void()>& director) { runtime_->run(director); }

fiber_backend::role fiber_backend::spawn(const std::string& name, std::function<void()> body) {
  try {
    return role(runtime_->spawn({.name = name}, std::move(body)));
  } catch (const std::system_error& e) {
    throw run_error(fmt::format("the system refuses fiber '{}': {}", name, e.what()));
  }
}

// On the host the same iterations as the threads do; on a virtual machine there is no calibration, time just passes.
void fiber_backend::burn(nanos work) const {
  if (work.count() <= 0) return;
  if (work_ != nullptr)
    work_iterations(work_->iterations_for(work), 1);
  else
    heddle::this_fiber::burn(work);
}

void fiber_backend::multiply(const uint64_t* a, const uint64_t* b, uint64_t* c, int side) const {
  if (work_ != nullptr) return work_matrix(a, b, c, side);
  // A nanosecond per multiply-add, the order of what the host takes.
  const auto steps = static_cast<int64_t>(side) * side * side;
  heddle::this_fiber::burn(nanos{steps}, 3 * sizeof(uint64_t) * static_cast<size_t>(side) * static_cast<size_t>(side));
}

std::vector<int> fiber_backend::llc_of_cpu() const { return facts_of(machine_).llc_of_cpu; }

void fiber_backend::describe(run_result& result) const {
  result.workers = cpu_count();
  result.machine = facts_of(machine_).record;
  result.idle_policy = idle_policy(settings_.values);
  record_settings(result, settings_);
  const auto counters = runtime_->stats().counters;
  for (const auto& [name, count] : counters) result.counters[name] = static_cast<int64_t>(count);
  std::ostringstream schedstat;
  runtime_->schedstat(schedstat);
  result.schedstat = schedstat.str();
  if (const std::string shares = placement_shares(counters); !shares.empty())
    result.notes.push_back("wake-ups placed: " + shares);
}

}  // namespace heddle::bench
