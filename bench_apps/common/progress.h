// One line on stderr that says how far a long run is. A thread of its own that wakes four times a second; nothing is shown
// for what takes under two seconds, and nothing is left on the screen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/ids.h"

namespace heddle::bench {

class progress {
 public:
  // auto: only where stderr is a terminal.
  explicit progress(const std::string& mode);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  // What runs now, and how long it should take (zero: nobody knows).
  void begin(const std::string& what, core::nanos expected);
  void end();

 private:
  void loop();
  void show();

  const bool shown_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool active_ = false;
  size_t width_ = 0;  // of the line on the screen
  std::string what_;
  core::nanos expected_{0};
  std::chrono::steady_clock::time_point since_;
  std::thread thread_;
};

}  // namespace heddle::bench
