#include "runtime/sched/waiting.h"

#include <algorithm>
#include <bit>

#include "affinity/placement.h"

namespace heddle::core {

std::optional<reach> nearest_idle(const board& said, cpu_id from, const cpu_set* allowed) noexcept {
  std::optional<reach> best;
  const auto look = [&](size_t first, size_t end) {
    for (size_t word = first; word < end; word++)
      for (uint64_t bits = said.idle_word(word); bits != 0; bits &= bits - 1) {
        const cpu_id cpu = to_cpu(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
        if (cpu == from || !said.idle(cpu) || !allowed_on(allowed, cpu)) continue;
        const reach r = reach_of(said.machine(), from, cpu);
        if (!best || r < *best) best = r;
        if (r == reach::core) return;
      }
  };
  const llc_shape& near = said.shape(said.machine().at(from).llc);
  look(near.first_word, near.end_word);
  if (best && *best <= reach::llc) return best;  // its words hold all that is nearer
  look(0, said.idle_word_count());
  return best;
}

// Ticks are at least tick_ns apart and busy time is all they see: an average over many of them, not a stopwatch.
void count_waiting(scheduler& s, worker& w, int64_t now) noexcept {
  const int64_t since = now - w.watched_until;
  w.watched_until = now;
  const uint32_t nr = w.row->nr.load(relaxed);
  if (nr <= 1 || since <= 0) return;
  w.count.add(counter::wait_ns, static_cast<uint64_t>(since) * (nr - 1));
  if (w.row->movable.load(relaxed) == 0) return;
  static constexpr counter by_reach[] = {counter::idle_while_waiting_core_ns, counter::idle_while_waiting_llc_ns,
                                         counter::idle_while_waiting_node_ns, counter::idle_while_waiting_machine_ns};
  if (const std::optional<reach> r = nearest_idle(s.said, w.cpu, nullptr))
    w.count.add(by_reach[static_cast<size_t>(*r)], static_cast<uint64_t>(since));
}

}  // namespace heddle::core
