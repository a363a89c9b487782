// Writing on a board what its CPUs would have written.
#pragma once

#include "affinity/board.h"

namespace heddle_test {

// Whatever runs there weighs this much in all.
inline void weighs(heddle::core::board_row& row, uint32_t total) {
  using heddle::core::relaxed;
  row.extra_weight.store(static_cast<int32_t>(total) - static_cast<int32_t>(row.nr.load(relaxed) * 1024), relaxed);
}

}  // namespace heddle_test
