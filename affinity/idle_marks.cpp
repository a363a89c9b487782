#include "affinity/idle_marks.h"

#include <algorithm>

#include "affinity/placement.h"

namespace heddle::core {
namespace {

// "-1 all are hot" says nothing about how long an idle period is worth searching in.
int64_t cost_base_ns(const settings& set) noexcept {
  const int64_t cost = migration_cost_ns_of(set);
  return cost >= 0 ? cost : uncalibrated_migration_cost_ns;
}

}  // namespace

idle_marks::idle_marks(board& state, cpu_id cpu, const settings& set) noexcept
    : board_(state), cpu_(cpu), row_(state.row(cpu)), llc_(state.llc_of(cpu)) {
  row_.avg_idle.store(2 * cost_base_ns(set), relaxed);
  row_.max_idle_balance_cost.store(cost_base_ns(set), relaxed);
}

void idle_marks::out_of_work(nanos now) noexcept {
  row_.idle_since.store(now.count(), relaxed);
  row_.state.store(cpu_state::searching, relaxed);
}

void idle_marks::found_work() noexcept {
  row_.idle_since.store(0, relaxed);
  row_.state.store(cpu_state::running, relaxed);
}

void idle_marks::idles(const settings& set) noexcept {
  idle_ = true;
  row_.state.store(cpu_state::polling, relaxed);
  if (set.idle_mark == idle_mark_t::entry) mark(true);
  if (set.nr_busy_mode == nr_busy_mode_t::exact) count_idle();
  offer_core(set);
}

void idle_marks::parks(const settings&) noexcept {
  row_.state.store(cpu_state::parked, relaxed);
  // A parked CPU has no ticks: what a tick would have said is said now.
  mark(true);
  count_idle();
}

void idle_marks::works(const settings& set, nanos now) noexcept {
  row_.state.store(cpu_state::running, relaxed);
  if (!idle_) return;
  idle_ = false;
  if (set.busy_mark == busy_mark_t::exact) mark(board_.only_idle_class(cpu_));
  if (set.nr_busy_mode == nr_busy_mode_t::exact) count_busy();
  withdraw_core();
  wake_avg_idle_ns_ = row_.avg_idle.load(relaxed) / 2;
  wake_stamp_ns_ = now.count();
}

void idle_marks::accepts_wakeup(const settings& set, nanos now) noexcept {
  const int64_t since = row_.idle_since.load(relaxed);
  if (since == 0) return;
  row_.idle_since.store(0, relaxed);
  // Clocks of two CPUs may differ: no period is negative.
  const int64_t sample = std::max<int64_t>(now.count() - since, 0);
  const int64_t cap =
      set.avg_idle_form == avg_idle_form_t::v39 ? 2 * cost_base_ns(set) : 2 * row_.max_idle_balance_cost.load(relaxed);
  row_.avg_idle.store(next_avg_idle(set.avg_idle_form, row_.avg_idle.load(relaxed), sample, cap), relaxed);
}

void idle_marks::tick(const settings& set) noexcept {
  if (board_.idle(cpu_)) {
    mark(true);  // long_idle: it idled through a tick
    if (idle_) count_idle();
    return;
  }
  // CPUs with idle-class fibers only stay targets.
  mark(board_.only_idle_class(cpu_));
  if (!idle_ && set.nr_busy_mode == nr_busy_mode_t::tick) count_busy();
}

int64_t idle_marks::wake_avg_idle_ns(const settings& set, nanos now) noexcept {
  const int64_t ticks = (now.count() - wake_stamp_ns_) / set.tick_ns;
  if (ticks > 0) {
    wake_avg_idle_ns_ >>= std::min<int64_t>(ticks, 63);
    wake_stamp_ns_ += ticks * set.tick_ns;
  }
  return wake_avg_idle_ns_;
}

void idle_marks::searched(nanos cost) noexcept {
  const int64_t avg = llc_.avg_scan_cost.load(relaxed);
  if (const int64_t next = avg + (cost.count() - avg) / 8; next != avg) {
    llc_.avg_scan_cost.store(next, relaxed);
    shared_writes_++;
  }
  wake_avg_idle_ns_ -= std::min(wake_avg_idle_ns_, cost.count());
}

bool idle_marks::wants_search_cost(const settings& set) noexcept {
  return set.sis_limit == sis_limit_t::avg_cpu || set.sis_limit == sis_limit_t::prop ||
         set.sis_limit == sis_limit_t::prop_wake;
}

void idle_marks::mark(bool idle) noexcept {
  if (marked_idle_ == idle) return;
  marked_idle_ = idle;
  board_.mark_idle(cpu_, idle);
  shared_writes_++;
  mask_writes_++;
}

void idle_marks::count_idle() noexcept {
  if (counted_idle_) return;
  counted_idle_ = true;
  llc_.nr_busy.fetch_sub(1, relaxed);
  shared_writes_++;
}

void idle_marks::count_busy() noexcept {
  if (!counted_idle_) return;
  counted_idle_ = false;
  llc_.nr_busy.fetch_add(1, relaxed);
  shared_writes_++;
}

void idle_marks::offer_core(const settings& set) noexcept {
  if (!board_.machine().has_smt()) return;
  if (set.idle_core_id) offer_core_id(set);
  if (llc_.has_idle_cores.load(relaxed) != 0 || !core_idles(set, cpu_)) return;
  llc_.has_idle_cores.store(1, relaxed);
  shared_writes_++;
}

void idle_marks::offer_core_id(const settings& set) noexcept {
  const int32_t stored = llc_.idle_core.load(relaxed);
  if (stored >= 0) return;
  int32_t offered = idle_core_none;
  if (core_idles(set, cpu_)) {
    offered = static_cast<int32_t>(board_.machine().core_of(cpu_).lowest());
  } else {
    for (cpu_id other : board_.machine().llc_of(cpu_))
      if (board_.machine().core_of(other).lowest() == other && core_idles(set, other)) {
        offered = static_cast<int32_t>(other);
        break;
      }
  }
  if (offered == stored) return;
  llc_.idle_core.store(offered, relaxed);
  shared_writes_++;
}

void idle_marks::withdraw_core() noexcept {
  int32_t stored = llc_.idle_core.load(relaxed);
  if (stored < 0 || stored != static_cast<int32_t>(board_.machine().core_of(cpu_).lowest())) return;
  // Exchange: a waker may have taken the core, and another one may have been stored since.
  if (llc_.idle_core.compare_exchange_strong(stored, idle_core_unknown, relaxed)) shared_writes_++;
}

bool idle_marks::core_idles(const settings& set, cpu_id cpu) const noexcept {
  return core_idle(board_.machine(), board_, set, cpu);
}

int64_t next_avg_idle(avg_idle_form_t form, int64_t avg, int64_t sample, int64_t cap) noexcept {
  if (form == avg_idle_form_t::v312) return std::min(avg + (sample - avg) / 8, cap);
  // One long sleep resets the average to its cap; differences round down.
  return sample > cap ? cap : avg + ((sample - avg) >> 3);
}

}  // namespace heddle::core
