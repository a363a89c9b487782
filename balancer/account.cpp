#include "balancer/account.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace heddle::core {
namespace {

// A window is over-long beyond this many times what its segments usually take, and beyond the slack that one cache miss or
// one page fault explains: marking a window costs a clock read per fiber in it.
constexpr int64_t overlong_factor = 4;
constexpr nanos overlong_slack{2'000};
constexpr int64_t learn_divisor = 8;

}  // namespace

window_verdict account_policy::close(uint32_t segments, nanos elapsed, bool lone_suspect) noexcept {
  HEDDLE_ASSERT(segments > 0 && segments <= window_max && (!lone_suspect || segments == 1));
  elapsed = std::max(elapsed, nanos{0});
  const bool too_long = overlong(segments, elapsed);
  if (segments == 1) {
    // Timed alone: the charge is exact. The one that runs long is the one that the withheld time belongs to.
    window_verdict v{.each = elapsed, .suspects = too_long && (lone_suspect || window_ > 1)};
    if (too_long && lone_suspect) {
      v.extra = withheld_;
      withheld_ = nanos{0};
    }
    if (!too_long || window_ == 1) learn(1, elapsed);
    return v;
  }
  if (!too_long) {
    learn(segments, elapsed);
    const nanos each = elapsed / segments;
    foreign_ += elapsed - each * segments;
    return {.each = each};
  }
  const nanos each = mean_segment();
  foreign_ += withheld_;  // earlier suspects were all cleared, or have not run since
  withheld_ = elapsed - each * segments;
  return {.each = each, .suspects = true};
}

bool account_policy::overlong(uint32_t segments, nanos elapsed) const noexcept {
  return learned_ && !exact_ && elapsed > overlong_factor * mean_segment() * segments + overlong_slack;
}

void account_policy::learn(uint32_t segments, nanos elapsed) noexcept {
  const int64_t sample = 16 * elapsed.count() / segments;
  if (learned_)
    mean_x16_ += (sample - mean_x16_) / learn_divisor;
  else
    mean_x16_ = sample;
  learned_ = true;
  if (exact_) return;
  const nanos mean = std::max(mean_segment(), nanos{1});
  window_ = mean >= exact_from ? 1 : static_cast<uint32_t>(std::clamp<int64_t>(window_limit_ / mean, 1, window_max));
}

}  // namespace heddle::core
