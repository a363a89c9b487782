#include "runtime/time/timers.h"

#include <algorithm>
#include <utility>

namespace heddle::core {
namespace {
bool before(const timer& a, const timer& b) noexcept { return a.at != b.at ? a.at < b.at : a.order < b.order; }
}  // namespace

size_t timer_heap::arm(nanos at, fiber_record& fiber, uint64_t epoch) {
  const size_t swept = nodes_.size() >= sweep_at_ ? sweep() : 0;
  nodes_.push_back({at.count(), order_++, &fiber, epoch});
  sift_up(nodes_.size() - 1);
  return swept;
}

timer timer_heap::pop() {
  const timer first = nodes_.front();
  nodes_.front() = nodes_.back();
  nodes_.pop_back();
  if (!nodes_.empty()) sift_down(0);
  return first;
}

std::vector<timer> timer_heap::take_all() {
  sweep_at_ = 64;
  return std::exchange(nodes_, {});
}

// The live ones at least halve the heap or the threshold doubles: each node is looked at O(1) times on average.
size_t timer_heap::sweep() {
  const size_t before_sweep = nodes_.size();
  std::erase_if(nodes_, [](const timer& t) { return t.stale(); });
  for (size_t i = nodes_.size() / 4 + 1; i-- > 0;)
    if (i < nodes_.size()) sift_down(i);
  sweep_at_ = std::max<size_t>(64, nodes_.size() * 2);
  return before_sweep - nodes_.size();
}

void timer_heap::sift_up(size_t i) noexcept {
  const timer moving = nodes_[i];
  for (; i > 0; i = (i - 1) / 4) {
    const size_t parent = (i - 1) / 4;
    if (!before(moving, nodes_[parent])) break;
    nodes_[i] = nodes_[parent];
  }
  nodes_[i] = moving;
}

void timer_heap::sift_down(size_t i) noexcept {
  const timer moving = nodes_[i];
  for (;;) {
    const size_t first = i * 4 + 1;
    if (first >= nodes_.size()) break;
    size_t least = first;
    for (size_t k = first + 1; k < std::min(first + 4, nodes_.size()); k++)
      if (before(nodes_[k], nodes_[least])) least = k;
    if (!before(nodes_[least], moving)) break;
    nodes_[i] = nodes_[least];
    i = least;
  }
  nodes_[i] = moving;
}

}  // namespace heddle::core
