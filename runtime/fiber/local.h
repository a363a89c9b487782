// A fiber's (or thread's) table of fiber_local values.
#pragma once

#include <vector>

#include "runtime/fiber/fiber.h"

namespace heddle::core {

struct locals {
  std::vector<void*> slots;
  ~locals();
};

// At the fiber's end, outside any bracket: runs user destructors.
void drop_locals(fiber_record& f) noexcept;

}  // namespace heddle::core
