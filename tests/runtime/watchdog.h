// What the stress tests of the runtime share: a bound on every wait, and the size of a run. No test is decided by a time; the
// watchdog only turns a hang into a failure that shows who waits for what.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include "heddle/runtime.h"

namespace heddle_test {

// Full size where scripts/test --long asks for it, sizes as in the bug reports; else about a second's worth.
inline bool long_run() {
  const char* wanted = std::getenv("HEDDLE_TEST_LONG");
  return wanted && *wanted && *wanted != '0';
}
inline int rounds(int quick, int full) { return long_run() ? full : quick; }

// Ends the process with a dump of the runtime's fibers if it lives longer than `limit`.
class watchdog {
 public:
  explicit watchdog(const heddle::runtime& rt, std::chrono::seconds limit = std::chrono::seconds(300))
      : thread_([this, &rt, limit] { watch(rt, limit); }) {}
  ~watchdog() {
    {
      std::lock_guard guard(lock_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

 private:
  void watch(const heddle::runtime& rt, std::chrono::seconds limit) {
    std::unique_lock guard(lock_);
    if (ended_.wait_for(guard, limit, [this] { return over_; })) return;
    std::fprintf(stderr, "watchdog: %lld s were over; who lives:\n", static_cast<long long>(limit.count()));
    rt.dump(std::cerr);
    for (const auto& [name, value] : rt.stats().counters)
      if (value) std::cerr << name << ' ' << value << '\n';
    std::cerr.flush();
    std::abort();  // doctest names the test
  }

  std::mutex lock_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

inline heddle::runtime_options quiet(size_t workers = 0) { return {.workers = workers, .read_environment = false}; }

// Returns when the dump shows `text` so many times: "waiting on mutex".
inline void await_dump(const heddle::runtime& rt, const char* text, size_t count = 1) {
  for (;;) {
    std::ostringstream out;
    rt.dump(out);
    const std::string all = out.str();
    size_t seen = 0;
    for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) seen++;
    if (seen >= count) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace heddle_test
