// What the scenarios of the policy reference's failure classes (section 10) share: a described machine, settings that leave only
// the mechanism in question, and a look at what the runtime says of itself.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "affinity/placement.h"
#include "heddle/heddle.h"
#include "runtime/sched/scheduler.h"

namespace heddle_test {

using namespace std::chrono_literals;
using counts = std::map<std::string, uint64_t>;

inline heddle::runtime_options described(std::string machine, std::string settings = {}) {
  return {.machine = heddle::machine::named(std::move(machine)),
          .settings = std::move(settings),
          .log = [](heddle::severity, std::string_view) {},
          .read_environment = false};
}

// Nothing moves a fiber but its wake-ups.
inline constexpr const char* placement_only =
    "wake_chain=off,newidle=off,lb=off,ilb=off,wake_defer=off,sis_limit=none,stall_rescue=off";
// Nothing moves a fiber but the periodic balance of CPUs that poll.
inline constexpr const char* balance_only = "wake_chain=off,newidle=off,ilb=off,idle=poll,stall_rescue=off";

inline std::string with(const std::string& base, const std::string& more) {
  return more.empty() ? base : base + "," + more;
}

// Burns and yields until told to stop, and says where.
struct hog {
  std::chrono::nanoseconds segment{10us};
  bool* stop = nullptr;
  std::vector<int>* on = nullptr;  // turns by CPU
  void operator()() const {
    while (!*stop) {
      heddle::this_fiber::burn(segment);
      if (on) (*on)[static_cast<size_t>(heddle::this_fiber::cpu())]++;
      heddle::this_fiber::yield();
    }
  }
};

inline void join_all(std::vector<heddle::fiber<void>>& all) {
  for (auto& f : all) f.join();
}

inline int sum(const std::vector<int>& v, size_t from, size_t to) {
  int total = 0;
  for (size_t i = from; i < to; i++) total += v[i];
  return total;
}

// Load of a CPU as a policy reads it now.
inline int64_t load_of_cpu(heddle::runtime& rt, int cpu) {
  heddle::core::scheduler& s = heddle::detail::scheduler_of(rt);
  const heddle::core::settings& rule = *s.rules.load(heddle::core::acquire);
  return read_load({s.cpus, s.domains, s.said, rule}, heddle::core::to_cpu(static_cast<size_t>(cpu)),
                   heddle::core::load_metric_t::load_avg, s.on->now())
      .load;
}

}  // namespace heddle_test
