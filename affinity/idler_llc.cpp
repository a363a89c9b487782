#include "affinity/idler_llc.h"

namespace heddle::core {

cpu_id take_idle_core(const policy_view& v, const wakeup& w, int llc) noexcept {
  atomic<int32_t>& stored = v.board.llc(llc).idle_core;
  int32_t core = stored.load(relaxed);
  if (core < 0 || !allowed_on(w.allowed, static_cast<cpu_id>(core))) return cpu_id::none;
  // Exchange, not store: of two wakers one gets the core. Relaxed: the hint carries nothing else.
  if (!stored.compare_exchange_strong(core, idle_core_unknown, relaxed)) return cpu_id::none;
  return static_cast<cpu_id>(core);
}

idler_answer idler_llc(const policy_view& v, const wakeup& w, cpu_id here, cpu_id prev, bool sync) noexcept {
  const cpu_id preferred = sync ? here : prev;
  const cpu_id other = sync ? prev : here;
  for (cpu_id side : {preferred, other}) {
    if (free_for(v, w, side)) return {side};
    const cpu_id core = take_idle_core(v, w, v.machine.at(side).llc);
    if (valid(core)) return {core};
  }
  const int64_t busy_a = v.board.llc_of(preferred).nr_busy.load(relaxed);
  const int64_t busy_b = v.board.llc_of(other).nr_busy.load(relaxed);
  const int64_t size_a = v.board.llc_size(v.machine.at(preferred).llc);
  const int64_t size_b = v.board.llc_size(v.machine.at(other).llc);
  if (busy_a == size_a && busy_b == size_b) return {cpu_id::none, true};
  // Shares, compared by cross multiplication: LLCs differ in size.
  const int64_t difference = busy_b * size_a - busy_a * size_b;
  if (difference == 0) return {};
  return {difference > 0 ? preferred : other};
}

}  // namespace heddle::core
