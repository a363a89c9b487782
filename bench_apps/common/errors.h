// The ways a command can end badly, each with its exit status. Thrown anywhere, printed as one line by run_program().
#pragma once

#include <stdexcept>

namespace heddle::bench {

enum exit_status : int {
  exit_done = 0,
  exit_failed = 1,
  exit_usage = 2,
  exit_capability = 3,
  exit_worse = 4,
  exit_interrupted = 130,
  exit_terminated = 143
};

// What the user typed cannot be: says what, which value, and what would be accepted.
struct usage_error : std::runtime_error {
  using runtime_error::runtime_error;
};

// Something that was demanded by name is not available on this system.
struct capability_error : std::runtime_error {
  using runtime_error::runtime_error;
};

// The run itself failed.
struct run_error : std::runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace heddle::bench
