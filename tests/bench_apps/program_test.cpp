#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_apps/common/arguments.h"
#include "bench_apps/common/command.h"
#include "bench_apps/common/errors.h"

using namespace heddle::bench;

namespace {

// An app that answers at once, with what its options say: a value, a failure or a signal that arrives meanwhile.
class toy final : public app {
 public:
  void declare(arguments& args) override {
    args.choice("--end", end_, {"well", "badly", "missing", "int", "term"}, "how");
  }
  ordered_json options() const override { return {{"--end", end_}}; }
  nanos run_length() const override { return nanos{0}; }
  run_result run(const run_request& request) override {
    if (end_ == "badly") throw run_error("it broke");
    if (end_ == "missing") throw capability_error("it is not there");
    if (end_ == "int") std::raise(SIGINT);
    if (end_ == "term") std::raise(SIGTERM);
    run_result result;
    result.metrics = {figure("answer_us", static_cast<double>(request.seed), direction::lower)};
    return result;
  }
  std::string original(const run_result&) const override { return "as the tool prints\n"; }
  std::string_view primary_metric() const override { return "answer_us"; }

 private:
  std::string end_ = "well";
};

std::unique_ptr<app> make_toy() { return std::make_unique<toy>(); }
int refuse(const invocation&) { throw usage_error("no"); }
int fine(const invocation&) { return exit_done; }

// stdout or stderr into a file, until end().
class captured {
 public:
  captured(int fd, std::string path) : fd_(fd), saved_(dup(fd)), path_(std::move(path)) {
    std::fflush(nullptr);
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, fd_);
    close(file);
  }
  std::string end() {
    std::fflush(nullptr);
    dup2(saved_, fd_);
    close(saved_);
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    std::remove(path_.c_str());
    return text.str();
  }

 private:
  int fd_;
  int saved_;
  std::string path_;
};

struct outcome {
  int status;
  std::string out;
  std::string err;
};

outcome program(const std::vector<std::string>& words) {
  static constexpr app_kind apps[] = {{"toy", "answers at once", make_toy}};
  static constexpr command commands[] = {{"refuse", "says no", refuse}, {"fine", "says nothing", fine}};
  captured out(STDOUT_FILENO, "program_test.out");
  captured err(STDERR_FILENO, "program_test.err");
  const int status = run_program(words, commands, apps);
  return {status, out.end(), err.end()};
}

std::vector<std::string> toy_words(std::vector<std::string> more) {
  std::vector<std::string> words = {"toy", "--backend", "threads", "--progress", "never"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("program: an unknown command is one line, status 2, and near names") {
  const outcome o = program({"tyo"});
  CHECK(o.status == exit_usage);
  CHECK(o.out.empty());
  CHECK(o.err == "heddle: 'tyo' is not a command; near: toy (see heddle help)\n");
  CHECK(program({}).status == exit_usage);
  CHECK(program({"--bogus", "toy"}).status == exit_usage);
  CHECK(program({"refuse"}).err == "heddle: no\n");
  CHECK(program({"fine"}).status == exit_done);
}

TEST_CASE("program: help and version go to stdout and are no error") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help"}, {"--help"}, {"-h"}, {"help", "toy"}, {"toy", "--help"}, {"--version"}}) {
    const outcome o = program(words);
    CAPTURE(o.out);
    CHECK(o.status == exit_done);
    CHECK(o.err.empty());
    CHECK(o.out.size() > 20);
  }
  CHECK(program({"help", "toy"}).out == program({"toy", "--help"}).out);
  CHECK(program({"help"}).out.find("answers at once") != std::string::npos);
}

TEST_CASE("program: exit statuses say how it ended") {
  CHECK(program(toy_words({})).status == exit_done);
  CHECK(program(toy_words({"--end", "missing"})).status == exit_capability);
  CHECK(program(toy_words({"--end", "int"})).status == exit_interrupted);
  CHECK(program(toy_words({"--end", "term"})).status == exit_terminated);
  const outcome broken = program(toy_words({"--end", "badly"}));
  CHECK(broken.status == exit_failed);
  CHECK(broken.err.find("heddle: toy: threads, run 1: it broke\n") != std::string::npos);
}

TEST_CASE("program: --json - prints the document and nothing else; run i has seed N+i") {
  const outcome o = program(toy_words({"--json", "-", "--repeat", "3", "--seed", "40"}));
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j["ended"] == "complete");
  CHECK(j["command"][0] == "toy");
  REQUIRE(j["cases"][0]["runs"].size() == 3);
  for (int i = 0; i < 3; i++) {
    CHECK(j["cases"][0]["runs"][i]["seed"] == 40 + i);
    CHECK(j["cases"][0]["runs"][i]["metrics"]["answer_us"]["value"] == 40.0 + i);
  }
  CHECK(j["environment"].contains("kernel"));
}

TEST_CASE("program: an interrupted or failed run still leaves a valid, marked file") {
  for (const auto& [end, ended] : {std::pair{"int", "interrupted"}, std::pair{"badly", "failed"}}) {
    const std::string path = "program_test.json";
    program(toy_words({"--end", end, "--repeat", "5", "--json", path}));
    const auto j = nlohmann::json::parse(std::ifstream(path));
    CHECK(j["ended"] == ended);
    CHECK(j["cases"][0]["runs"][0]["ended"] == ended);
    std::remove(path.c_str());
  }
}

TEST_CASE("program: formats") {
  CHECK(program(toy_words({"--format", "original"})).out == "as the tool prints\n");
  CHECK(program(toy_words({"--format", "csv"})).out.starts_with("case,run,seed,metric,value,"));
  CHECK(program(toy_words({"--format", "markdown"})).out.starts_with("|"));
  CHECK(program(toy_words({"--format", "lkml"})).status == exit_usage);
  CHECK(program({"toy", "--machine", "2x4", "--backend", "both"}).status == exit_usage);
}

TEST_CASE("program: output that cannot be written is a failure, and a device stays a device") {
  std::fflush(stdout);
  const int saved = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  dup2(full, STDOUT_FILENO);
  const int help = run_program({"help"}, {}, {});
  dup2(saved, STDOUT_FILENO);
  std::clearerr(stdout);
  close(saved);
  close(full);
  CHECK(help == exit_failed);

  const outcome lost = program(toy_words({"--json", "/dev/full"}));
  CHECK(lost.status == exit_failed);
  CHECK(lost.err.find("/dev/full: could not write the result") != std::string::npos);
  CHECK(program(toy_words({"--json", "/dev/null"})).status == exit_done);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("program: a refused value is named wherever it stands, before anything is printed") {
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"toy", "--seed", "-1"}, "--seed: '-1' is not a whole number"},
           {{"--seed", "-1", "toy"}, "--seed: '-1' is not a whole number"},
           {{"toy", "--machine", "nosuch"}, "--machine: 'nosuch' is not host"},
           {{"toy", "--pin-threads"}, "--pin-threads: "},
           {{"toy", "--costs", "/"}, "--costs: '/' is not a file"},
           {{"toy", "--costs", "/dev/zero"}, "--costs: '/dev/zero' is over 1MiB"}}) {
    const outcome o = program(words);
    CAPTURE(o.err);
    CHECK(o.status == exit_usage);
    CHECK(o.out.empty());
    CHECK(o.err.starts_with("heddle: " + said));
    CHECK(std::ranges::count(o.err, '\n') == 1);
  }
}

TEST_CASE("program: a configuration file is read, and what it misspells is refused") {
  const std::string path = "program_test.ini";
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    const outcome o = program({"toy", "--backend", "threads", "--config", path, "--json", "-"});
    std::remove(path.c_str());
    return o;
  };
  const outcome read = with("repeat = 2\nseed = 7\n");
  REQUIRE(read.status == exit_done);
  CHECK(nlohmann::json::parse(read.out)["cases"][0]["runs"][1]["seed"] == 8);
  for (const char* text : {"repaet = 2\n",
                           "\x7f"
                           "ELF\n",
                           "[a]\nb = 2\n"}) {
    const outcome o = with(text);
    CAPTURE(o.err);
    CHECK(o.status == exit_usage);
    CHECK(std::ranges::count(o.err, '\n') == 1);
  }
  CHECK(program({"toy", "--config", "no such file"}).status == exit_usage);
}
