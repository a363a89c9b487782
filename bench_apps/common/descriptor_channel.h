// A pipe or a pair of stream sockets as a channel: the transports `pipe` and `socket`. Kernel threads make the plain blocking
// calls, as the original tools do; fibers go through heddle/io.h, which gives their worker to others meanwhile.
//
// Either end may close while somebody waits on the other: the reader sees the end, a writer gets EPIPE as run_error. Roles that
// write from a kernel thread call ignore_broken_pipe() first, or that would be a signal instead.
#pragma once

#include <heddle/io.h>
#include <unistd.h>

#include <span>
#include <string_view>

#include "bench_apps/common/backend.h"
#include "runtime/base/atomic.h"

namespace heddle::bench {

enum class descriptor_kind { pipe, socket };

struct descriptor_ends {
  int read = -1, write = -1;
};
// run_error, with what would help, when the system has no more.
descriptor_ends open_descriptors(descriptor_kind kind);

// Raises the process's own limit where it may; run_error when `wanted` more than a few stay out of reach.
void need_descriptors(int64_t wanted, std::string_view option);

void ignore_broken_pipe();  // for the calling thread
[[noreturn]] void channel_failed(std::string_view what, int error);
size_t plain_read(int fd, std::span<char> into);
void plain_write(int fd, std::span<const char> bytes);

template <backend B>
class descriptor_channel {
 public:
  explicit descriptor_channel(descriptor_kind kind)
      : ends_(open_descriptors(kind)), read_end_(ends_.read), write_end_(ends_.write) {}
  ~descriptor_channel() {
    close_writing();
    close_reading();
  }
  descriptor_channel(const descriptor_channel&) = delete;
  descriptor_channel& operator=(const descriptor_channel&) = delete;

  // False: whether the kernel let us wait is not known here.
  bool write(std::span<const char> bytes) {
    if constexpr (B::kind == backend_kind::threads) {
      plain_write(ends_.write, bytes);
    } else {
      std::error_code error;
      io::write_all(ends_.write, std::as_bytes(bytes), error);
      if (error) channel_failed("write", error.value());
    }
    return false;
  }
  size_t read(std::span<char> into) {
    if constexpr (B::kind == backend_kind::threads) {
      return plain_read(ends_.read, into);
    } else {
      std::error_code error;
      const size_t count = io::read(ends_.read, std::as_writable_bytes(into), error);
      if (error) channel_failed("read", error.value());
      return count;
    }
  }
  void close_writing() { close(write_end_); }
  void close_reading() { close(read_end_); }  // a reader that gives up: its writers must not wait for it

 private:
  static void close(core::atomic<int>& end) {
    if (const int fd = end.exchange(-1); fd >= 0) ::close(fd);
  }

  const descriptor_ends ends_;
  core::atomic<int> read_end_, write_end_;  // -1 once closed
};

}  // namespace heddle::bench
