// The public operations: each names what is to be done in a request on its own frame and runs it.
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "heddle/io.h"
#include "runtime/io/run.h"

namespace heddle::io {

using core::io_op;
using core::io_request;

namespace {

int32_t done(io_request& r, std::error_code& error, const limit& within = {}) {
  const int32_t n = core::run(r, {within.deadline_ns(), &within.stop()});
  if (n < 0)
    error.assign(-n, std::system_category());
  else
    error.clear();
  return n;
}

size_t count(io_request r, std::error_code& error, const limit& within) {
  const int32_t n = done(r, error, within);
  return n < 0 ? 0 : static_cast<size_t>(n);
}

void* writable(const void* p) noexcept { return const_cast<void*>(p); }

// Until all of `whole` has gone through `step(rest)`, an error, or the end.
template <class Span, class Step>
size_t all_of(Span whole, std::error_code& error, Step&& step) {
  size_t moved = 0;
  error.clear();
  while (moved < whole.size()) {
    const size_t n = step(whole.subspan(moved), moved);
    moved += n;
    if (n == 0) break;
  }
  return moved;
}

}  // namespace

size_t read(int fd, bytes into, std::error_code& error, const limit& within, int64_t offset) {
  return count({.what = io_op::read, .fd = fd, .address = into.data(), .bytes = into.size(), .offset = offset}, error,
               within);
}

size_t write(int fd, const_bytes from, std::error_code& error, const limit& within, int64_t offset) {
  return count(
      {.what = io_op::write, .fd = fd, .address = writable(from.data()), .bytes = from.size(), .offset = offset}, error,
      within);
}

size_t read_full(int fd, bytes into, std::error_code& error, const limit& within, int64_t offset) {
  return all_of(into, error, [&](bytes rest, size_t moved) {
    return read(fd, rest, error, within, offset < 0 ? -1 : offset + static_cast<int64_t>(moved));
  });
}

size_t write_all(int fd, const_bytes from, std::error_code& error, const limit& within, int64_t offset) {
  return all_of(from, error, [&](const_bytes rest, size_t moved) {
    return write(fd, rest, error, within, offset < 0 ? -1 : offset + static_cast<int64_t>(moved));
  });
}

short poll(int fd, short events, std::error_code& error, const limit& within) {
  return static_cast<short>(
      count({.what = io_op::poll, .fd = fd, .flags = static_cast<uint16_t>(events)}, error, within));
}

size_t splice(int from, int to, size_t most, std::error_code& error, const limit& within) {
  return count({.what = io_op::splice, .fd = from, .bytes = most, .other_fd = to}, error, within);
}

void close(int fd, std::error_code& error) {
  const int32_t n = core::close_descriptor(fd);
  n < 0 ? error.assign(-n, std::system_category()) : error.clear();
}

descriptor& descriptor::operator=(descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) core::close_descriptor(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}
descriptor::~descriptor() {
  if (fd_ >= 0) core::close_descriptor(fd_);
}

descriptor open(const std::string& path, int flags, mode_t mode, std::error_code& error, const limit& within) {
  io_request r{.what = io_op::open,
               .fd = AT_FDCWD,
               .address = writable(path.c_str()),
               .bytes = mode,
               .flags = static_cast<uint32_t>(flags | O_CLOEXEC)};
  return descriptor(std::max(-1, done(r, error, within)));
}

void fsync(int fd, std::error_code& error) { count({.what = io_op::fsync, .fd = fd}, error, {}); }
void fdatasync(int fd, std::error_code& error) { count({.what = io_op::fdatasync, .fd = fd}, error, {}); }

struct ::statx statx(const std::string& path, std::error_code& error) {
  struct ::statx out{};
  count({.what = io_op::stat,
         .fd = AT_FDCWD,
         .address = writable(path.c_str()),
         .bytes = STATX_BASIC_STATS | STATX_BTIME,
         .second = &out},
        error, {});
  return out;
}

void unlink(const std::string& path, std::error_code& error) {
  count({.what = io_op::unlink, .fd = AT_FDCWD, .address = writable(path.c_str())}, error, {});
}

descriptor socket(int family, int type, std::error_code& error) {
  const int fd = ::socket(family, type | SOCK_CLOEXEC, 0);
  fd < 0 ? error.assign(errno, std::system_category()) : error.clear();
  return descriptor(fd);
}

descriptor accept(int fd, std::error_code& error, const limit& within, endpoint* peer) {
  if (peer) peer->size() = endpoint::capacity();
  io_request r{.what = io_op::accept,
               .fd = fd,
               .address = peer ? peer->get() : nullptr,
               .flags = SOCK_CLOEXEC,
               .second = peer ? &peer->size() : nullptr};
  return descriptor(std::max(-1, done(r, error, within)));
}

void connect(int fd, const endpoint& to, std::error_code& error, const limit& within) {
  count({.what = io_op::connect, .fd = fd, .address = writable(to.get()), .bytes = to.size()}, error, within);
}

size_t recv(int fd, bytes into, std::error_code& error, const limit& within, int flags) {
  return count({.what = io_op::recv,
                .fd = fd,
                .address = into.data(),
                .bytes = into.size(),
                .flags = static_cast<uint32_t>(flags)},
               error, within);
}

size_t send(int fd, const_bytes from, std::error_code& error, const limit& within, int flags) {
  return count({.what = io_op::send,
                .fd = fd,
                .address = writable(from.data()),
                .bytes = from.size(),
                .flags = static_cast<uint32_t>(flags)},
               error, within);
}

size_t recvmsg(int fd, msghdr& message, std::error_code& error, const limit& within, int flags) {
  return count({.what = io_op::recvmsg, .fd = fd, .address = &message, .flags = static_cast<uint32_t>(flags)}, error,
               within);
}

size_t sendmsg(int fd, const msghdr& message, std::error_code& error, const limit& within, int flags) {
  return count({.what = io_op::sendmsg, .fd = fd, .address = writable(&message), .flags = static_cast<uint32_t>(flags)},
               error, within);
}

size_t recv_from(int fd, bytes into, endpoint& from, std::error_code& error, const limit& within) {
  iovec one{into.data(), into.size()};
  msghdr m{};
  m.msg_name = from.get();
  m.msg_namelen = endpoint::capacity();
  m.msg_iov = &one;
  m.msg_iovlen = 1;
  const size_t n = recvmsg(fd, m, error, within);
  from.size() = m.msg_namelen;
  return n;
}

size_t send_to(int fd, const_bytes what, const endpoint& to, std::error_code& error, const limit& within) {
  iovec one{writable(what.data()), what.size()};
  msghdr m{};
  m.msg_name = writable(to.get());
  m.msg_namelen = to.size();
  m.msg_iov = &one;
  m.msg_iovlen = 1;
  return sendmsg(fd, m, error, within);
}

void shutdown(int fd, int how, std::error_code& error) noexcept {
  ::shutdown(fd, how) < 0 ? error.assign(errno, std::system_category()) : error.clear();
}

}  // namespace heddle::io
