#include "bench_apps/pgbench/storage.h"

#include <algorithm>
#include <numeric>

namespace heddle::bench::pgbench {

namespace {

std::vector<int32_t> keys_up_to(int64_t rows) {
  std::vector<int32_t> keys(static_cast<size_t>(rows));
  std::iota(keys.begin(), keys.end(), 1);
  return keys;
}

}  // namespace

search_tree::search_tree(std::vector<int32_t> sorted_keys) {
  levels_.push_back(std::move(sorted_keys));
  while (levels_.back().size() > fanout) {
    const std::vector<int32_t>& below = levels_.back();
    std::vector<int32_t> firsts;
    for (size_t i = 0; i < below.size(); i += fanout) firsts.push_back(below[i]);
    levels_.push_back(std::move(firsts));
  }
}

uint32_t search_tree::find(int32_t key) const {
  size_t node = 0;
  for (size_t level = levels_.size(); level-- > 0;) {
    const std::vector<int32_t>& keys = levels_[level];
    const auto first = keys.begin() + static_cast<long>(node * fanout);
    const auto last = keys.begin() + static_cast<long>(std::min(keys.size(), (node + 1) * fanout));
    const auto behind = std::upper_bound(first, last, key);
    if (behind == first) return none;
    node = static_cast<size_t>(behind - keys.begin()) - 1;
  }
  return levels_[0][node] == key ? static_cast<uint32_t>(node) : none;
}

heap_table::heap_table(int64_t rows, int64_t rows_per_branch)
    : count_(static_cast<size_t>(rows)), rows_(std::make_unique<row[]>(count_)), index_(keys_up_to(rows)) {
  for (size_t i = 0; i < count_; i++) {
    rows_[i].key = static_cast<int32_t>(i + 1);
    rows_[i].branch = static_cast<int32_t>(static_cast<int64_t>(i) / rows_per_branch + 1);
  }
}

row* heap_table::find(int64_t key) {
  if (key < 1 || key > INT32_MAX) return nullptr;
  const uint32_t at = index_.find(static_cast<int32_t>(key));
  return at == search_tree::none ? nullptr : &rows_[at];
}

int64_t heap_table::sum() const {
  return std::accumulate(rows_.get(), rows_.get() + count_, int64_t{0},
                         [](int64_t s, const row& r) { return s + r.balance.load(core::relaxed); });
}

void history::append(const entry& e) {
  if (chunks_.empty() || chunks_.back()->used == chunk_size) chunks_.push_back(std::make_unique<chunk>());
  chunk& last = *chunks_.back();
  last.entries[last.used++] = e;
}

int64_t history::size() const {
  return std::accumulate(chunks_.begin(), chunks_.end(), int64_t{0},
                         [](int64_t s, const auto& c) { return s + static_cast<int64_t>(c->used); });
}

int64_t history::sum() const {
  int64_t total = 0;
  for (const auto& c : chunks_)
    for (size_t i = 0; i < c->used; i++) total += c->entries[i].delta;
  return total;
}

int64_t bytes_for(int64_t scale) {
  const int64_t rows = scale * (accounts_per_scale + tellers_per_scale + branches_per_scale);
  return rows * static_cast<int64_t>(sizeof(row) + sizeof(int32_t) + 1);
}

}  // namespace heddle::bench::pgbench
