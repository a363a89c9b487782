#include "bench_apps/common/arguments.h"

#include <doctest/doctest.h>

#include <fstream>

#include "bench_apps/common/command.h"
#include "bench_apps/common/common_options.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/suggest.h"

using namespace heddle::bench;
using namespace std::chrono_literals;

namespace {

struct sample {
  int64_t messages = 2;
  nanos runtime = 30s;
  std::string mode = "classic";
  std::vector<std::string> sets;
  arguments args{"sample", "a command for tests"};

  sample() {
    args.count("-m,--message-threads", messages, tasks, "roles");
    args.duration("-r,--runtime", runtime, run_time, "how long");
    args.choice("--mode", mode, {"classic", "v1"}, "which tool");
    args.texts("--set", sets, "a setting");
  }
  std::string refusal(const std::vector<std::string>& words) {
    try {
      args.parse(words);
    } catch (const usage_error& e) {
      return e.what();
    }
    return "";
  }
};

std::string refusal_of(const std::vector<std::string>& before, const std::vector<std::string>& after,
                       common_options& o) {
  arguments args("sample", "");
  declare_common(args, o);
  try {
    parse_command(args, invocation{.before = before, .args = after, .commands = {}, .apps = {}, .words = {}}, o);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("arguments: a refused value names the option as typed, the value and what it may be") {
  CHECK(sample().refusal({"-m", "0"}) == "-m: '0' is not a whole number from 1 to 1000000");
  CHECK(sample().refusal({"--message-threads=1.5"}) ==
        "--message-threads: '1.5' is not a whole number from 1 to 1000000");
  CHECK(sample().refusal({"-r0"}) == "-r: '0' is not a duration from 1ms to 30d");
  CHECK(sample().refusal({"--runtime", "31d"}) == "--runtime: '31d' is not a duration from 1ms to 30d");
  CHECK(sample().refusal({"--mode", "v2"}) == "--mode: 'v2' is not one of classic, v1");
  CHECK(sample().refusal({"-m", ""}) == "-m: '' is not a whole number from 1 to 1000000");
}

TEST_CASE("arguments: a negative number is a refused value, not a missing one") {
  CHECK(sample().refusal({"-r", "-5"}) == "-r: '-5' is not a duration from 1ms to 30d");
  CHECK(sample().refusal({"--runtime", "-5"}) == "--runtime: '-5' is not a duration from 1ms to 30d");
}

TEST_CASE("arguments: an unknown option names near ones") {
  CHECK(sample().refusal({"--rumtime", "3"}).find("near: --runtime") != std::string::npos);
  CHECK(sample().refusal({"word"}).find("'word'") != std::string::npos);
  CHECK(sample().refusal({"-m"}) != "");
}

TEST_CASE("arguments: a scalar given twice takes the last, a list takes all") {
  sample s;
  CHECK(s.args.parse({"-m", "3", "--set", "a=1", "-m", "4", "--set", "b", "-r", "500ms"}));
  CHECK(s.messages == 4);
  CHECK(s.runtime == 500ms);
  CHECK(s.sets == std::vector<std::string>{"a=1", "b"});
}

TEST_CASE("common options: before or after the command, not both") {
  common_options o;
  CHECK(refusal_of({"--repeat", "3"}, {"--seed", "9"}, o) == "");
  CHECK(o.repeat == 3);
  CHECK(o.seed == 9);
  CHECK(refusal_of({"--repeat", "3"}, {"--repeat", "3"}, o).starts_with("--repeat: given both"));
  CHECK(refusal_of({"--set", "a"}, {"--set", "b"}, o).starts_with("--set: given both"));
}

TEST_CASE("common options: the command is the first word that is no common option") {
  CHECK(find_command({"--repeat", "3", "schbench", "-m", "2"}) == 2);
  CHECK(find_command({"schbench", "--repeat", "3"}) == 0);
  CHECK(find_command({"--json", "-", "schbench"}) == 2);
  CHECK(find_command({"--quiet"}) == 1);
  CHECK(find_command({}) == 0);
}

TEST_CASE("common options: settings come as one list, the preset first") {
  common_options o;
  CHECK(refusal_of({}, {"--set", "x=1", "--preset", "k3.9", "--features", "A,NO_B", "--set", "y"}, o) == "");
  CHECK(o.settings_list() == "k3.9,A,NO_B,x=1,y");
}

TEST_CASE("common options: variables count where no option was given, and are refused in their own name") {
  setenv("HEDDLE_SEED", "77", 1);
  common_options o;
  CHECK(refusal_of({}, {}, o) == "");
  CHECK(o.seed == 77);
  CHECK(refusal_of({}, {"--seed", "5"}, o) == "");
  CHECK(o.seed == 5);
  setenv("HEDDLE_SEED", "many", 1);
  CHECK(refusal_of({}, {}, o).starts_with("HEDDLE_SEED: 'many' is not a whole number"));
  unsetenv("HEDDLE_SEED");
}

TEST_CASE("common options: a file gives what the command line does not") {
  const std::string path = "arguments_test.conf";
  std::ofstream(path) << "repeat = 4\nseed = 8\n";
  common_options o;
  CHECK(refusal_of({"--config", path}, {"--seed", "9"}, o) == "");
  CHECK(o.repeat == 4);
  CHECK(o.seed == 9);
  CHECK(refusal_of({"--config", "no such file"}, {}, o) != "");
  std::remove(path.c_str());
}

TEST_CASE("suggest: slips are found, strangers are not") {
  const std::vector<std::string> names = {"topo", "settings", "schbench", "pgbench", "compare"};
  CHECK(nearest("tpoo", names) == std::vector<std::string>{"topo"});
  CHECK(nearest("sch", names) == std::vector<std::string>{"schbench"});
  CHECK(nearest("pgbnch", names) == std::vector<std::string>{"pgbench"});
  CHECK(nearest("zebra", names).empty());
}
