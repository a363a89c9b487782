#include "bench_apps/common/descriptor_channel.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "bench_apps/common/errors.h"

namespace heddle::bench {
namespace {

// What the program itself needs beside the channels: standard streams, a result file, a ring and its eventfd per worker.
constexpr int64_t spare_descriptors = 64;

}  // namespace

descriptor_ends open_descriptors(descriptor_kind kind) {
  int fds[2] = {-1, -1};
  const bool pipe = kind == descriptor_kind::pipe;
  if ((pipe ? ::pipe(fds) : ::socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) != 0)
    throw run_error(fmt::format("the system refuses a {}: {}", pipe ? "pipe" : "socket pair", std::strerror(errno)));
  return {.read = fds[0], .write = fds[1]};
}

void need_descriptors(int64_t wanted, std::string_view option) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto needed = static_cast<rlim_t>(wanted + spare_descriptors);
  if (limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  if (needed > limit.rlim_max || ::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw run_error(fmt::format("{}: needs {} descriptors, but only {} may be open (see ulimit -n)", option, needed,
                                limit.rlim_max));
}

void ignore_broken_pipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void channel_failed(std::string_view what, int error) {
  throw run_error(fmt::format("{} of a channel: {}", what, std::strerror(error)));
}

size_t plain_read(int fd, std::span<char> into) {
  for (;;) {
    const ssize_t n = ::read(fd, into.data(), into.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) channel_failed("read", errno);
  }
}

void plain_write(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0)
      bytes = bytes.subspan(static_cast<size_t>(n));
    else if (errno != EINTR)
      channel_failed("write", errno);
  }
}

}  // namespace heddle::bench
