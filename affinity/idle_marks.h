// What a CPU says about its idleness: average idle time, idle mask, busy count, idle cores (policy-reference 3.5, 6.1, 6.2). One
// object per CPU, called by whoever runs its worker; it alone writes the CPU's fields, by plain relaxed stores. LLC fields are
// shared: they are looked at first and written only to change them, since every write takes a line that all searchers read.
//
// The life of an idle period, as its owner calls it:
//
//   out_of_work --(newidle search)--> found_work
//        '--------> idles ---> [parks] ---> works        accepts_wakeup: when the fiber that ended it came by a wake-up
//   tick: at every housekeeping point
#pragma once

#include <cstdint>

#include "affinity/board.h"
#include "runtime/base/ids.h"
#include "runtime/base/settings.h"

namespace heddle::core {

class idle_marks {
 public:
  idle_marks(board& state, cpu_id cpu, const settings& set) noexcept;

  // Nothing runnable is left: the idle period starts before the search for work elsewhere, so that searching counts as idle.
  void out_of_work(nanos now) noexcept;
  // That search succeeded: the period is no sample of how long wake-ups stay away.
  void found_work() noexcept;
  // It failed: the CPU is idle and may be chosen.
  void idles(const settings& set) noexcept;
  // It will not tick until woken.
  void parks(const settings& set) noexcept;
  // It runs something again.
  void works(const settings& set, nanos now) noexcept;
  // A woken fiber arrives: the sample of avg_idle, if a period is open.
  void accepts_wakeup(const settings& set, nanos now) noexcept;
  void tick(const settings& set) noexcept;

  // sis_limit=prop_wake: what a wake-up by this CPU may spend on searching.
  int64_t wake_avg_idle_ns(const settings& set, nanos now) noexcept;
  // What a search by this CPU cost; sis_limit=avg_cpu, prop and prop_wake live on it. Others need not measure.
  void searched(nanos cost) noexcept;
  static bool wants_search_cost(const settings& set) noexcept;

  // Writes to lines shared by the LLC, and of these to the mask.
  uint64_t shared_writes() const noexcept { return shared_writes_; }
  uint64_t mask_writes() const noexcept { return mask_writes_; }

 private:
  void mark(bool idle) noexcept;
  void count_idle() noexcept;
  void count_busy() noexcept;
  void offer_core(const settings& set) noexcept;
  void offer_core_id(const settings& set) noexcept;
  void withdraw_core() noexcept;
  bool core_idles(const settings& set, cpu_id cpu) const noexcept;

  board& board_;
  cpu_id cpu_;
  board_row& row_;
  llc_row& llc_;
  bool marked_idle_ = true;    // as the board starts
  bool counted_idle_ = false;  // guards nr_busy: neither direction happens twice in a row
  bool idle_ = false;
  int64_t wake_avg_idle_ns_ = 0;
  int64_t wake_stamp_ns_ = 0;
  uint64_t shared_writes_ = 0;
  uint64_t mask_writes_ = 0;
};

// avg_idle after a sample (3.5). v312: cap is twice max_idle_balance_cost; v39: twice migration_cost.
int64_t next_avg_idle(avg_idle_form_t form, int64_t avg, int64_t sample, int64_t cap) noexcept;

}  // namespace heddle::core
