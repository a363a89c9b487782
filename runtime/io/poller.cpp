// The rung below io_uring: epoll tells when a descriptor is ready, and whoever waited tries again. One epoll per carrier, one-shot
// interest; several waiters of one descriptor share it.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/io/perform.h"
#include "runtime/io/port.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {
namespace {

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP);

class poller final : public port {
 public:
  poller(carrier& c, int epoll, int bell) noexcept : port(c), epoll_(epoll), bell_(bell) {
    epoll_event e{.events = EPOLLIN | EPOLLET, .data = {.fd = bell_}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, bell_, &e);
  }
  ~poller() {
    ::close(bell_);
    ::close(epoll_);
  }

  bool by_readiness() const noexcept override { return true; }

  void serve(carrier& c) override {
    take_posted();
    while (io_request* r = queue_.first) {
      queue_.remove(*r);
      flight_.append(*r);
      r->submitted = true;
      worker& w = *at_.runs.load(relaxed);
      w.count.add(counter::io_started);
      if (const int32_t refused = watch(r->fd)) end(*r, refused);
    }
    if (flight_.first) reap();
    wake_all(c);
  }

  // An epoll descriptor can be polled itself, by anybody.
  bool stirs() noexcept override {
    if (posted() || queue_.any()) return true;
    if (!flight_.any()) return false;
    pollfd p{epoll_, POLLIN, 0};
    return ::poll(&p, 1, 0) > 0;
  }

  void sleep(nanos deadline) noexcept override {
    timespec left{};
    if (deadline != never) {
      const int64_t ns = std::max<int64_t>(0, (deadline - at_.home->on->now()).count());
      left = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    pollfd p{epoll_, POLLIN, 0};
    ::ppoll(&p, 1, deadline == never ? nullptr : &left, nullptr);
  }
  void wake() noexcept override { eventfd_write(bell_, 1); }

 private:
  // Interest in what the waiters of fd want now; 0 or -errno.
  int32_t watch(int fd) noexcept {
    uint32_t events = 0;
    for (const io_request* r = flight_.first; r; r = r->next)
      if (r->fd == fd) events |= static_cast<uint16_t>(r->flags);
    if (events == 0) return 0;
    epoll_event e{.events = events | EPOLLONESHOT, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &e) == 0) return 0;
    if (errno == ENOENT && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e) == 0) return 0;
    return -errno;
  }

  void cancel(io_request& r) noexcept override { end(r, -ECANCELED); }

  void reap() noexcept override {
    epoll_event some[64];
    for (int n = 64; n == 64;) {
      n = ::epoll_wait(epoll_, some, 64, 0);
      for (int i = 0; i < n; i++)
        if (some[i].data.fd != bell_) ready(some[i].data.fd, some[i].events);
    }
  }

  // Errors and hang-ups concern all waiters.
  void ready(int fd, uint32_t events) noexcept {
    for (io_request* r = flight_.first; r;) {
      io_request* next = r->next;
      const uint32_t wanted = static_cast<uint16_t>(r->flags) | EPOLLERR | EPOLLHUP;
      if (r->fd == fd && (events & wanted)) end(*r, static_cast<int32_t>(events & wanted));
      r = next;
    }
    watch(fd);
  }

  int epoll_, bell_;
};

}  // namespace

std::unique_ptr<port> make_poller(carrier& c, int& error) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const int bell = epoll < 0 ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) {
    error = errno;
    if (epoll >= 0) ::close(epoll);
    return nullptr;
  }
  return std::make_unique<poller>(c, epoll, bell);
}

}  // namespace heddle::core
