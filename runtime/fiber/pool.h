// Fiber records and their stacks: made in slabs, guarded, coloured, recycled hottest first, returned to the system with the
// scheduler. A worker keeps a short list of its own (sched/worker.h) and comes here in batches.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/fiber/fiber.h"

namespace heddle::core {

class fiber_pool {
 public:
  explicit fiber_pool(size_t stack_bytes);
  ~fiber_pool();
  fiber_pool(const fiber_pool&) = delete;
  fiber_pool& operator=(const fiber_pool&) = delete;

  // A chain through `next` of 1 .. want records, hottest first; none whose last fiber is still on its cpu (F1). Throws std::system_error naming the limit that was met.
  waitable* take(size_t want);
  // For tests: so many slabs are still made, the next one fails as if there were no memory.
  void fail_after(uint64_t slabs) noexcept { slabs_until_failure_ = slabs; }
  void give(waitable* chain) noexcept;

  // Every record ever made; for dump and shutdown. Records may change while looked at.
  void for_each(const std::function<void(fiber_record&)>& visit) const;
  // The record whose guard page holds this address, or null. Async-signal-safe.
  const fiber_record* guard_hit(const void* address) const noexcept;

  size_t stack_bytes() const noexcept { return stack_bytes_; }
  const char* guard_kind() const noexcept;

 private:
  struct slab;
  void grow();

  size_t stack_bytes_;
  size_t page_bytes_;
  mutable std::mutex lock_;
  waitable* free_ = nullptr;
  uint64_t made_ = 0;
  uint64_t slabs_until_failure_ = UINT64_MAX;
  std::vector<std::unique_ptr<slab>> slabs_;
  // For the signal handler: a chain that only grows.
  std::atomic<slab*> newest_{nullptr};
};

}  // namespace heddle::core
