// A stack overflow dies at the guard page with a paragraph naming the fiber. The handler is installed while a runtime wants it
// and hands every other fault to whoever handled SIGSEGV before.
#pragma once

#include "runtime/fiber/pool.h"

namespace heddle::core {

void watch_stacks(const fiber_pool& pool);
void unwatch_stacks(const fiber_pool& pool);

// Each carrier: an alternate signal stack, since the fiber's own has just ended.
class signal_stack {
 public:
  signal_stack();
  ~signal_stack();
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace heddle::core
