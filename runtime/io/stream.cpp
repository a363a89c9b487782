// Addresses, and the two classes that most servers need.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "heddle/io.h"

namespace heddle::io {
namespace {

void demand(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::system_category(), what);
}

void set_option(int fd, int level, int option, int value, const char* what) {
  demand(::setsockopt(fd, level, option, &value, sizeof value), what);
}

}  // namespace

endpoint endpoint::ip(std::string_view address, uint16_t port) {
  endpoint e;
  const std::string text(address);
  auto& v4 = reinterpret_cast<sockaddr_in&>(e.storage_);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(e.storage_);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    e.size_ = sizeof v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    e.size_ = sizeof v6;
  } else {
    throw std::invalid_argument("heddle::io::endpoint: '" + text + "' is not a numeric IPv4 or IPv6 address");
  }
  return e;
}

endpoint endpoint::local(std::string_view path) {
  endpoint e;
  auto& un = reinterpret_cast<sockaddr_un&>(e.storage_);
  if (path.empty() || path.size() >= sizeof un.sun_path)
    throw std::invalid_argument("heddle::io::endpoint: a unix socket's path has 1 to " +
                                std::to_string(sizeof un.sun_path - 1) + " bytes");
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.data(), path.size());
  e.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path[0] == '@' ? 0 : 1));
  if (path[0] == '@') un.sun_path[0] = 0;
  return e;
}

uint16_t endpoint::port() const noexcept {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(storage_).sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port);
  return 0;
}

std::string endpoint::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  switch (family()) {
    case AF_INET:
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage_).sin_addr, buffer, sizeof buffer);
      return std::string(buffer) + ":" + std::to_string(port());
    case AF_INET6:
      ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr, buffer, sizeof buffer);
      return "[" + std::string(buffer) + "]:" + std::to_string(port());
    case AF_UNIX: {
      const auto& un = reinterpret_cast<const sockaddr_un&>(storage_);
      const size_t n = size_ - offsetof(sockaddr_un, sun_path);
      if (n > 0 && un.sun_path[0] == 0) return "@" + std::string(un.sun_path + 1, n - 1);
      return un.sun_path;
    }
    default:
      return "";
  }
}

stream stream::connect(const io::endpoint& to, const limit& within) {
  descriptor fd = socket(to.family(), SOCK_STREAM);
  io::connect(fd.get(), to, within);
  return stream(std::move(fd));
}

void stream::no_delay(bool on) { set_option(fd(), IPPROTO_TCP, TCP_NODELAY, on, "TCP_NODELAY"); }

listener::listener(const io::endpoint& at, int backlog) : fd_(socket(at.family(), SOCK_STREAM)) {
  if (at.family() != AF_UNIX) set_option(fd(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  demand(::bind(fd(), at.get(), at.size()), "bind");
  demand(::listen(fd(), backlog), "listen");
}

endpoint listener::endpoint() const {
  io::endpoint e;
  e.size() = io::endpoint::capacity();
  demand(::getsockname(fd(), e.get(), &e.size()), "getsockname");
  return e;
}

}  // namespace heddle::io
