// A fiber's stack ends at a guard: the process dies there by SIGSEGV, saying whose it was. In a process of its own, this binary again.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/fiber/context.h"

namespace {

struct ended {
  std::string output;
  bool by_fault;
};

// The child runs the same test case and finds in its environment which fault it is for.
constexpr const char* child_variable = "HEDDLE_TEST_FAULT";

ended run_child(const std::string& fault) {
  char self[4096] = {};
  REQUIRE(realpath("/proc/self/exe", self) != nullptr);
  // A second program: a copy of this one by fork() alone may not start threads under TSan.
  const std::string command =
      std::string(child_variable) + '=' + fault + " exec '" + self + "' --test-case='bug report 8:*' 2>&1";
  FILE* child = popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  ended e{};
  char part[256];
  while (const size_t n = fread(part, 1, sizeof part, child)) e.output.append(part, n);
  const int status = pclose(child);
  e.by_fault = WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) == 128 + SIGSEGV;
  return e;
}

volatile int depth_limit = 1'000'000'000;

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[200];
  frame[depth % 200] = static_cast<char>(depth);
  if (depth >= depth_limit) return 0;
  return recurse(depth + 1) + frame[(depth + 1) % 200];
}

void overflow() {
  heddle::runtime rt({.stack_bytes = 64 * 1024, .read_environment = false});
  std::vector<heddle::fiber<void>> neighbours;
  heddle::counting_semaphore<> gate(0);
  for (int i = 0; i < 100; i++) neighbours.push_back(rt.spawn([&] { gate.acquire(); }));
  rt.spawn({.name = "recursive"}, [] { recurse(0); }).join();
}

void null_access() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

void null_access_in_fiber() {
  heddle::runtime rt({.read_environment = false});
  rt.spawn({.name = "careless"}, null_access).join();
}

void null_access_in_thread() {
  heddle::runtime rt({.read_environment = false});
  null_access();
}

}  // namespace

TEST_CASE("bug report 8: a stack overflow dies at the guard and names the fiber; a null pointer is not called one") {
  if (const char* fault = std::getenv(child_variable)) {
    if (!std::strcmp(fault, "overflow")) overflow();
    if (!std::strcmp(fault, "fiber")) null_access_in_fiber();
    if (!std::strcmp(fault, "thread")) null_access_in_thread();
    std::exit(0);  // nothing happened: the parent will say so
  }
  const ended e = run_child("overflow");
  INFO(e.output);
  CHECK(e.by_fault);
  CHECK(e.output.find("heddle: stack overflow in fiber") != std::string::npos);
  CHECK(e.output.find("'recursive'") != std::string::npos);
  CHECK(e.output.find(HEDDLE_ASAN ? "262144 bytes" : "65536 bytes") != std::string::npos);
  for (const char* fault : {"fiber", "thread"}) {
    const ended other = run_child(fault);
    INFO(other.output);
    CHECK(other.output.find("heddle: stack overflow") == std::string::npos);
#if !HEDDLE_ASAN && !HEDDLE_TSAN  // which end the process in their own way
    CHECK(other.by_fault);
#endif
  }
}
