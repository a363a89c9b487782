#include "bench_apps/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace heddle::bench {

using namespace std::chrono_literals;

progress::progress(const std::string& mode)
    : shown_(mode == "always" || (mode == "auto" && isatty(STDERR_FILENO) == 1)),
      since_(std::chrono::steady_clock::now()) {
  if (shown_) thread_ = std::thread([this] { loop(); });
}

progress::~progress() {
  if (!shown_) return;
  {
    std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void progress::begin(const std::string& what, core::nanos expected) {
  std::scoped_lock lock(mutex_);
  what_ = what;
  expected_ = expected;
  active_ = true;
}

void progress::end() {
  std::scoped_lock lock(mutex_);
  active_ = false;
  if (width_ > 0) fmt::print(stderr, "\r{:{}}\r", "", width_);
  width_ = 0;
}

void progress::loop() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, 250ms, [this] { return stop_; }))
    if (active_ && std::chrono::steady_clock::now() - since_ > 2s) show();
}

void progress::show() {
  const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
  std::string line = fmt::format("{}  {:.0f} s", what_, elapsed_s);
  if (expected_.count() > 0)
    line += fmt::format(" of about {:.0f} s", std::chrono::duration<double>(expected_).count());
  fmt::print(stderr, "\r{:<{}}", line, width_);
  width_ = line.size();
  std::fflush(stderr);
}

}  // namespace heddle::bench
