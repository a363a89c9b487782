#include "bench_apps/lab/blocks.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/rng.h"

namespace heddle::bench::lab {

namespace {

std::vector<size_t> drawn_order(size_t count, core::rng& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; i--) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

class conductor {
 public:
  conductor(const block_plan& plan, const std::function<run_result(const block_run&)>& run)
      : plan_(plan), run_(run), random_(plan.seed) {
    result_.runs.assign(plan.points, std::vector<std::vector<run_result>>(plan.cases));
    planned_ = static_cast<int64_t>(plan.cases * plan.points) * (plan.repeat + (plan.warm_up ? 1 : 0));
  }

  blocks_result conduct() {
    for (int64_t block = plan_.warm_up ? -1 : 0; block < plan_.repeat; block++)
      for (size_t point : drawn_order(plan_.points, random_))
        if (!one_block(point, block)) return std::move(result_);
    return std::move(result_);
  }

 private:
  // False: interrupted.
  bool one_block(size_t point, int64_t block) {
    std::vector<run_result> runs(plan_.cases);
    for (int attempt = 0;; attempt++) {
      bool disturbed = false;
      std::string error;
      for (size_t which : drawn_order(plan_.cases, random_)) {
        runs[which] = run_({point, which, block, attempt, done_, planned_});
        done_++;
        if (runs[which].ended == ending::interrupted) return result_.interrupted = true, false;
        if (runs[which].ended == ending::failed) error = runs[which].error;
        disturbed |= !runs[which].disturbances.empty();
      }
      if (block < 0) return true;
      const bool again = (disturbed || !error.empty()) && attempt + 1 < attempts_max;
      if (!again) return keep(point, std::move(runs), disturbed, error), true;
      result_.repeated++;
      planned_ += static_cast<int64_t>(plan_.cases);
    }
  }

  void keep(size_t point, std::vector<run_result> runs, bool disturbed, const std::string& error) {
    if (!error.empty()) {
      result_.error = error;
      return;
    }
    result_.blocks++;
    if (disturbed) result_.still_disturbed++;
    for (size_t i = 0; i < runs.size(); i++) result_.runs[point][i].push_back(std::move(runs[i]));
  }

  const block_plan& plan_;
  const std::function<run_result(const block_run&)>& run_;
  core::rng random_;
  blocks_result result_;
  int64_t done_ = 0;
  int64_t planned_ = 0;
};

}  // namespace

blocks_result run_blocks(const block_plan& plan, const std::function<run_result(const block_run&)>& run) {
  return conductor(plan, run).conduct();
}

}  // namespace heddle::bench::lab
