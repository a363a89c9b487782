// A test of the tests (build `interleave`): small workloads on a virtual machine that may switch at every access to an atomic and
// shows stores late. They hold under every seed; and with a fault planted in a protocol (runtime/base/mutants.h) some seed finds it.
// A faulty runtime crashes or hangs, so each try is a process of its own.
#include "runtime/base/mutants.h"

#include <doctest/doctest.h>

#if defined(HEDDLE_INTERLEAVE)

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "runtime/machine/accesses.h"
#include "tests/seed.h"

using namespace heddle::core;
using namespace std::chrono_literals;

namespace {

enum class verdict : int { fine, lost, twice, too_early, unfair, broken, beside };
constexpr const char* verdict_names[] = {
    "fine",           "a fiber never came back", "two in a mutex", "a wait ended early", "a permit was lost",
    "a sum is wrong", "a task was left to wait"};

// What the fibers of one run share.
struct table {
  heddle::mutex lock;
  heddle::condition_variable changed;
  heddle::counting_semaphore<> permits{1};
  heddle::counting_semaphore<> signal{0};
  int inside = 0;
  long counted = 0;
  int waiting_for_change = 0;
  verdict found = verdict::fine;
  void report(verdict v) noexcept {
    if (found == verdict::fine) found = v;
  }
};

void in_mutex(table& t, rng& chance) {
  const std::lock_guard guard(t.lock);
  if (t.inside++ != 0) t.report(verdict::twice);
  if (chance.below(2) != 0) heddle::this_fiber::burn(std::chrono::nanoseconds(chance.below(600)));
  t.counted++;
  if (--t.inside != 0) t.report(verdict::twice);
}

// A timed wait beside somebody who may grant it at the very moment its time is up.
void in_timed_wait(table& t, rng& chance) {
  const auto wait = std::chrono::nanoseconds(200 + chance.below(3'000));
  const auto began = heddle::this_fiber::now();
  if (t.signal.try_acquire_for(wait)) return;
  if (heddle::this_fiber::now() < began + wait) t.report(verdict::too_early);
}

// Tasks nested in tasks: each runs once. Some leaves suspend, so that deques leave with their fibers.
int count_tasks(int depth, uint64_t dice) {
  if (depth == 0) {
    if (dice % 5 == 0) heddle::this_fiber::yield();
    if (dice % 3 == 0) heddle::this_fiber::burn(std::chrono::nanoseconds(dice % 2'000));
    return 1;
  }
  int here = 0, there = 0;
  const auto less = [&](int& sum, uint64_t salt) { sum = count_tasks(depth - 1, rng(dice + salt).next()); };
  heddle::invoke([&] { less(here, 1); }, [&] { less(there, 2); });
  return here + there;
}

// Tasks that wait for each other and for their parent's own call, one of them for another in a ring.
void in_waiting_tasks(rng& chance) {
  heddle::counting_semaphore<> go[3] = {heddle::counting_semaphore<>{0}, heddle::counting_semaphore<>{0},
                                        heddle::counting_semaphore<>{0}};
  const int first = static_cast<int>(chance.below(3));
  const auto link = [&](int i) {
    return [&go, i, first] {
      if (i != first) go[i].acquire();
      go[(i + 1) % 3].release();
    };
  };
  heddle::invoke(link(0), link(1), link(2));
}

// Whoever forks and then computes for long does not keep its tasks from workers that have nothing to do: not the first, which is
// public at once, nor the one behind it. Alone on its machine: the others are at their end.
void beside_idle_worker(table& t, rng& chance) {
  for (int round = 0; round < 6; round++) {
    heddle::spawn([] { heddle::this_fiber::burn(500ns); }).join();
    heddle::this_fiber::burn(std::chrono::nanoseconds(chance.below(3'000)));
    std::atomic<int> begun{0};
    bool late = false;
    heddle::invoke(
        [&] {
          if (begun.load() < 2) heddle::this_fiber::burn(1ms);
          late = begun.load() < 2;
        },
        [&] { begun++; }, [&] { begun++; });
    if (late) t.report(verdict::beside);
  }
}

void one_step(table& t, rng& chance) {
  switch (chance.below(12)) {
    case 9:
    case 10:
      if (const int depth = 1 + static_cast<int>(chance.below(3)); count_tasks(depth, chance.next()) != 1 << depth)
        t.report(verdict::broken);
      return;
    case 11:
      return in_waiting_tasks(chance);
    case 0:
      return heddle::this_fiber::yield();
    case 1:
    case 2:
      return in_mutex(t, chance);
    case 3:
      return in_timed_wait(t, chance);
    case 4:
    case 5:
      return t.signal.release();
    case 6: {
      for (int expected = 1; expected <= 3; expected++) {  // the next one at once, on the stack of the last
        int value = 0;
        auto child = heddle::spawn([&] { value = expected; });
        if (chance.below(2) != 0) heddle::this_fiber::yield();
        child.join();
        if (value != expected) t.report(verdict::broken);
      }
      return;
    }
    case 7: {
      const auto wait = std::chrono::nanoseconds(chance.below(2'000));
      const auto until = heddle::this_fiber::now() + wait;
      heddle::this_fiber::sleep_for(wait);
      if (heddle::this_fiber::now() < until) t.report(verdict::too_early);
      return;
    }
    default:
      return heddle::this_fiber::burn(std::chrono::nanoseconds(chance.below(12'000)));
  }
}

verdict run_one(uint64_t seed) {
  rng chance(seed);
  // Without rescue nobody mends a lost wake-up; with it workers are claimed while they run.
  const bool rescue = chance.below(2) != 0;
  explore_accesses = seed * 2 + 1;
  auto rt = std::make_unique<heddle::runtime>(
      heddle::runtime_options{.machine = heddle::machine::named(chance.below(2) != 0 ? "core:2 pu:1" : "core:3 pu:1"),
                              .settings = rescue ? "claim_after_ns=300,rescue_ns=10000,spin_ns=3000,announce_ns=200"
                                                 : "stall_rescue=off,spin_ns=1000,announce_ns=200",
                              .seed = seed,
                              .log = [](heddle::severity, std::string_view) {},
                              .read_environment = false});
  explore_accesses = 0;
  auto t = std::make_shared<table>();
  const int fibers = 2 + static_cast<int>(chance.below(5));
  const int steps = 3 + static_cast<int>(chance.below(12));
  std::vector<heddle::fiber<void>> all;
  for (int i = 0; i < fibers; i++)
    all.push_back(rt->spawn([t, steps, own = rng(chance.next())]() mutable {
      for (int k = 0; k < steps; k++) one_step(*t, own);
    }));
  for (auto& f : all)
    if (!f.join_until(std::chrono::steady_clock::now() + 20ms)) {  // virtual; a run takes some 300 us
      // Its stack holds what the others use: nothing of this process is of use any more.
      return t->found != verdict::fine ? t->found : verdict::lost;
    }
  if (auto last = rt->spawn([t, own = rng(seed)]() mutable { beside_idle_worker(*t, own); });
      !last.join_until(std::chrono::steady_clock::now() + 20ms))
    return verdict::lost;
  rt.reset();
  return t->found;
}

// ---- tries, each in a child

struct progress {
  volatile uint64_t seed;
  volatile int found;
};

progress* shared_progress() {
  static auto* p = static_cast<progress*>(
      mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return p;
}

struct outcome {
  bool killed = false;
  uint64_t seed = 0;  // that killed it
  uint64_t tries = 0;
  std::string how;
};

outcome try_seeds(mutant m, uint64_t first, uint64_t count) {
  progress& at = *shared_progress();
  at.seed = first;
  at.found = 0;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    // No handler of doctest's, and no core: dying is what is looked for.
    for (int s : {SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE}) signal(s, SIG_DFL);
    std::freopen("/dev/null", "w", stderr);
    planted = m;
    for (uint64_t seed = first; seed < first + count; seed++) {
      at.seed = seed;
      alarm(20);  // real seconds, for a run that does not end even in virtual time
      if (const verdict v = run_one(seed); v != verdict::fine) {
        at.found = static_cast<int>(v);
        _exit(1);
      }
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  outcome o{.killed = status != 0, .seed = at.seed, .tries = at.seed - first + 1, .how = {}};
  if (at.found)
    o.how = verdict_names[at.found];
  else if (WIFSIGNALED(status))
    o.how = WTERMSIG(status) == SIGALRM ? "it ran for ever" : "it crashed, signal " + std::to_string(WTERMSIG(status));
  return o;
}

constexpr uint64_t seed_limit = 10'000;

}  // namespace

TEST_CASE("interleave: the protocols hold under every interleaving that was tried") {
  const uint64_t count = std::getenv("HEDDLE_TEST_LONG") ? 100'000 : 3'000;
  const outcome o = try_seeds(mutant::none, heddle_test::seed() * 1'000'000, count);
  INFO("seed " << o.seed << ": " << o.how);
  CHECK_FALSE(o.killed);
}

TEST_CASE("interleave: each planted fault is found") {
#define HEDDLE_ROW(name, what) {mutant::name, #name, what},
  const struct {
    mutant planted;
    const char* name;
    const char* what;
  } rows[] = {HEDDLE_MUTANTS(HEDDLE_ROW)};
#undef HEDDLE_ROW
  std::printf("%-22s %6s %-26s %s\n", "planted fault", "seed", "killed, for", "rule");
  for (const auto& row : rows) {
    const outcome o = try_seeds(row.planted, 1, seed_limit);
    std::printf("%-22s %6llu %-26s %s\n", row.name, static_cast<unsigned long long>(o.killed ? o.seed : 0),
                o.killed ? o.how.c_str() : "SURVIVED", row.what);
    CHECK_MESSAGE(o.killed, std::string(row.name) << " survived " << seed_limit << " seeds");
  }
}

#endif
