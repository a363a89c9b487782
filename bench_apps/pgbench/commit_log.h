// The commit record and its flush. A commit appends; with a flush time it also waits until a flush that began after its
// append has ended. One waiter at a time flushes for all who came before it began (group commit); who came later is the
// next group, led by its first member.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "bench_apps/common/backend.h"

namespace heddle::bench::pgbench {

struct flush_statistics {
  int64_t commits = 0;
  int64_t bytes = 0;
  int64_t flushes = 0;
  int64_t group_max = 0;
};

template <backend B>
class commit_log {
 public:
  explicit commit_log(nanos flush) : flush_(flush) {}

  // `flushed` is the caller's own.
  void commit(B& b, std::string_view record, typename B::word& flushed) {
    std::unique_lock lock(mutex_);
    append(record);
    if (flush_.count() == 0) return;
    waiter self{&flushed};
    waiting_.push_back(&self);
    if (flushing_) {
      lock.unlock();
      flushed.wait();
      if (!self.leads) return;
      lock.lock();
    }
    flushing_ = true;
    std::vector<waiter*> group;
    group.swap(waiting_);
    lock.unlock();
    b.sleep_for(flush_);  // the device works, nobody's CPU does
    lock.lock();
    seen_.flushes++;
    seen_.group_max = std::max(seen_.group_max, static_cast<int64_t>(group.size()));
    waiter* next = waiting_.empty() ? nullptr : waiting_.front();
    flushing_ = next != nullptr;
    if (next) next->leads = true;
    lock.unlock();
    if (next) next->flushed->post();  // first: the device should not wait
    for (waiter* w : group)
      if (w != &self) w->flushed->post();
  }

  size_t waiting() {  // for the next flush
    const std::lock_guard guard(mutex_);
    return waiting_.size();
  }
  flush_statistics seen() const { return seen_; }  // when nobody commits any more

 private:
  // Lives on the stack of the task that waits.
  struct waiter {
    typename B::word* flushed;
    bool leads = false;
  };
  // A segment that is used again, as a server recycles its log files.
  static constexpr size_t segment_bytes = size_t{16} << 20;

  void append(std::string_view record) {
    const size_t at = static_cast<size_t>(seen_.bytes) % segment_bytes,
                 first = std::min(record.size(), segment_bytes - at);
    std::memcpy(segment_.get() + at, record.data(), first);
    std::memcpy(segment_.get(), record.data() + first, record.size() - first);
    seen_.bytes += static_cast<int64_t>(record.size());
    seen_.commits++;
  }

  const nanos flush_;
  typename B::mutex mutex_;
  bool flushing_ = false;
  std::vector<waiter*> waiting_;
  flush_statistics seen_;
  std::unique_ptr<char[]> segment_ = std::make_unique<char[]>(segment_bytes);
};

}  // namespace heddle::bench::pgbench
