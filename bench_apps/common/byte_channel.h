// A bounded queue of bytes inside the process, for any number of writers and one reader: what the transport `chan` is made
// of, and the same code on fibers and on kernel threads. It behaves as a pipe does for messages of up to PIPE_BUF: a message
// goes in whole or its writer waits, bytes are copied in and copied out, the reader sleeps while it is empty.
//
// Everything is under one mutex. A reader is notified when what it waits for arrives, a writer when a message has
// been taken out: each read frees the place of one message, and notifies one writer for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "bench_apps/common/backend.h"

namespace heddle::bench {

template <backend B>
class byte_channel {
 public:
  byte_channel(B& b, size_t capacity)
      : b_(b), capacity_(capacity), ring_(std::make_unique_for_overwrite<char[]>(capacity)) {}

  // Up to `capacity` bytes. True: there was no room and the caller had to wait.
  bool write(std::span<const char> message) {
    std::unique_lock lock(mutex_);
    const bool full = room() < message.size();
    if (full) {
      writers_waiting_++;
      do has_room_.wait(lock);
      while (room() < message.size());
      writers_waiting_--;
    }
    copy_in(message);
    const bool wake = std::exchange(reader_waits_, false);
    lock.unlock();
    if (wake) has_bytes_.notify_one();
    return full;
  }

  // At least one byte, at most what `into` takes; 0 once nothing is left and nobody will write.
  size_t read(std::span<char> into) {
    std::unique_lock lock(mutex_);
    while (head_ == tail_ && !closed_) {
      reader_waits_ = true;
      has_bytes_.wait(lock);
    }
    const size_t count = std::min(static_cast<size_t>(tail_ - head_), into.size());
    if (count > 0) copy_out(into.first(count));
    const bool wake = writers_waiting_ > 0;
    lock.unlock();
    if (wake) has_room_.notify_one();
    return count;
  }

  void close_writing() {
    {
      const std::lock_guard guard(mutex_);
      closed_ = true;
    }
    has_bytes_.notify_one();
  }

 private:
  size_t room() const { return capacity_ - static_cast<size_t>(tail_ - head_); }

  void copy_in(std::span<const char> bytes) {
    const size_t at = tail_ % capacity_, first = std::min(bytes.size(), capacity_ - at);
    b_.touch(ring_.get() + at, first, access::write);
    std::memcpy(ring_.get() + at, bytes.data(), first);
    std::memcpy(ring_.get(), bytes.data() + first, bytes.size() - first);
    tail_ += bytes.size();
  }
  void copy_out(std::span<char> into) {
    const size_t at = head_ % capacity_, first = std::min(into.size(), capacity_ - at);
    b_.touch(ring_.get() + at, first, access::read);
    std::memcpy(into.data(), ring_.get() + at, first);
    std::memcpy(into.data() + first, ring_.get(), into.size() - first);
    head_ += into.size();
  }

  B& b_;
  const size_t capacity_;
  const std::unique_ptr<char[]> ring_;
  typename B::mutex mutex_;
  typename B::condition_variable has_bytes_, has_room_;
  uint64_t head_ = 0, tail_ = 0;  // all bytes ever read and written; the place is the count modulo capacity
  int64_t writers_waiting_ = 0;
  bool reader_waits_ = false;
  bool closed_ = false;
};

}  // namespace heddle::bench
