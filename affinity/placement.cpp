#include "affinity/placement.h"

#include "affinity/decay.h"

namespace heddle::core {
namespace {

uint32_t stored_load(const board_row& row, load_metric_t metric) noexcept {
  switch (metric) {
    case load_metric_t::instant:
      return row.weight_now();
    case load_metric_t::runnable_load:
      return row.runnable_load.load(relaxed);
    case load_metric_t::load_avg:
      return row.load_avg.load(relaxed);
  }
  return 0;
}

}  // namespace

std::string_view to_string(wake_reason reason) noexcept {
#define HEDDLE_NAME(name, meaning) #name,
  static constexpr std::string_view names[] = {HEDDLE_WAKE_REASONS(HEDDLE_NAME)};
#undef HEDDLE_NAME
  return names[static_cast<size_t>(reason)];
}

std::string_view to_string(affine_reason reason) noexcept {
#define HEDDLE_NAME(name, meaning) #name,
  static constexpr std::string_view names[] = {HEDDLE_AFFINE_REASONS(HEDDLE_NAME)};
#undef HEDDLE_NAME
  return names[static_cast<size_t>(reason)];
}

load_reading read_load(const policy_view& v, cpu_id cpu, load_metric_t metric, nanos now) noexcept {
  const board_row& row = v.board.row(cpu);
  load_reading r{stored_load(row, metric), row.util_avg.load(relaxed), row.runnable_avg.load(relaxed)};
  if (v.set.blocked_decay == blocked_decay_t::ilb || !v.board.idle(cpu)) return r;
  const nanos stamp{row.load_stamp.load(relaxed)};
  const auto as_of_now = [&](int64_t average) {
    return static_cast<int64_t>(
        pelt::aged(static_cast<uint64_t>(average), stamp, now, static_cast<int>(v.set.pelt_shift)));
  };
  if (metric != load_metric_t::instant) r.load = as_of_now(r.load);
  return {r.load, as_of_now(r.util), as_of_now(r.runnable)};
}

}  // namespace heddle::core
