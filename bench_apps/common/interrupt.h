// SIGINT and SIGTERM end a benchmark early but orderly: what was measured is still written. A second signal kills.
#pragma once

namespace heddle::bench {

// While one lives, the first signal only sets a flag.
class interrupt_guard {
 public:
  interrupt_guard();
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
};

int caught_signal() noexcept;  // 0: none yet
inline bool stop_requested() noexcept { return caught_signal() != 0; }

}  // namespace heddle::bench
