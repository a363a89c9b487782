// Sockets, files, pipes: a fiber that waits gives its worker to others, a plain thread blocks itself. Goes by io_uring where the
// kernel has it for us, else by epoll and helper threads; nothing here depends on which.
//
// Every operation takes a limit: a duration, a time point, a std::stop_token, or several of them. It has two forms: one that
// throws std::system_error, one with a std::error_code. The codes beyond the system's own: std::errc::timed_out,
// operation_canceled (stop token), bad_file_descriptor (closed under the waiter). Both forms throw shutdown_error while the
// fiber's runtime shuts down, and both still return what the kernel had done when a limit struck: no byte is lost to a deadline.
// A broken pipe is an error_code; SIGPIPE is blocked on workers that do I/O.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "heddle/detail/deadline.h"

namespace heddle::io {

// How long an operation may take.
class limit {
 public:
  limit() noexcept = default;
  template <class Rep, class Period>
  limit(const std::chrono::duration<Rep, Period>& how_long) : deadline_ns_(detail::deadline_in(how_long)) {}
  template <class Clock, class Duration>
  limit(const std::chrono::time_point<Clock, Duration>& when) : deadline_ns_(detail::deadline_at(when)) {}
  limit(std::stop_token stop) noexcept : stop_(std::move(stop)) {}
  template <class When>
  limit(const When& when, std::stop_token stop) : limit(when) {
    stop_ = std::move(stop);
  }

  int64_t deadline_ns() const noexcept { return deadline_ns_; }
  const std::stop_token& stop() const noexcept { return stop_; }

 private:
  int64_t deadline_ns_ = std::numeric_limits<int64_t>::max();
  std::stop_token stop_ = std::stop_token();
};

// Owns a file descriptor; closing ends the waits of others for it.
class descriptor {
 public:
  descriptor() noexcept = default;
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A socket's address.
class endpoint {
 public:
  endpoint() noexcept = default;
  // Numeric addresses only ("127.0.0.1", "::1"): names are looked up by blocking calls, which are yours to place. Both throw
  // std::invalid_argument.
  static endpoint ip(std::string_view address, uint16_t port);
  static endpoint local(std::string_view path);  // a unix socket; a leading '@' makes it abstract

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  socklen_t& size() noexcept { return size_; }
  static constexpr socklen_t capacity() noexcept { return sizeof(sockaddr_storage); }
  int family() const noexcept { return storage_.ss_family; }
  uint16_t port() const noexcept;  // 0 where there is none
  std::string text() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

using bytes = std::span<std::byte>;
using const_bytes = std::span<const std::byte>;
inline const_bytes bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

// ---- any descriptor. offset -1: the descriptor's own position. 0 read: the end.
size_t read(int fd, bytes into, std::error_code& error, const limit& within = {}, int64_t offset = -1);
size_t write(int fd, const_bytes from, std::error_code& error, const limit& within = {}, int64_t offset = -1);
// All of it; less only at the end of what there is (then without an error), or with an error.
size_t read_full(int fd, bytes into, std::error_code& error, const limit& within = {}, int64_t offset = -1);
size_t write_all(int fd, const_bytes from, std::error_code& error, const limit& within = {}, int64_t offset = -1);
// The events of ::poll that are there, once one is.
short poll(int fd, short events, std::error_code& error, const limit& within = {});
size_t splice(int from, int to, size_t most, std::error_code& error, const limit& within = {});
void close(int fd, std::error_code& error);

// ---- files
descriptor open(const std::string& path, int flags, mode_t mode, std::error_code& error, const limit& within = {});
void fsync(int fd, std::error_code& error);
void fdatasync(int fd, std::error_code& error);
struct ::statx statx(const std::string& path, std::error_code& error);
void unlink(const std::string& path, std::error_code& error);

// ---- sockets
descriptor socket(int family, int type, std::error_code& error);
descriptor accept(int fd, std::error_code& error, const limit& within = {}, endpoint* peer = nullptr);
void connect(int fd, const endpoint& to, std::error_code& error, const limit& within = {});
size_t recv(int fd, bytes into, std::error_code& error, const limit& within = {}, int flags = 0);
size_t send(int fd, const_bytes from, std::error_code& error, const limit& within = {}, int flags = 0);
size_t recvmsg(int fd, msghdr& message, std::error_code& error, const limit& within = {}, int flags = 0);
size_t sendmsg(int fd, const msghdr& message, std::error_code& error, const limit& within = {}, int flags = 0);
size_t recv_from(int fd, bytes into, endpoint& from, std::error_code& error, const limit& within = {});
size_t send_to(int fd, const_bytes what, const endpoint& to, std::error_code& error, const limit& within = {});
void shutdown(int fd, int how, std::error_code& error) noexcept;

namespace detail {
// f(error), thrown where it is set.
template <class F>
auto checked(const char* what, F&& f) {
  std::error_code error;
  if constexpr (std::is_void_v<decltype(f(error))>) {
    f(error);
    if (error) throw std::system_error(error, what);
  } else {
    auto value = f(error);
    if (error) throw std::system_error(error, what);
    return value;
  }
}
}  // namespace detail

// ---- the throwing forms
inline size_t read(int fd, bytes into, const limit& within = {}, int64_t offset = -1) {
  return detail::checked("read", [&](auto& e) { return read(fd, into, e, within, offset); });
}
inline size_t write(int fd, const_bytes from, const limit& within = {}, int64_t offset = -1) {
  return detail::checked("write", [&](auto& e) { return write(fd, from, e, within, offset); });
}
inline size_t read_full(int fd, bytes into, const limit& within = {}, int64_t offset = -1) {
  return detail::checked("read_full", [&](auto& e) { return read_full(fd, into, e, within, offset); });
}
inline size_t write_all(int fd, const_bytes from, const limit& within = {}, int64_t offset = -1) {
  return detail::checked("write_all", [&](auto& e) { return write_all(fd, from, e, within, offset); });
}
inline short poll(int fd, short events, const limit& within = {}) {
  return detail::checked("poll", [&](auto& e) { return poll(fd, events, e, within); });
}
inline size_t splice(int from, int to, size_t most, const limit& within = {}) {
  return detail::checked("splice", [&](auto& e) { return splice(from, to, most, e, within); });
}
inline descriptor open(const std::string& path, int flags, mode_t mode = 0644, const limit& within = {}) {
  return detail::checked("open", [&](auto& e) { return open(path, flags, mode, e, within); });
}
inline void fsync(int fd) {
  detail::checked("fsync", [&](auto& e) { fsync(fd, e); });
}
inline void fdatasync(int fd) {
  detail::checked("fdatasync", [&](auto& e) { fdatasync(fd, e); });
}
inline struct ::statx statx(const std::string& path) {
  return detail::checked("statx", [&](auto& e) { return statx(path, e); });
}
inline void unlink(const std::string& path) {
  detail::checked("unlink", [&](auto& e) { unlink(path, e); });
}
inline descriptor socket(int family, int type) {
  return detail::checked("socket", [&](auto& e) { return socket(family, type, e); });
}
inline descriptor accept(int fd, const limit& within = {}, endpoint* peer = nullptr) {
  return detail::checked("accept", [&](auto& e) { return accept(fd, e, within, peer); });
}
inline void connect(int fd, const endpoint& to, const limit& within = {}) {
  detail::checked("connect", [&](auto& e) { connect(fd, to, e, within); });
}
inline size_t recv(int fd, bytes into, const limit& within = {}, int flags = 0) {
  return detail::checked("recv", [&](auto& e) { return recv(fd, into, e, within, flags); });
}
inline size_t send(int fd, const_bytes from, const limit& within = {}, int flags = 0) {
  return detail::checked("send", [&](auto& e) { return send(fd, from, e, within, flags); });
}
inline size_t recv_from(int fd, bytes into, endpoint& from, const limit& within = {}) {
  return detail::checked("recv_from", [&](auto& e) { return recv_from(fd, into, from, e, within); });
}
inline size_t send_to(int fd, const_bytes what, const endpoint& to, const limit& within = {}) {
  return detail::checked("send_to", [&](auto& e) { return send_to(fd, what, to, e, within); });
}

// A connected stream socket. One fiber may read while another one writes.
class stream {
 public:
  stream() noexcept = default;
  explicit stream(descriptor fd) noexcept : fd_(std::move(fd)) {}
  static stream connect(const endpoint& to, const limit& within = {});

  int fd() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // At least one byte, or 0 at the end.
  size_t read(bytes into, const limit& within = {}) { return recv(fd(), into, within); }
  size_t read(bytes into, std::error_code& error, const limit& within = {}) { return recv(fd(), into, error, within); }
  size_t read_full(bytes into, const limit& within = {}) { return io::read_full(fd(), into, within); }
  // All of it.
  void write(const_bytes from, const limit& within = {}) { write_all(fd(), from, within); }
  void write(const_bytes from, std::error_code& error, const limit& within = {}) {
    write_all(fd(), from, error, within);
  }
  void no_delay(bool on = true);
  void close() noexcept { fd_ = descriptor(); }

 private:
  descriptor fd_;
};

class listener {
 public:
  // Port 0: any free one, see endpoint(). Throws std::system_error.
  explicit listener(const io::endpoint& at, int backlog = 1024);
  int fd() const noexcept { return fd_.get(); }
  io::endpoint endpoint() const;
  stream accept(const limit& within = {}) { return stream(io::accept(fd(), within)); }
  stream accept(std::error_code& error, const limit& within = {}) { return stream(io::accept(fd(), error, within)); }
  void close() noexcept { fd_ = descriptor(); }

 private:
  descriptor fd_;
};

}  // namespace heddle::io
