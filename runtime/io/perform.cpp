#include "runtime/io/perform.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace heddle::core {
namespace {

int32_t outcome(int64_t n) noexcept { return n < 0 ? -errno : static_cast<int32_t>(n); }
size_t length(const io_request& r) noexcept { return std::min<uint64_t>(r.bytes, 0x7ffff000); }

int32_t poll_now(int fd, short events, int timeout_ms) noexcept {
  pollfd p{fd, events, 0};
  const int n = ::poll(&p, 1, timeout_ms);
  return n > 0 ? p.revents : outcome(n);
}

// Calls that know no "do not block" flag of their own get it from the descriptor, for as long as they take.
template <class Call>
int32_t without_blocking(int fd, Call&& call) noexcept {
  const int before = ::fcntl(fd, F_GETFL);
  if (before >= 0 && !(before & O_NONBLOCK)) ::fcntl(fd, F_SETFL, before | O_NONBLOCK);
  const int32_t n = outcome(call());
  if (before >= 0 && !(before & O_NONBLOCK)) ::fcntl(fd, F_SETFL, before);
  return n;
}

// A socket's call is the same both ways, but for one flag.
int32_t on_socket(const io_request& r, int extra) noexcept {
  const int flags = static_cast<int>(r.flags) | extra;
  switch (r.what) {
    case io_op::recv:
      return outcome(::recv(r.fd, r.address, length(r), flags));
    case io_op::send:
      return outcome(::send(r.fd, r.address, length(r), flags | MSG_NOSIGNAL));
    case io_op::recvmsg:
      return outcome(::recvmsg(r.fd, static_cast<msghdr*>(r.address), flags));
    default:
      return outcome(::sendmsg(r.fd, static_cast<msghdr*>(r.address), flags | MSG_NOSIGNAL));
  }
}

int accept_now(const io_request& r) noexcept {
  return ::accept4(r.fd, static_cast<sockaddr*>(r.address), static_cast<socklen_t*>(r.second),
                   static_cast<int>(r.flags));
}
int connect_now(const io_request& r) noexcept {
  return ::connect(r.fd, static_cast<const sockaddr*>(r.address), static_cast<socklen_t>(r.bytes));
}

int32_t once(const io_request& r) noexcept {
  const char* path = static_cast<const char*>(r.address);
  switch (r.what) {
    case io_op::read:
      return outcome(r.offset < 0 ? ::read(r.fd, r.address, length(r)) : ::pread(r.fd, r.address, length(r), r.offset));
    case io_op::write:
      return outcome(r.offset < 0 ? ::write(r.fd, r.address, length(r))
                                  : ::pwrite(r.fd, r.address, length(r), r.offset));
    case io_op::accept:
      return outcome(accept_now(r));
    case io_op::connect:
      return outcome(connect_now(r));
    case io_op::poll:
      return poll_now(r.fd, static_cast<short>(r.flags), -1);
    case io_op::fsync:
      return outcome(::fsync(r.fd));
    case io_op::fdatasync:
      return outcome(::fdatasync(r.fd));
    case io_op::open:
      return outcome(::openat(r.fd, path, static_cast<int>(r.flags), static_cast<mode_t>(r.bytes)));
    case io_op::stat:
      return outcome(::statx(r.fd, path, static_cast<int>(r.flags), static_cast<unsigned>(r.bytes),
                             static_cast<struct statx*>(r.second)));
    case io_op::unlink:
      return outcome(::unlinkat(r.fd, path, static_cast<int>(r.flags)));
    case io_op::splice: {
      loff_t from = r.offset;
      return outcome(::splice(r.fd, r.offset < 0 ? nullptr : &from, r.other_fd, nullptr, length(r), r.flags));
    }
    default:
      return on_socket(r, 0);
  }
}

}  // namespace

int32_t perform(const io_request& r) noexcept {
  for (;;) {
    const int32_t n = once(r);
    if (n == -EAGAIN && r.what != io_op::open)  // a descriptor that does not block: wait, as the other rungs do
      poll_now(r.fd, readiness(r), -1);
    else if (n == -EINPROGRESS || (n == -EINTR && r.what == io_op::connect))  // a connect goes on after a signal
      return poll_now(r.fd, POLLOUT, -1) < 0 ? -errno : connected(r.fd);
    else if (n != -EINTR)
      return n;
  }
}

int32_t attempt(const io_request& r) noexcept {
  switch (r.what) {
    case io_op::recv:
    case io_op::send:
    case io_op::recvmsg:
    case io_op::sendmsg:
      return on_socket(r, MSG_DONTWAIT);
    case io_op::accept:
      return without_blocking(r.fd, [&] { return accept_now(r); });
    case io_op::connect: {
      const int32_t n = without_blocking(r.fd, [&] { return connect_now(r); });
      return n == -EAGAIN ? io_blocks : n == -EINPROGRESS ? -EAGAIN : n;  // EAGAIN: a unix socket's backlog is full
    }
    case io_op::poll: {
      const int32_t n = poll_now(r.fd, static_cast<short>(r.flags), 0);
      return n == 0 ? -EAGAIN : n;
    }
    case io_op::read:
    case io_op::write: {
      const iovec one{r.address, length(r)};
      int32_t n = outcome(r.what == io_op::read ? ::preadv2(r.fd, &one, 1, r.offset, RWF_NOWAIT)
                                                : ::pwritev2(r.fd, &one, 1, r.offset, RWF_NOWAIT));
      if (n != -EOPNOTSUPP) return n;
      if (poll_now(r.fd, readiness(r), 0) == 0) return -EAGAIN;
      struct stat s;
      if (::fstat(r.fd, &s) == 0 && (S_ISREG(s.st_mode) || S_ISBLK(s.st_mode))) return io_blocks;
      return once(r);
    }
    default:
      return io_blocks;
  }
}

short readiness(const io_request& r) noexcept {
  switch (r.what) {
    case io_op::poll:
      return static_cast<short>(r.flags);
    case io_op::write:
    case io_op::send:
    case io_op::sendmsg:
    case io_op::connect:
      return POLLOUT;
    default:
      return POLLIN;
  }
}

int32_t connected(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? -errno : -error;
}

}  // namespace heddle::core
