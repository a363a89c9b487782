// How much work a nanosecond is. Measured once per process on one pinned CPU and handed to every run of every backend, so
// that all of them do the same work; measured again at the end, because a figure taken at another clock speed is no ruler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/ids.h"

namespace heddle::bench {

using core::nanos;

class calibration {
 public:
  // Takes about 50 ms: the minimum of several tries.
  static calibration measure();

  double ns_per_iteration() const noexcept { return ns_per_iteration_; }
  uint64_t iterations_for(nanos duration) const noexcept {
    return static_cast<uint64_t>(static_cast<double>(duration.count()) / ns_per_iteration_);
  }
  // Measures again; a sentence when it differs by more than 5 %.
  std::optional<std::string> recheck() const;

 private:
  explicit calibration(double ns) : ns_per_iteration_(ns) {}
  double ns_per_iteration_;
};

}  // namespace heddle::bench
