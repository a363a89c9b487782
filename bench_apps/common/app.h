// An app: a benchmark that can be run again and again, on either backend, by whoever holds it (its own command, compare,
// suite, rerun). It owns its options and its roles; everything around a run (repeats, output, calibration, resources,
// disturbance, interrupts) is common/driver's and common/measure's.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench_apps/common/result.h"

namespace heddle::bench {

class arguments;
class calibration;

enum class backend_kind { fibers, threads };
std::string_view name_of(backend_kind backend);

// What one run is given. Everything an app may depend on is here or in its own options.
struct run_request {
  backend_kind backend = backend_kind::fibers;
  std::string machine = "host";
  std::string workers = "auto";  // as typed
  std::string cpus;
  std::string settings;  // a list of the settings grammar, from options or a case
  uint64_t seed = 1;
  nanos warmup{0};
  bool pin_threads = false;           // the backend `threads`: one CPU each, round robin
  const calibration* work = nullptr;  // the process's one calibration; null on a virtual machine, which needs none

  bool on_host() const { return machine == "host"; }
};

class app {
 public:
  virtual ~app() = default;
  virtual void declare(arguments& args) = 0;
  // After parsing: derives defaults, refuses combinations (usage_error).
  virtual void check() {}
  // Refuses what this machine or backend cannot do, before anything has run (usage_error).
  virtual void check_request(const run_request&) const {}
  // The options as they count, for the result file: {"-m": 2, ...}; durations in the modelled tool's unit.
  virtual nlohmann::ordered_json options() const = 0;
  // How long one run records, for the progress line; zero where a run ends by work done.
  virtual nanos run_length() const = 0;
  // One run from a fresh start. Reports problems in the result's `error` and `notes`; throws only usage_error,
  // capability_error and run_error.
  virtual run_result run(const run_request& request) = 0;
  // The modelled tool's own layout.
  virtual std::string original(const run_result& result) const = 0;
  virtual std::string_view primary_metric() const = 0;
};

struct app_kind {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<app> (*make)();
};

}  // namespace heddle::bench
