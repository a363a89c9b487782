// The binary `heddle`: the list of what it can do. A new command or app is an include and a line here.
#include <string>
#include <vector>

#include "bench_apps/aim7/aim7.h"
#include "bench_apps/commands/presets.h"
#include "bench_apps/commands/settings.h"
#include "bench_apps/commands/topo.h"
#include "bench_apps/common/command.h"
#include "bench_apps/hackbench/hackbench.h"
#include "bench_apps/lab/compare.h"
#include "bench_apps/micro/micro.h"
#include "bench_apps/pgbench/pgbench.h"
#include "bench_apps/schbench/schbench.h"

int main(int argc, char** argv) {
  using namespace heddle::bench;
  static constexpr app_kind apps[] = {
      schbench_app, pgbench_app, hackbench_app, aim7_app, micro_app,
  };
  static const std::vector<command> commands = {
      topo_command, settings_command, presets_command, micro_command, compare_command,
  };
  return run_program({argv + 1, argv + argc}, commands, apps);
}
