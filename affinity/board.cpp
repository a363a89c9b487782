#include "affinity/board.h"

namespace heddle::core {

board::board(const topology& machine)
    : machine_(&machine),
      rows_(std::make_unique<board_row[]>(machine.cpu_count())),
      llcs_(std::make_unique<llc_row[]>(machine.llcs.size())),
      idle_words_(std::make_unique<atomic<uint64_t>[]>((machine.cpu_count() + 63) / 64)),
      word_count_((machine.cpu_count() + 63) / 64) {
  // policy-reference 6.2: the mask starts full; 5.3: the budget starts at the LLC's size, or nothing is searched before
  // the first balance pass.
  for (size_t i = 0; i < machine.cpu_count(); i++) mark_idle(to_cpu(i), true);
  for (size_t i = 0; i < machine.llcs.size(); i++)
    llcs_[i].nr_idle_scan.store(static_cast<int32_t>(machine.llcs[i].count()), relaxed);
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
