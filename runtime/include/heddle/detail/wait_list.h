// What every primitive holds: a lock and a list of those who wait. Under the lock everything is plain memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::detail {

struct wait_list {
  std::atomic<uint32_t> lock{0};
  uint32_t size = 0;
  void* head = nullptr;
  void* tail = nullptr;
  wait_list* guard = nullptr;  // whose lock guards this list; null: its own
};

}  // namespace heddle::detail
