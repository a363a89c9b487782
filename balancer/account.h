// Who is charged for the time that passed (design 2b, rule 7): a clock read costs as much as three switches, so a worker
// reads it once per window of up to 64 segments and shares the time equally. Shares are wrong where one fiber of a window
// runs far longer than its neighbours; then everybody in it becomes a suspect, is timed alone the next time it runs, and is
// cleared or not. What a window took beyond the ordinary is withheld until a suspect turns out to have caused it.
//
// Owned by the worker. Per switch: collect(), and when it says so, read the clock and close(). A fiber's suspect mark lies
// in its record; whoever picks a suspect closes the window first, so that it runs in a window of its own.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

// How the time of one window is to be shared.
struct window_verdict {
  nanos each{0};   // charged to every segment
  nanos extra{0};  // to the fiber of a window of one, on top: withheld earlier on its account
  bool suspects =
      false;  // the fibers of this window are suspects from now on, or (window of one) stay so; else cleared
};

// The decisions, without the list.
class account_policy {
 public:
  // `window_limit`: a window should not last longer, or averages become coarse (a tick).
  explicit account_policy(accounting_t mode, nanos window_limit) noexcept
      : exact_(mode == accounting_t::exact), window_limit_(window_limit) {}

  static constexpr uint32_t window_max = 64;
  static constexpr nanos exact_from{500};  // a mean segment this long can afford its own clock read

  // Segments until the clock should be read again.
  uint32_t window() const noexcept { return window_; }
  window_verdict close(uint32_t segments, nanos elapsed, bool lone_suspect) noexcept;

  nanos mean_segment() const noexcept { return nanos{mean_x16_ / 16}; }
  nanos withheld() const noexcept { return withheld_; }
  // Time nobody was charged for: excess for which no fiber was found (an interrupt, a neighbour on the host), roundings.
  nanos foreign() const noexcept { return foreign_; }

 private:
  bool overlong(uint32_t segments, nanos elapsed) const noexcept;
  void learn(uint32_t segments, nanos elapsed) noexcept;

  bool exact_;
  bool learned_ = false;
  uint32_t window_ = 1;
  int64_t mean_x16_ = 0;  // of ordinary segments
  nanos window_limit_;
  nanos withheld_{0};
  nanos foreign_{0};
};

// The list. Handle is whatever the mechanism calls a fiber.
template <class Handle>
class account_window {
 public:
  account_window(accounting_t mode, nanos window_limit) noexcept : policy_(mode, window_limit) {}

  // A segment of `fiber` ended. True: read the clock and close now.
  bool collect(Handle fiber) noexcept {
    list_[count_++] = fiber;
    return count_ >= policy_.window();
  }
  bool empty() const noexcept { return count_ == 0; }
  const account_policy& policy() const noexcept { return policy_; }

  // charge(fiber, ran, suspect): once per segment; `suspect` is the fiber's mark from now on. `lone_suspect`: the window
  // is the one segment of a fiber that was marked.
  template <class Charge>
  void close(nanos elapsed, bool lone_suspect, Charge&& charge) {
    if (count_ == 0) return;
    const window_verdict v = policy_.close(count_, elapsed, lone_suspect && count_ == 1);
    for (uint32_t i = 0; i < count_; i++) charge(list_[i], v.each + v.extra, v.suspects);
    count_ = 0;
  }

 private:
  account_policy policy_;
  uint32_t count_ = 0;
  std::array<Handle, account_policy::window_max> list_{};
};

}  // namespace heddle::core
