// What heddle throws beyond the standard's.
#pragma once

#include <stdexcept>

namespace heddle {

// Thrown by an operation that would wait, or spawn, while its runtime shuts down.
class shutdown_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace heddle
