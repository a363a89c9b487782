// Runs in blocks: one run of every case, in an order drawn by the seed, so that what drifts is shared by what is compared.
// Where app options are varied, every point has its own blocks; their order is drawn too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench_apps/common/result.h"

namespace heddle::bench::lab {

struct block_plan {
  size_t cases = 1;
  size_t points = 1;
  int64_t repeat = 1;
  uint64_t seed = 1;
  bool warm_up = true;  // one block at every point whose runs are thrown away
};

struct block_run {
  size_t point, which;  // the case
  int64_t block;        // 0.., -1 in the warm-up
  int attempt;          // 0, then 1 and 2 where a block had to be run again
  int64_t runs_done, runs_planned;
};

struct blocks_result {
  // By point, then case: one run per complete block.
  std::vector<std::vector<std::vector<run_result>>> runs;
  int64_t blocks = 0;           // complete ones
  int64_t repeated = 0;         // run again, because of a disturbance or a failure
  int64_t still_disturbed = 0;  // disturbed three times; their runs are kept
  std::string error;            // a run that failed three times; its block is not kept
  bool interrupted = false;     // the block that was under way is not kept
};

inline constexpr int attempts_max = 3;

// `run` makes one run; an interrupted one ends everything.
blocks_result run_blocks(const block_plan& plan, const std::function<run_result(const block_run&)>& run);

}  // namespace heddle::bench::lab
