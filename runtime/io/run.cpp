#include "runtime/io/run.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "heddle/detail/errors.h"
#include "runtime/io/helpers.h"
#include "runtime/io/perform.h"
#include "runtime/io/port.h"
#include "runtime/machine/host.h"
#include "runtime/sched/inbox.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/suspend.h"
#include "runtime/sync/block.h"

namespace heddle::core {

// What a scheduler's ports share: which rung it is on, found out by the first, and the helpers.
struct io_shared {
  std::once_flag chosen;
  bool ring = false;
  helpers blocking;
};

std::shared_ptr<io_shared> make_io_shared() { return std::make_shared<io_shared>(); }

namespace {

constexpr int severity_warning = 1;

std::string remedy(int error) {
  switch (error) {
    case EPERM:
      return "sysctl kernel.io_uring_disabled or a seccomp profile forbids it";
    case ENOSYS:
      return "this kernel lacks it, or a seccomp profile hides it";
    case ENOMEM:
      return "locked memory is short: ulimit -l";
    case EMFILE:
    case ENFILE:
      return "descriptors are short: ulimit -n";
    default:
      return std::strerror(error);
  }
}

// A write to a broken pipe is to be an error of that operation, not the end of the process: the ring writes in our name.
void block_sigpipe() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

std::unique_ptr<port> climb(carrier& c, int& error) {
  scheduler& s = *c.home;
  const settings& rule = *s.rules.load(acquire);
  io_shared& io = *s.io;
  std::unique_ptr<port> made;
  const auto ring = [&] { return make_ring(c, static_cast<unsigned>(rule.ring_entries), !rule.stall_rescue, error); };
  bool first = false;
  std::call_once(io.chosen, [&] {
    first = true;
    if (rule.io == io_t::epoll) return;
    made = ring();
    io.ring = made != nullptr;
    if (made || rule.io == io_t::uring) return;
    const char* name = strerrorname_np(error);
    s.log(severity_warning, std::string("io_uring: ") + (name ? name : "?") + " (" + remedy(error) +
                                "); I/O goes by epoll and helper threads");
  });
  if (!first && (io.ring || rule.io == io_t::uring)) made = ring();
  if (!made && rule.io != io_t::uring) made = make_poller(c, error);  // a later carrier may find descriptors short
  return made;
}

// Null and the reason.
port* port_of(carrier& c, int& error) {
  if (io_port* p = c.port.load(relaxed)) return static_cast<port*>(p);
  std::unique_ptr<port> made = climb(c, error);
  if (!made) return nullptr;
  block_sigpipe();
  c.port.store(made.get(), release);
  return made.release();
}

struct stopper {
  io_request* r;
  void operator()() const noexcept {
    r->stopped.store(true, seq_cst);  // pairs with the fiber's look after it opened the epoch
    const uint64_t word = r->word.load(seq_cst);
    fiber_record* f = r->fiber;
    if (word && claim_epoch(*f, word >> 3, wait_phase::cancelled)) wake(*f);
  }
};

void switch_away(carrier& c, worker& w, fiber_record& me) {
  if (const switch_target t = next(*c.home, c, w, me); t.from) detail::switch_to(t);
}

// R2: what was called off is waited for to its end, by whoever shuts down, too.
void call_off(io_request& r, fiber_record& me) {
  carrier& c = *carrier_now();
  worker& w = reenter(*c.home->on, c);
  const bool was = me.flags & ff_shielded;
  me.flags |= ff_shielded;
  uint64_t open = io_request::waits(r.epoch());
  begin_wait(c, me, wait_kind::io, nullptr, true);
  const uint64_t epoch = epoch_of(me.wait_state.load(relaxed));
  if (r.word.compare_exchange_strong(open, io_request::called_off(epoch), acq_rel, acquire)) {
    static_cast<port*>(r.at->port.load(relaxed))->post(r);
    switch_away(c, w, me);
  } else {  // it had ended meanwhile
    abandon_wait(me);
    leave(c);
  }
  if (!was) me.flags &= static_cast<uint16_t>(~ff_shielded);
}

int32_t why_called_off(const io_request& r, wait_phase ended) noexcept {
  if (ended == wait_phase::timed_out) return -ETIMEDOUT;
  if (r.closed.load(relaxed)) return -EBADF;
  return -ECANCELED;
}

// Starts it at this carrier's port and waits.
int32_t wait_for(io_request& r, port& p, const io_limit& limit) {
  r.fiber = carrier_now()->running();
  r.word.store(0, relaxed);
  std::optional<std::stop_callback<stopper>> on_stop;
  if (limit.stop && limit.stop->stop_possible()) on_stop.emplace(*limit.stop, stopper{&r});

  carrier& c = *carrier_now();
  worker& w = enter(c, op::suspend);
  check_cancelled(c);
  fiber_record& me = *c.running();
  begin_wait(c, me, wait_kind::io, nullptr, true);
  const uint64_t epoch = epoch_of(me.wait_state.load(relaxed));
  r.word.store(io_request::waits(epoch), seq_cst);
  if (r.stopped.load(seq_cst) && claim_epoch(me, epoch, wait_phase::cancelled)) {
    abandon_wait(me);
    leave(c);
    return -ECANCELED;
  }
  p.start(r);
  if (limit.deadline != never.count()) {
    w.timers.arm(nanos{limit.deadline}, me, epoch);
    w.next_timer.store(w.timers.first(), relaxed);
  }
  switch_away(c, w, me);

  const wait_phase ended = phase_of(me.wait_state.load(acquire));
  on_stop.reset();
  if (ended == wait_phase::notified) return r.result;
  const bool shutdown = me.cancelled.exchange(0, relaxed) != 0;
  call_off(r, me);
  const bool nothing_happened = r.result == -ECANCELED || r.result == -EINTR || r.result == io_again;
  if (!nothing_happened) return r.result;
  if (shutdown) throw shutdown_error("heddle: the runtime shuts down");
  return why_called_off(r, ended);
}

// A helper cannot be called off: the wait is unconditional.
int32_t wait_for_helper(io_request& r, helpers& by) {
  by.make_room();
  carrier& c = *carrier_now();
  worker& w = enter(c, op::suspend);
  check_cancelled(c);
  fiber_record& me = *c.running();
  const bool was = me.flags & ff_shielded;
  me.flags |= ff_shielded;
  r.fiber = &me;
  begin_wait(c, me, wait_kind::io, nullptr, true);
  r.word.store(io_request::waits(epoch_of(me.wait_state.load(relaxed))), relaxed);
  w.count.add(counter::io_started);
  by.push(r);
  switch_away(c, w, me);
  if (!was) me.flags &= static_cast<uint16_t>(~ff_shielded);
  carrier& now = *carrier_now();
  reenter(*now.home->on, now).count.add(counter::io_ended);
  leave(now);
  return r.result;
}

// The epoll rung: try, wait until it is worth another try.
int32_t run_by_readiness(io_request& r, const io_limit& limit) {
  for (;;) {
    int32_t n = attempt(r);
    if (n == io_blocks) return wait_for_helper(r, carrier_now()->home->io->blocking);
    if (n == -EINTR) continue;
    if (n != -EAGAIN) return n;
    int error = 0;
    port* p = port_of(*carrier_now(), error);
    if (!p) return -error;
    io_request ready{.what = io_op::poll, .fd = r.fd, .flags = static_cast<uint16_t>(readiness(r))};
    n = wait_for(ready, *p, limit);
    if (n == -EPERM) return wait_for_helper(r, carrier_now()->home->io->blocking);  // a file: always "ready"
    if (n < 0 && n != io_again) return n;
    if (n >= 0 && r.what == io_op::connect) return connected(r.fd);
    if (n >= 0 && r.what == io_op::poll) return n;
  }
}

// A plain thread blocks itself; with a limit it asks for readiness first.
int32_t run_here(io_request& r, const io_limit& limit) {
  const bool stoppable = limit.stop && limit.stop->stop_possible();
  if (limit.deadline == never.count() && !stoppable) return perform(r);
  const int bell = stoppable ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (stoppable && bell < 0) return -errno;
  int32_t n = -EAGAIN;
  {
    const auto ring = [bell] { eventfd_write(bell, 1); };
    std::optional<std::stop_callback<decltype(ring)>> on_stop;
    if (stoppable) on_stop.emplace(*limit.stop, ring);
    bool began = false;
    for (;;) {
      if (stoppable && limit.stop->stop_requested()) {
        n = -ECANCELED;
        break;
      }
      n = began && r.what == io_op::connect ? connected(r.fd) : attempt(r);
      if (n == io_blocks) n = perform(r);
      if (n != -EAGAIN && n != -EINTR) break;
      began = n == -EAGAIN;
      pollfd p[2] = {{r.fd, readiness(r), 0}, {bell, POLLIN, 0}};
      const int64_t left = limit.deadline - steady_now().count();
      const timespec t{left / 1'000'000'000, left % 1'000'000'000};
      const bool timed = limit.deadline != never.count();
      if (timed && left <= 0) {
        n = -ETIMEDOUT;
        break;
      }
      ::ppoll(p, stoppable ? 2 : 1, timed ? &t : nullptr, nullptr);
    }
  }
  if (bell >= 0) ::close(bell);
  return n;
}

}  // namespace

int32_t run(io_request& r, const io_limit& limit) {
  carrier* c = carrier_now();
  if (!c) return run_here(r, limit);
  if (c->home->simulated) return -EOPNOTSUPP;
  for (;;) {
    int error = 0;
    port* p = port_of(*carrier_now(), error);
    if (!p) return -error;
    if (p->by_readiness()) return run_by_readiness(r, limit);
    int32_t n = wait_for(r, *p, limit);
    if ((n == -EAGAIN && r.what != io_op::poll && r.what != io_op::open) || n == -EINPROGRESS) {
      // A descriptor in non-blocking mode: the ring takes it at its word.
      io_request ready{.what = io_op::poll, .fd = r.fd, .flags = static_cast<uint16_t>(readiness(r))};
      n = wait_for(ready, *p, limit);
      if (n >= 0 && r.what == io_op::connect) return connected(r.fd);
      if (n >= 0) continue;
    }
    if (n != io_again && n != -EINTR) return n;
  }
}

int32_t close_descriptor(int fd) noexcept {
  if (carrier* c = carrier_now(); c && !c->home->simulated) {
    scheduler& s = *c->home;
    for (const auto& other : s.carriers) {
      auto* p = static_cast<port*>(other->port.load(acquire));
      if (!p || !p->may_wait_for(fd)) continue;
      const bool own = other.get() == c;
      if (own)
        reenter(*s.on, *c);
      else
        while (!claim_carrier(*s.on, *other)) s.on->relax();
      waitable* f = p->close(fd);
      own ? leave(*c) : unclaim(*other);
      while (f) {
        waitable* next = f->next;
        wake(*f);
        f = next;
      }
    }
  }
  return ::close(fd) < 0 ? -errno : 0;
}

}  // namespace heddle::core
