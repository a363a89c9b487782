// How the program is put together: a list of commands and a list of apps, both in main.cpp, one line each.
//
// A command is a name, a sentence and a function from what was typed to an exit status. An app (bench_apps/common/app.h)
// becomes a command by itself, and `compare`, `suite` and `rerun` can drive it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench_apps/common/app.h"

namespace heddle::bench {

struct command;

// What was typed, cut at the command's name.
struct invocation {
  std::vector<std::string> before;  // common options that stood before the name
  std::vector<std::string> args;    // all that stood after it
  std::span<const command> commands;
  std::span<const app_kind> apps;

  // Everything as typed, without the program's name: what a result file records and `rerun` repeats.
  std::vector<std::string> words;
};

struct command {
  std::string_view name;
  std::string_view summary;  // one line for `heddle help`
  int (*run)(const invocation&);
};

// Finds the command, runs it, turns what it throws into one line on stderr and a status.
int run_program(const std::vector<std::string>& words, std::span<const command> commands,
                std::span<const app_kind> apps);

// The library versions and how this binary was built, for --version and for result files.
std::string version_text();
std::string_view version();

}  // namespace heddle::bench
