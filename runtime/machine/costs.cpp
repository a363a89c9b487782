#include "runtime/machine/costs.h"

namespace heddle::core {
namespace {

struct profile {
  int64_t op, switch_, wake, spawn, wake_polling, unpark, park, wake_parked, deep_idle, deep_after;
  int64_t line_core, line_llc, line_node, line_far, refill_overlap;
  int64_t working_set_bytes, core_cache_bytes, smt_pct;
  int64_t tick, probe, place, lb_pass, lock;
};

// A two-socket server of about 3 GHz, from general knowledge of such machines; none was measured for it. Operations, switch, wake and
// spawn: assumed, of the order of `heddle micro`. Lines: a hit in a shared L3 is some 70 cycles, local memory 80-90 ns, a modified
// line of the other socket 110-140 ns. Sleeping and waking: 1 us for the waker of a futex and 4-5 to the sleeper, without idle exit;
// exit latencies of 2, 10 and 40-130 us by depth. A working set of 16 KiB is refilled across sockets in 5-8 us: the migration cost of
// policy-reference 0.3. SMT: two copies of integer work on one core do 1.2 to 1.3 times the work of one.
constexpr profile xeon = {.op = 10,
                          .switch_ = 10,
                          .wake = 25,
                          .spawn = 30,
                          .wake_polling = 150,
                          .unpark = 1'000,
                          .park = 500,
                          .wake_parked = 5'000,
                          .deep_idle = 40'000,
                          .deep_after = 600'000,
                          .line_core = 5,
                          .line_llc = 22,
                          .line_node = 85,
                          .line_far = 130,
                          .refill_overlap = 4,
                          .working_set_bytes = 16 << 10,
                          .core_cache_bytes = 1 << 20,
                          .smt_pct = 160,
                          .tick = 100,
                          .probe = 15,
                          .place = 40,
                          .lb_pass = 150,
                          .lock = 30};

// Assumed likewise: in-order cores of about 1.2 GHz in two clusters, each with an L2 for last cache (the board of the 2016 mails): every instruction
// path is 3-4 times as long, the other cluster is reached through the interconnect, idle states power a core down, there is no SMT.
constexpr profile a53 = {.op = 35,
                         .switch_ = 40,
                         .wake = 90,
                         .spawn = 110,
                         .wake_polling = 300,
                         .unpark = 3'000,
                         .park = 2'000,
                         .wake_parked = 15'000,
                         .deep_idle = 250'000,
                         .deep_after = 2'000'000,
                         .line_core = 10,
                         .line_llc = 30,
                         .line_node = 150,
                         .line_far = 200,
                         .refill_overlap = 2,
                         .working_set_bytes = 8 << 10,
                         .core_cache_bytes = 32 << 10,
                         .smt_pct = 100,
                         .tick = 400,
                         .probe = 40,
                         .place = 150,
                         .lb_pass = 500,
                         .lock = 100};

int64_t or_else(int64_t said, int64_t known) noexcept { return said == automatic ? known : said; }

}  // namespace

machine_costs costs_of(const settings& s) noexcept {
  const profile& p = s.vm_costs == vm_costs_t::a53 ? a53 : xeon;
  const int64_t op = or_else(s.vm_op_ns, p.op), change = or_else(s.vm_switch_ns, p.switch_);
  // By core::op: yield, suspend, wake, spawn, exit, idle, join, sleep, fork, access.
  return {.op = {op + change, op + change, or_else(s.vm_wake_ns, p.wake), or_else(s.vm_spawn_ns, p.spawn), op + change,
                 4 * op + change, op + change, 2 * op + change, op / 2, 0},
          .poll_least = 100,
          .poll_most = 10'000,
          .relax_most = 1'000,
          .park = or_else(s.vm_park_ns, p.park),
          .wake_parked = or_else(s.vm_wake_parked_ns, p.wake_parked),
          .deep_idle = or_else(s.vm_deep_idle_ns, p.deep_idle),
          .deep_after = or_else(s.vm_deep_after_ns, p.deep_after),
          .unpark = or_else(s.vm_unpark_ns, p.unpark),
          .wake_polling = or_else(s.vm_wake_polling_ns, p.wake_polling),
          .line_core = or_else(s.vm_line_core_ns, p.line_core),
          .line_llc = or_else(s.vm_line_llc_ns, p.line_llc),
          .line_node = or_else(s.vm_line_node_ns, p.line_node),
          .line_far = or_else(s.vm_line_far_ns, p.line_far),
          .refill_overlap = or_else(s.vm_refill_overlap, p.refill_overlap),
          .working_set_bytes = static_cast<uint64_t>(or_else(s.vm_working_set_bytes, p.working_set_bytes)),
          .core_cache_bytes = static_cast<uint64_t>(or_else(s.vm_core_cache_bytes, p.core_cache_bytes)),
          .smt_pct = or_else(s.vm_smt_pct, p.smt_pct),
          .tick = or_else(s.vm_tick_ns, p.tick),
          .probe = or_else(s.probe_ns, p.probe),
          .place = or_else(s.place_ns, p.place),
          .balance_pass = or_else(s.lb_pass_ns, p.lb_pass),
          .lock = or_else(s.lock_ns, p.lock)};
}

}  // namespace heddle::core
