// Fiber-local storage: a table per fiber, made at first use; on a plain thread one per thread.
#include "runtime/fiber/local.h"

#include <mutex>
#include <utility>
#include <vector>

#include "heddle/detail/runtime.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sync/block.h"

namespace heddle::core {
namespace {

std::mutex keys_lock;
std::vector<detail::local_destructor>& destructors() {
  static auto* list = new std::vector<detail::local_destructor>;  // outlives every thread's table
  return *list;
}

detail::local_destructor destructor_of(uint32_t key) {
  std::lock_guard guard(keys_lock);
  const unbroken whole;
  return destructors()[key];
}

}  // namespace

locals::~locals() {
  // A destructor may make values anew; three rounds, as POSIX does for its keys.
  for (int round = 0; round < 3; round++)
    for (uint32_t key = 0; key < slots.size(); key++)
      if (void* value = std::exchange(slots[key], nullptr)) destructor_of(key)(value);
}

void drop_locals(fiber_record& f) noexcept { delete std::exchange(f.local, nullptr); }

}  // namespace heddle::core

namespace heddle::detail {

using namespace heddle::core;

uint32_t make_local_key(local_destructor destroy) {
  std::lock_guard guard(keys_lock);
  const unbroken whole;
  destructors().push_back(destroy);
  return static_cast<uint32_t>(destructors().size() - 1);
}

void*& local_slot(uint32_t key) {
  static thread_local locals of_thread;
  locals* table = &of_thread;
  if (carrier* c = carrier_now()) {
    fiber_record& me = *c->running();
    if (!me.local) me.local = new locals;
    table = me.local;
  }
  if (key >= table->slots.size()) table->slots.resize(key + 1);
  return table->slots[key];
}

}  // namespace heddle::detail
