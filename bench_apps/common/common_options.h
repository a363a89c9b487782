// The options every app and `compare` take, before or after the app's name.
#pragma once

#include <string>
#include <vector>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/command.h"

namespace heddle::bench {

struct common_options {
  std::string machine = "host";
  std::string backend = "fibers";  // fibers, threads, both
  std::string workers = "auto";
  std::string cpus;  // empty: all allowed

  std::string preset;            // empty: none named here
  std::vector<std::string> set;  // one ITEM each
  std::string features;          // a LIST
  std::string costs;             // a file of settings: what `heddle micro --calibrate` prints

  int64_t repeat = 1;
  nanos warmup{0};
  int64_t seed = 1;

  std::string json;       // empty: none; "-": stdout, and nothing else there
  std::string schedstat;  // empty: none; else a file for counters in the layout of /proc/schedstat
  std::string format = "table";
  bool pin_threads = false;  // backend threads: one CPU each instead of floating
  std::string progress = "auto";
  bool quiet = false;

  bool on_host() const { return machine == "host"; }
  bool json_on_stdout() const { return json == "-"; }
  std::vector<backend_kind> backends() const;
  // --preset, --costs, --features and --set as one list of the settings grammar, the preset first. usage_error where the
  // file cannot be read.
  std::string settings_list() const;
};

// Which of them a command wants; `settings` takes the settings alone, `topo` the machine alone.
struct option_groups {
  bool machine = true;
  bool settings = true;
  bool runs = true;
};

void declare_common(arguments& args, common_options& options, option_groups groups = {});

// Parses what stood before and after the command's name together. One option on both sides is refused: nobody could say
// which was meant. False: --help was printed.
//
// HEDDLE_WORKERS, HEDDLE_CPUS and HEDDLE_SEED count where no option was given.
bool parse_command(arguments& args, const invocation& typed, common_options& options);

// Where the command's name stands in `words`; words.size() where there is none.
size_t find_command(const std::vector<std::string>& words);

}  // namespace heddle::bench
