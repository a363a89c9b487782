#include "affinity/board.h"

#include <algorithm>

namespace heddle::core {

board::board(const topology& machine)
    : machine_(&machine),
      rows_(std::make_unique<board_row[]>(machine.cpu_count())),
      llcs_(std::make_unique<llc_row[]>(machine.llcs.size())),
      idle_words_(std::make_unique<atomic<uint64_t>[]>((machine.cpu_count() + 63) / 64)),
      word_count_((machine.cpu_count() + 63) / 64) {
  // policy-reference 6.2: the mask starts full; 1.5: everybody counts as busy until it idles; 5.3: the budget starts at the
  // LLC's size, or nothing is searched before the first balance pass.
  for (size_t i = 0; i < machine.cpu_count(); i++) {
    mark_idle(to_cpu(i), true);
    asymmetric_ = asymmetric_ || machine.cpus[i].capacity != machine.cpus[0].capacity;
    capacity_max_ = std::max(capacity_max_, machine.cpus[i].capacity);
  }
  for (size_t i = 0; i < machine.llcs.size(); i++) {
    const cpu_set& span = machine.llcs[i];
    shapes_.push_back({static_cast<int>(span.count()), static_cast<uint32_t>(index_of(span.lowest()) / 64),
                       static_cast<uint32_t>(span.word_count())});
    llcs_[i].nr_busy.store(shapes_[i].size, relaxed);
    llcs_[i].nr_idle_scan.store(shapes_[i].size, relaxed);
  }
}

void board::mark_idle(cpu_id cpu, bool idle) noexcept {
  const uint64_t bit = uint64_t{1} << (index_of(cpu) % 64);
  atomic<uint64_t>& word = idle_words_[index_of(cpu) / 64];
  // Look first: a CPU that is already marked as it wants to be must not write the shared line.
  if (((word.load(relaxed) & bit) != 0) == idle) return;
  if (idle)
    word.fetch_or(bit, relaxed);
  else
    word.fetch_and(~bit, relaxed);
}

}  // namespace heddle::core
