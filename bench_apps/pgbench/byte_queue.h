// The `chan` transport: one bounded queue of bytes per direction of a connection, as a socket buffer is. One task writes,
// one reads; bytes are copied in and copied out; a full queue blocks its writer.
//
// B1  `tail_` is written by the writer alone, `head_` by the reader alone. Both count all bytes ever moved; the place in the
//     ring is the count modulo capacity, so full and empty are not confused.
// B2  Bytes up to `tail_` belong to the reader, the rest to the writer. tail_'s store publishes the copied bytes, head_'s
//     store hands the place back: both are at least release and pair with the other side's acquire.
// B3  Before a side sleeps it sets its `*_waits_` flag and then looks again; after a side moved its counter it looks at
//     the other's flag. All four accesses are seq_cst, so at least one of the two sees the other: no wake-up is lost.
//     Whoever turns the flag back to false (exchange) is the one that notifies, so there is one notification per sleep.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/atomic.h"

namespace heddle::bench::pgbench {

// Who sleeps on a queue: a session on its own gate, or a client dispatcher on all its connections at once.
class listener {
 public:
  virtual void notify() = 0;

 protected:
  ~listener() = default;
};

class byte_queue {
 public:
  static constexpr size_t capacity = 16 * 1024;

  byte_queue(listener& reader, listener& writer) : reader_(reader), writer_(writer) {}
  byte_queue(const byte_queue&) = delete;
  byte_queue& operator=(const byte_queue&) = delete;

  // Copies as much as fits; how much that was.
  size_t try_write(std::string_view bytes) {
    const uint64_t tail = tail_.load(core::relaxed);                                       // B1: own counter
    const size_t room = capacity - static_cast<size_t>(tail - head_.load(core::acquire));  // B2
    const size_t count = std::min(room, bytes.size());
    if (count == 0) return 0;
    copy_in(tail, bytes.substr(0, count));
    tail_.store(tail + count, core::seq_cst);  // B2, B3
    if (reader_waits_.load(core::seq_cst) && reader_waits_.exchange(false, core::seq_cst)) reader_.notify();
    return count;
  }

  // Copies what is there, up to the size of `into`; 0 when nothing is.
  size_t try_read(std::span<char> into) {
    const uint64_t head = head_.load(core::relaxed);                             // B1: own counter
    const size_t there = static_cast<size_t>(tail_.load(core::acquire) - head);  // B2
    const size_t count = std::min(there, into.size());
    if (count == 0) return 0;
    copy_out(head, into.first(count));
    head_.store(head + count, core::seq_cst);  // B2, B3
    if (writer_waits_.load(core::seq_cst) && writer_waits_.exchange(false, core::seq_cst)) writer_.notify();
    return count;
  }

  // To be called before sleeping. False: there is something to read (or room to write) after all, and nobody will notify.
  bool reader_sleeps() {
    reader_waits_.store(true, core::seq_cst);                                 // B3
    if (tail_.load(core::seq_cst) == head_.load(core::relaxed)) return true;  // B3, B1
    return !reader_waits_.exchange(false, core::seq_cst);  // lost: the notification is on its way and must be taken
  }
  bool writer_sleeps() {
    writer_waits_.store(true, core::seq_cst);                                            // B3
    if (tail_.load(core::relaxed) - head_.load(core::seq_cst) == capacity) return true;  // B1, B3
    return !writer_waits_.exchange(false, core::seq_cst);
  }

  bool empty() const { return tail_.load(core::acquire) == head_.load(core::acquire); }

 private:
  void copy_in(uint64_t tail, std::string_view bytes) {
    const size_t at = tail % capacity, first = std::min(bytes.size(), capacity - at);
    std::memcpy(ring_.get() + at, bytes.data(), first);
    std::memcpy(ring_.get(), bytes.data() + first, bytes.size() - first);
  }
  void copy_out(uint64_t head, std::span<char> into) const {
    const size_t at = head % capacity, first = std::min(into.size(), capacity - at);
    std::memcpy(into.data(), ring_.get() + at, first);
    std::memcpy(into.data() + first, ring_.get(), into.size() - first);
  }

  alignas(core::cache_line) core::atomic<uint64_t> tail_{0};
  core::atomic<bool> writer_waits_{false};
  alignas(core::cache_line) core::atomic<uint64_t> head_{0};
  core::atomic<bool> reader_waits_{false};
  alignas(core::cache_line) std::unique_ptr<char[]> ring_ = std::make_unique<char[]>(capacity);
  listener& reader_;
  listener& writer_;
};

}  // namespace heddle::bench::pgbench
