#include "affinity/wake_wide.h"

#include <algorithm>

namespace heddle::core {

void record_wakee(const settings& set, wake_memory& waker, uint32_t wakee, nanos now) noexcept {
  // One decay per call, however long ago the last one was: a waker silent for ten periods keeps half its flips.
  if (now.count() > waker.flip_stamp_ns + set.flip_decay_ns) {
    waker.flips = set.flip_decay_mode == flip_decay_mode_t::halve ? waker.flips / 2 : 0;
    waker.flip_stamp_ns = now.count();
  }
  if (waker.last_wakee == wakee) return;
  waker.last_wakee = wakee;
  waker.flips++;
}

bool wake_wide(const settings& set, const wake_memory* waker, const wake_memory* wakee, int64_t factor) noexcept {
  if (waker == nullptr || wakee == nullptr) return false;
  // An LLC of one CPU would make any two fibers wide.
  factor = std::max(factor, set.wake_wide_min_factor);
  const int64_t a = waker->flips;
  const int64_t b = wakee->flips;
  switch (set.wake_wide) {
    case wake_wide_t::off:
      return false;
    case wake_wide_t::v312:
      return b > factor && a > factor * b;
    case wake_wide_t::v43:
      return std::min(a, b) >= factor && std::max(a, b) >= std::min(a, b) * factor;
  }
  return false;
}

bool wide_looks_beyond(const settings& set, const wake_memory& waker, const wake_memory& wakee) noexcept {
  switch (set.wake_wide_idle) {
    case wake_wide_idle_t::off:
      return false;
    case wake_wide_idle_t::dispatcher:
      return wakee.flips > waker.flips;
    case wake_wide_idle_t::both:
      return true;
  }
  return false;
}

}  // namespace heddle::core
