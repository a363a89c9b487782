#include "balancer/shared.h"

#include <algorithm>
#include <functional>

#include "runtime/base/check.h"

namespace heddle::core {

balance_shared::balance_shared(const std::vector<std::unique_ptr<sched_span>>& spans) {
  size_t flags = 0;
  for (const auto& span : spans) {
    entries_.push_back({span.get(), flags});
    flags += span->groups.size();
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const entry& a, const entry& b) { return std::less<>{}(a.span, b.span); });
  flags_ = std::make_unique<atomic<bool>[]>(flags);
  crowded_ = std::make_unique<atomic<bool>[]>(entries_.size());
  for (size_t i = 0; i < entries_.size(); i++) crowded_[i].store(true, relaxed);
}

bool balance_shared::take_token(cpu_id by) noexcept {
  auto nobody = static_cast<int32_t>(cpu_id::none);
  // Relaxed: it limits how many search at once and protects no data.
  return token_holder_.load(relaxed) == nobody &&
         token_holder_.compare_exchange_strong(nobody, static_cast<int32_t>(by), relaxed);
}

void balance_shared::return_token(cpu_id by) noexcept {
  HEDDLE_ASSERT(token_holder_.load(relaxed) == static_cast<int32_t>(by));
  token_holder_.store(static_cast<int32_t>(cpu_id::none), relaxed);
}

void balance_shared::set_imbalanced(const sched_domain& level, size_t k, bool value) noexcept {
  atomic<bool>& f = flag(level, k);
  if (f.load(relaxed) != value) f.store(value, relaxed);
}

void balance_shared::set_crowded(const sched_domain& level, bool value) noexcept {
  atomic<bool>& f = crowded_[index_of(level)];
  if (f.load(relaxed) != value) f.store(value, relaxed);
}

size_t balance_shared::index_of(const sched_domain& level) const noexcept {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), level.shared,
                                   [](const entry& e, const sched_span* s) { return std::less<>{}(e.span, s); });
  HEDDLE_ASSERT(at != entries_.end() && at->span == level.shared);
  return static_cast<size_t>(at - entries_.begin());
}

atomic<bool>& balance_shared::flag(const sched_domain& level, size_t k) const noexcept {
  return flags_[entries_[index_of(level)].first_flag + (level.local_group + k) % level.group_count()];
}

}  // namespace heddle::core
