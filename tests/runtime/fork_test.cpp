// fork(): the child has no workers. The parent's runtimes refuse it with a clear error instead of waiting for ever.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "heddle/heddle.h"
#include "runtime/fiber/context.h"

namespace {

bool refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return std::string(e.what()).find("fork()") != std::string::npos;
  } catch (...) {
  }
  return false;
}

// The number of the first check that failed, 0 if none, minus the signal that ended it.
int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

heddle::runtime_options plain() { return {.workers = 2, .read_environment = false}; }

}  // namespace

TEST_CASE("fork: in the child every call on the parent's runtime is refused, and a new runtime works") {
  std::optional<heddle::runtime> rt(std::in_place, plain());
  heddle::counting_semaphore<> gate(0);
  auto waiting = rt->spawn([&] { gate.acquire(); });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (!refused([&] { rt->spawn([] {}).join(); })) _exit(1);
    if (!refused([&] { rt->run([] {}); })) _exit(2);
    if (!refused([&] { waiting.join(); })) _exit(3);
    if (!refused([&] { rt->set("NO_WAKE_AFFINE"); })) _exit(4);
    if (!refused([&] { rt->shutdown(std::chrono::seconds(1)); })) _exit(5);
    waiting.detach();
    rt.reset();   // nothing to wait for
#if !HEDDLE_TSAN  // which ends a child that starts threads
    heddle::runtime own(plain());
    if (own.run([] { return heddle::spawn([] { return 7; }).join(); }) != 7) _exit(6);
#endif
    _exit(0);
  }
  CHECK(status_of(child) == 0);
  gate.release();
  waiting.join();
  CHECK(rt->run([] { return 3; }) == 3);
}

TEST_CASE("fork: a fiber that forks goes on as a plain thread, and cannot return") {
  heddle::runtime rt(plain());
  const pid_t well = rt.run([&]() -> pid_t {
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(20);
    heddle::this_fiber::yield();
    if (!refused([&] { rt.spawn([] {}).detach(); })) _exit(1);
    try {
      heddle::spawn([] {}).detach();
      _exit(2);
    } catch (const std::logic_error&) {
    }
    _exit(0);
  });
  CHECK(status_of(well) == 0);
  const pid_t returning = rt.run([&]() -> pid_t {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      std::signal(SIGABRT, SIG_DFL);
      if (!freopen("/dev/null", "w", stderr)) _exit(1);
    }
    return child;
  });
  CHECK(status_of(returning) == -SIGABRT);
}
