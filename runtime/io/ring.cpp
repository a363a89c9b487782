// The door to liburing: one ring per carrier, made by it at its first operation.
//
// Flags: SINGLE_ISSUER and COOP_TASKRUN, so that completions come without interrupts and yet become visible to others at a stuck
// carrier's next timer interrupt. DEFER_TASKRUN saves some CPU more, but its completions are nobody's but the owner's: only
// with stall_rescue=off. TASKRUN_FLAG tells a poller in user space when an enter would bring something.
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/check.h"
#include "runtime/io/port.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {
namespace {

constexpr uint64_t tag_bell = 1;    // the eventfd by which sleepers are woken
constexpr uint64_t tag_cancel = 2;  // a cancellation's own completion: of no interest
constexpr int refusals =
    16;  // of submissions, in a row; then others have their turn, and stirs() says that more is to be done
constexpr unsigned needed = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL;

void fill(io_uring_sqe& s, const io_request& r) noexcept {
  const auto n = static_cast<unsigned>(std::min<uint64_t>(r.bytes, 0x7ffff000));
  const auto at = static_cast<uint64_t>(r.offset);
  const auto flags = static_cast<int>(r.flags);
  switch (r.what) {
    case io_op::read:
      io_uring_prep_read(&s, r.fd, r.address, n, at);
      break;
    case io_op::write:
      io_uring_prep_write(&s, r.fd, r.address, n, at);
      break;
    case io_op::recv:
      io_uring_prep_recv(&s, r.fd, r.address, n, flags);
      break;
    case io_op::send:
      io_uring_prep_send(&s, r.fd, r.address, n, flags | MSG_NOSIGNAL);
      break;
    case io_op::recvmsg:
      io_uring_prep_recvmsg(&s, r.fd, static_cast<msghdr*>(r.address), r.flags);
      break;
    case io_op::sendmsg:
      io_uring_prep_sendmsg(&s, r.fd, static_cast<msghdr*>(r.address), r.flags | MSG_NOSIGNAL);
      break;
    case io_op::accept:
      io_uring_prep_accept(&s, r.fd, static_cast<sockaddr*>(r.address), static_cast<socklen_t*>(r.second), flags);
      break;
    case io_op::connect:
      io_uring_prep_connect(&s, r.fd, static_cast<sockaddr*>(r.address), static_cast<socklen_t>(r.bytes));
      break;
    case io_op::poll:
      io_uring_prep_poll_add(&s, r.fd, r.flags);
      break;
    case io_op::fsync:
      io_uring_prep_fsync(&s, r.fd, 0);
      break;
    case io_op::fdatasync:
      io_uring_prep_fsync(&s, r.fd, IORING_FSYNC_DATASYNC);
      break;
    case io_op::open:
      io_uring_prep_openat(&s, r.fd, static_cast<const char*>(r.address), flags, static_cast<mode_t>(r.bytes));
      break;
    case io_op::stat:
      io_uring_prep_statx(&s, r.fd, static_cast<const char*>(r.address), flags, static_cast<unsigned>(r.bytes),
                          static_cast<struct statx*>(r.second));
      break;
    case io_op::unlink:
      io_uring_prep_unlinkat(&s, r.fd, static_cast<const char*>(r.address), flags);
      break;
    case io_op::splice:
      io_uring_prep_splice(&s, r.fd, r.offset, r.other_fd, -1, n, r.flags);
      break;
  }
  s.user_data = reinterpret_cast<uint64_t>(&r);
}

class ring final : public port {
 public:
  ring(carrier& c, const io_uring& made, int bell) noexcept : port(c), ring_(made), bell_(bell) {
    io_uring_register_ring_fd(
        &ring_);  // saves a descriptor look-up per enter; older kernels refuse, and nothing is lost
    arm_bell();
  }
  ~ring() {
    io_uring_queue_exit(&ring_);
    ::close(bell_);
  }

  // Ends with nothing left to submit or to reap and the bell armed, so that a sleep that follows can be woken. Bounded: whoever is
  // woken here does not run before the end, so nothing new comes.
  void serve(carrier& c) override {
    take_posted();
    for (int refused = 0; refused < refusals;) {
      submit_queued();
      const unsigned waiting = io_uring_sq_ready(&ring_);
      if (waiting == 0 && !kernel_calls()) {
        if (io_uring_cq_ready(&ring_) == 0) break;
        reap();
        continue;
      }
      at_.runs.load(relaxed)->count.add(counter::io_enters);
      leave(c);
      const int n = waiting ? io_uring_submit(&ring_) : io_uring_get_events(&ring_);
      reenter(*c.home->on, c);
      reap();
      if (n == -EBUSY || n == -EAGAIN) {
        // The completion queue overflowed, or the kernel is short of memory: make room, and again.
        at_.runs.load(relaxed)->count.add(counter::uring_busy_retries);
        leave(c);
        io_uring_get_events(&ring_);
        reenter(*c.home->on, c);
        reap();
        refused++;
      }
    }
    backlog_.store(queue_.first || io_uring_sq_ready(&ring_) != 0, relaxed);
    wake_all(c);
  }

  bool stirs() noexcept override { return posted() || completed() || kernel_calls() || backlog_.load(relaxed); }

  void sleep(nanos deadline) noexcept override {
    io_uring_cqe* first = nullptr;
    __kernel_timespec left{};
    if (deadline != never) {
      const int64_t ns = std::max<int64_t>(0, (deadline - at_.home->on->now()).count());
      left = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    // EINTR, ETIME: an early return is allowed.
    io_uring_wait_cqes(&ring_, &first, 1, deadline == never ? nullptr : &left, nullptr);
  }
  void wake() noexcept override { eventfd_write(bell_, 1); }

 private:
  // Anybody may ask (io_uring_cq_ready reads the owner's index plainly).
  bool completed() const noexcept {
    return std::atomic_ref<unsigned>(*ring_.cq.khead).load(relaxed) !=
           std::atomic_ref<unsigned>(*ring_.cq.ktail).load(acquire);
  }
  bool kernel_calls() const noexcept {
    return (std::atomic_ref<unsigned>(*ring_.sq.kflags).load(relaxed) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) !=
           0;
  }

  void arm_bell() noexcept {
    io_uring_sqe* s = io_uring_get_sqe(&ring_);
    if (!s) return;  // armed again by the next serve that finds room
    io_uring_prep_read(s, bell_, &bell_count_, sizeof bell_count_, 0);
    s->user_data = tag_bell;
    bell_armed_ = true;
  }

  void submit_queued() noexcept {
    if (!bell_armed_) arm_bell();
    while (io_request* r = queue_.first) {
      io_uring_sqe* s = io_uring_get_sqe(&ring_);
      if (!s) break;
      fill(*s, *r);
      queue_.remove(*r);
      flight_.append(*r);
      r->submitted = true;
      at_.runs.load(relaxed)->count.add(counter::io_started);
    }
  }

  // The cancellation precedes in the ring whatever may be at this address later.
  void cancel(io_request& r) noexcept override {
    io_uring_sqe* s = io_uring_get_sqe(&ring_);
    while (!s) {
      io_uring_submit(&ring_);
      s = io_uring_get_sqe(&ring_);
    }
    io_uring_prep_cancel64(s, reinterpret_cast<uint64_t>(&r), 0);
    s->user_data = tag_cancel;
  }

  void reap() noexcept override {
    io_uring_cqe* some[32];
    while (const unsigned n = io_uring_peek_batch_cqe(&ring_, some, 32)) {
      for (unsigned i = 0; i < n; i++) {
        const io_uring_cqe& q = *some[i];
        if (q.user_data == tag_bell)
          bell_armed_ = false;
        else if (q.user_data != tag_cancel)
          end(*reinterpret_cast<io_request*>(q.user_data), q.res);
      }
      io_uring_cq_advance(&ring_, n);
    }
  }

  io_uring ring_;
  int bell_;
  uint64_t bell_count_ = 0;
  bool bell_armed_ = false;
  atomic<bool> backlog_{false};  // the kernel took less than there was
};

}  // namespace

std::unique_ptr<port> make_ring(carrier& c, unsigned entries, bool defer, int& error) {
  constexpr unsigned quiet = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  const unsigned wanted[] = {
      IORING_SETUP_SINGLE_ISSUER | (defer ? IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG : quiet),
      IORING_SETUP_SINGLE_ISSUER | quiet, quiet, 0};
  const int bell = eventfd(0, EFD_CLOEXEC);  // blocking: the ring would answer EAGAIN for one that is not
  if (bell < 0) {
    error = errno;
    return nullptr;
  }
  io_uring made{};
  for (; entries > 0; entries /= 2) {  // a smaller ring where locked memory is short
    for (const unsigned flags : wanted) {
      io_uring_params p{};
      p.flags = flags;
      error = -io_uring_queue_init_params(entries, &made, &p);  // liburing returns it and leaves errno alone
      if (error == 0 && (p.features & needed) != needed) {
        io_uring_queue_exit(&made);
        error = ENOSYS;
      }
      if (error == 0) return std::make_unique<ring>(c, made, bell);
      if (error != EINVAL) break;
    }
    if (error != ENOMEM) break;
  }
  ::close(bell);
  return nullptr;
}

}  // namespace heddle::core
