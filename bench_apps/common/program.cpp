// The frame around every command: finds it, prints help and version, turns exceptions into a line and a status.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench_apps/common/command.h"
#include "bench_apps/common/common_options.h"
#include "bench_apps/common/driver.h"
#include "bench_apps/common/environment.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/suggest.h"

namespace heddle::bench {
namespace {

std::vector<std::string> all_names(const invocation& typed) {
  std::vector<std::string> names = {"help"};
  for (const command& c : typed.commands) names.emplace_back(c.name);
  for (const app_kind& a : typed.apps)  // an app with a command of its own is listed once
    if (std::ranges::find(names, a.name) == names.end()) names.emplace_back(a.name);
  return names;
}

void print_overview(const invocation& typed) {
  std::string text =
      "heddle: fibers placed as the Linux scheduler places tasks, and the benchmarks that show it\n\n"
      "usage: heddle [OPTIONS] COMMAND [OPTIONS]\n";
  const auto row = [&text](std::string_view name, std::string_view summary) {
    text += fmt::format("  {:<12} {}\n", name, summary);
  };
  text += "\nBenchmarks\n";
  for (const app_kind& a : typed.apps) row(a.name, a.summary);
  text += "\nCommands\n";
  for (const command& c : typed.commands)
    if (std::ranges::find(typed.apps, c.name, &app_kind::name) == typed.apps.end()) row(c.name, c.summary);
  row("help COMMAND", "a command's options");
  text += "\nTry\n  heddle schbench --backend both -m 2 -t 4 -r 5\n";
  std::fputs(text.c_str(), stdout);
}

int run_named(const std::string& name, const invocation& typed) {
  for (const command& c : typed.commands)
    if (c.name == name) return c.run(typed);
  for (const app_kind& a : typed.apps)
    if (a.name == name) return run_app(a, typed);
  const auto names = all_names(typed);
  throw usage_error(fmt::format("'{}' is not a command{} (see heddle help)", name, near_text(name, names)));
}

int run_words(const std::vector<std::string>& words, std::span<const command> commands,
              std::span<const app_kind> apps) {
  const size_t cut = find_command(words);
  invocation typed{.before = {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(cut)},
                   .args = {},
                   .commands = commands,
                   .apps = apps,
                   .words = words};
  const auto asked = [&typed](std::string_view option) {
    return std::ranges::find(typed.before, option) != typed.before.end();
  };
  if (asked("--version")) return std::fputs(version_text().c_str(), stdout), exit_done;
  if (asked("--help") || asked("-h")) return print_overview(typed), exit_done;
  if (cut == words.size()) throw usage_error("no command given (see heddle help)");

  typed.args = {words.begin() + static_cast<std::ptrdiff_t>(cut) + 1, words.end()};
  std::string name = words[cut];
  if (name.starts_with("-"))
    throw usage_error(fmt::format("'{}' is not an option that may stand before the command (see heddle help)", name));
  if (name == "help") {
    if (typed.args.empty()) return print_overview(typed), exit_done;
    name = typed.args.front();
    typed.args = {"--help"};
  }
  return run_named(name, typed);
}

}  // namespace

int run_program(const std::vector<std::string>& words, std::span<const command> commands,
                std::span<const app_kind> apps) {
  const auto fail = [](int status, std::string_view what) {
    std::fflush(stdout);
    if (what.starts_with("heddle: ")) what.remove_prefix(8);  // the library's messages name it themselves
    fmt::print(stderr, "heddle: {}\n", what);
    return status;
  };
  try {
    warn_about_unknown_variables();
    const int status = run_words(words, commands, apps);
    // A full disk or a closed stdout shows here at the latest; what was asked for is lost, which is a failure.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw run_error("stdout: could not write all of the output");
    return status;
  } catch (const usage_error& e) {
    return fail(exit_usage, e.what());
  } catch (const capability_error& e) {
    return fail(exit_capability, e.what());
  } catch (const std::bad_alloc&) {
    return fail(exit_failed, "out of memory");
  } catch (const std::exception& e) {
    return fail(exit_failed, e.what());
  }
}

}  // namespace heddle::bench
