// What every CPU last said about itself: the only thing a policy reads about others.
//
// B1 A row's `own` line is written by the worker of that CPU (or by whoever claimed it), by plain relaxed stores; all read it
//    relaxed. Nobody infers anything else from it: the board is stale by nature, a wrong answer costs a steal or a detour.
// B2 `pending` is set by a pusher before its push and cleared by the owner with the inbox; it keeps two wakers from choosing
//    one idle CPU (policy-reference 0.1, F05): exchange(1) == 0 is the claim.
// B3 An LLC row is shared by its CPUs; each field says who writes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "affinity/topology.h"
#include "runtime/base/atomic.h"
#include "runtime/base/ids.h"

namespace heddle::core {

// searching: out of work but looking for some elsewhere. Not idle yet: it must not attract wake-ups until the search has failed.
enum class cpu_state : uint32_t { running, searching, polling, parked };

struct alignas(cache_line) board_row {
  // B1: the owner's line.
  atomic<uint32_t> nr{0};             // runnable fibers, the running one included
  atomic<uint32_t> movable{0};        // queued fibers that may leave
  atomic<uint32_t> nr_idle_class{0};  // of nr
  atomic<int32_t> extra_weight{0};    // of these fibers, beyond what as many of nice 0 weigh
  atomic<int64_t> idle_since{0};      // ns; 0: not idle, or the period is not to be counted (3.5)
  atomic<int64_t> avg_idle{1'000'000};
  atomic<int64_t> max_idle_balance_cost{500'000};
  atomic<int64_t> busy_until{0};  // reserved for the monitor: when the current segment started

  // The sum of queued weights now: of nr, so that plain fibers, which come and go fastest, need no second store.
  uint32_t weight_now() const noexcept {
    const int64_t weight = int64_t{nr.load(relaxed)} * 1024 + extra_weight.load(relaxed);
    return static_cast<uint32_t>(std::clamp<int64_t>(weight, 0, UINT32_MAX));
  }

  // B1, written at ticks only: the averages of balancer/pelt.h, saturating, and how far they were accounted. A parked CPU
  // leaves them as they were; who reads them ages them.
  alignas(cache_line) atomic<uint32_t> load_avg{0};  // decayed, blocked members included
  atomic<uint32_t> runnable_load{0};                 // decayed, only members on the queue (the pre-5.7 signal)
  atomic<uint32_t> runnable_avg{0};
  atomic<uint32_t> util_avg{0};
  atomic<uint32_t> misfit_load{0};  // of a running fiber that needs a faster CPU than this one, else 0
  atomic<int64_t> load_stamp{0};    // ns

  // B2: written by others too.
  alignas(cache_line) atomic<uint32_t> pending{0};
  atomic<uint32_t> push_to{0};  // active push: 1 + the CPU that asks for one fiber, 0 none
  // B1, but written at idle transitions only and read together with pending: here it costs a reader no further line.
  atomic<cpu_state> state{cpu_state::parked};
};

inline constexpr int32_t idle_core_unknown = -1;  // the known one became busy, there may be others
inline constexpr int32_t idle_core_none = -2;

struct alignas(cache_line) llc_row {
  atomic<int32_t> nr_busy{0};          // CPUs not idle; entry and exit of idle (exact) or the tick (rate limited)
  atomic<uint32_t> has_idle_cores{0};  // set on idle entry when the whole core idles, cleared by a failed core search
  atomic<int32_t> idle_core{idle_core_unknown};  // 6.1: a core's lowest cpu_id
  atomic<int32_t> nr_idle_scan{0};               // SIS_UTIL budget, periodic balance only
  atomic<int64_t> avg_scan_cost{0};              // ns, the searching CPU's own LLC record
};

// What never changes of an LLC, beside the rows that do: a search reads these in every wake-up.
struct llc_shape {
  int size = 0;
  // Its CPUs' words in a flat bit set: [first_word, end_word).
  uint32_t first_word = 0;
  uint32_t end_word = 0;
};

class board {
 public:
  explicit board(const topology& machine);

  board_row& row(cpu_id cpu) noexcept { return rows_[index_of(cpu)]; }
  const board_row& row(cpu_id cpu) const noexcept { return rows_[index_of(cpu)]; }
  llc_row& llc(int index) noexcept { return llcs_[static_cast<size_t>(index)]; }
  const llc_row& llc(int index) const noexcept { return llcs_[static_cast<size_t>(index)]; }
  llc_row& llc_of(cpu_id cpu) noexcept { return llc(machine_->at(cpu).llc); }
  const llc_row& llc_of(cpu_id cpu) const noexcept { return llc(machine_->at(cpu).llc); }
  const topology& machine() const noexcept { return *machine_; }
  const llc_shape& shape(int llc) const noexcept { return shapes_[static_cast<size_t>(llc)]; }
  int llc_size(int llc) const noexcept { return shape(llc).size; }
  // The machine's CPUs differ in capacity; the largest there is.
  bool asymmetric() const noexcept { return asymmetric_; }
  int capacity_max() const noexcept { return capacity_max_; }

  // B2: makes the CPU's next fiber ours to bring. False: another waker was faster, search again.
  bool claim(cpu_id cpu) noexcept { return row(cpu).pending.exchange(1, acq_rel) == 0; }

  // Candidates for an idle search (6.2), by flat cpu_id: 64 CPUs share a word, by design. A bit may be wrong only in the
  // direction "busy but marked idle".
  uint64_t idle_word(size_t word) const noexcept { return idle_words_[word].load(relaxed); }
  size_t idle_word_count() const noexcept { return word_count_; }
  bool marked_idle(cpu_id cpu) const noexcept {
    return (idle_word(index_of(cpu) / 64) >> (index_of(cpu) % 64) & 1) != 0;
  }
  void mark_idle(cpu_id cpu, bool idle) noexcept;

  // policy-reference 0.1.
  bool idle(cpu_id cpu) const noexcept {
    const board_row& r = row(cpu);
    return r.nr.load(relaxed) == 0 && r.pending.load(relaxed) == 0 && r.state.load(relaxed) != cpu_state::searching;
  }
  bool only_idle_class(cpu_id cpu) const noexcept {
    const board_row& r = row(cpu);
    const uint32_t nr = r.nr.load(relaxed);
    return nr > 0 && nr == r.nr_idle_class.load(relaxed);
  }

 private:
  const topology* machine_;
  std::unique_ptr<board_row[]> rows_;
  std::unique_ptr<llc_row[]> llcs_;
  std::unique_ptr<atomic<uint64_t>[]> idle_words_;
  size_t word_count_;
  std::vector<llc_shape> shapes_;
  bool asymmetric_ = false;
  int capacity_max_ = 0;
};

}  // namespace heddle::core
