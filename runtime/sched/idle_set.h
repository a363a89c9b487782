// Which cpus of an LLC idle, exactly: the mechanism's own set, for the wake chain and for plain threads that want a cpu that
// polls. (The board's idle mask is the policy's, and may be lazy.) Announced after announce_ns of idleness only, so that
// short gaps write nothing shared.
#pragma once

#include <bit>
#include <memory>
#include <vector>

#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

struct alignas(cache_line) idle_set {
  atomic<uint32_t> idle{0};       // how many bits are set; read on every wake and spawn, written on announcements only
  atomic<uint32_t> searching{0};  // at most one of the LLC searches others
  std::vector<cpu_id> members;
  std::unique_ptr<atomic<uint64_t>[]> words;  // by position in members

  void init(std::vector<cpu_id> cpus) {
    members = std::move(cpus);
    words = std::make_unique<atomic<uint64_t>[]>((members.size() + 63) / 64);
  }
  // seq_cst: an announcement is followed by a second look at every source of work (sched/README.md).
  void announce(size_t position) noexcept {
    const uint64_t bit = uint64_t{1} << position % 64;
    if (!(words[position / 64].fetch_or(bit, seq_cst) & bit)) idle.fetch_add(1, seq_cst);
  }
  // True for the one who cleared it: a push per announcement.
  bool withdraw(size_t position) noexcept {
    const uint64_t bit = uint64_t{1} << position % 64;
    if (!(words[position / 64].load(relaxed) & bit) || !(words[position / 64].fetch_and(~bit, seq_cst) & bit))
      return false;
    idle.fetch_sub(1, relaxed);
    return true;
  }
  // The first member for which better(cpu) holds, else any, else none. `except` is skipped.
  template <class Better>
  cpu_id find(cpu_id except, Better&& better) const noexcept {
    cpu_id any = cpu_id::none;
    for (size_t base = 0; base < members.size(); base += 64)
      for (uint64_t rest = words[base / 64].load(relaxed); rest; rest &= rest - 1) {
        const cpu_id cpu = members[base + static_cast<size_t>(std::countr_zero(rest))];
        if (cpu == except) continue;
        if (better(cpu)) return cpu;
        if (!valid(any)) any = cpu;
      }
    return any;
  }
};

}  // namespace heddle::core
