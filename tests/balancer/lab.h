// A machine, its domains and a board to write on, for tests of balance policies.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "affinity/board.h"
#include "affinity/discover.h"
#include "affinity/domains.h"
#include "balancer/classify.h"
#include "tests/affinity/rows.h"

namespace heddle_test {

struct lab {
  explicit lab(const std::string& description)
      : machine(*heddle::core::load_synthetic(description).machine),
        tree(machine),
        state(machine),
        shared(tree.spans()) {}

  heddle::core::topology machine;
  heddle::core::domain_tree tree;
  heddle::core::board state;
  heddle::core::settings set;
  heddle::core::balance_shared shared;

  heddle::core::balance_world world() { return {machine, tree, state, set, shared}; }
  std::span<const heddle::core::sched_domain> chain(int cpu) { return tree.chain(heddle::core::to_cpu(size_t(cpu))); }

  // Equal fibers of weight 1024 that always want to run: one runs, the others wait.
  void put(int cpu, uint32_t nr) {
    using heddle::core::relaxed;
    heddle::core::board_row& row = state.row(heddle::core::to_cpu(size_t(cpu)));
    row.nr.store(nr, relaxed);
    row.movable.store(nr > 0 ? nr - 1 : 0, relaxed);
    weighs(row, nr * 1024);
    row.load_avg.store(nr * 1024, relaxed);
    row.runnable_load.store(nr * 1024, relaxed);
    row.runnable_avg.store(nr * 1024, relaxed);
    row.util_avg.store(nr > 0 ? 1024 : 0, relaxed);
  }
  void put_all(std::initializer_list<uint32_t> nrs) {
    int cpu = 0;
    for (uint32_t nr : nrs) put(cpu++, nr);
  }
};

}  // namespace heddle_test
