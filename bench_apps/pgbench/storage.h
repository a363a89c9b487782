// The server's data: heap rows of realistic width behind a search tree, and the history that only grows. Nothing here
// waits or knows a scheduler; who may touch a row is row_locks' business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bench_apps/pgbench/script.h"
#include "bench_apps/pgbench/sql.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::pgbench {

// A search tree over sorted keys, built once: 64 keys to a node, as a page of an index holds keys beside each other. A
// look-up walks from the root and misses the cache where a real one does, on the lower levels.
class search_tree {
 public:
  explicit search_tree(std::vector<int32_t> sorted_keys);
  static constexpr uint32_t none = UINT32_MAX;
  uint32_t find(int32_t key) const;  // the key's place, or none
  int depth() const { return static_cast<int>(levels_.size()); }

 private:
  static constexpr size_t fanout = 64;
  std::vector<std::vector<int32_t>> levels_;  // leaves first; above them the first key of every node below
};

// One row of accounts, tellers or branches: 128 bytes of heap, like PostgreSQL's with their filler column.
struct alignas(64) row {
  int32_t key = 0;
  int32_t branch = 0;
  // The session that holds the row; guarded by the latch of its lock partition.
  uint32_t holder = 0;
  // Written by the holder alone. Relaxed: hand-over goes through the lock, and no script reads a row others may write.
  core::atomic<int64_t> balance{0};
  char filler[84] = {};
};
static_assert(sizeof(row) == 128);

class heap_table {
 public:
  heap_table(int64_t rows, int64_t rows_per_branch);
  row* find(int64_t key);  // null where there is none
  std::span<row> rows() { return {rows_.get(), count_}; }
  int64_t sum() const;

 private:
  size_t count_;
  std::unique_ptr<row[]> rows_;
  search_tree index_;
};

// Appended in chunks, so that growing copies nothing.
class history {
 public:
  struct entry {
    int32_t tid, bid, aid, delta;
    int64_t at_ns;
    char filler[24];
  };
  void append(const entry& e);
  int64_t size() const;
  int64_t sum() const;

 private:
  static constexpr size_t chunk_size = 4096;
  struct chunk {
    size_t used = 0;
    entry entries[chunk_size];
  };
  std::vector<std::unique_ptr<chunk>> chunks_;
};

// What a scale takes in memory, to be refused before it is allocated.
int64_t bytes_for(int64_t scale);

}  // namespace heddle::bench::pgbench
