#include "runtime/io/port.h"

#include <cerrno>
#include <utility>

#include "runtime/sched/inbox.h"
#include "runtime/sched/run_queue.h"
#include "runtime/sched/scheduler.h"

namespace heddle::core {

carrier::~carrier() { delete port.load(relaxed); }

void port::start(io_request& r) noexcept {
  r.at = &at_;
  r.submitted = false;
  queue_.append(r);
  auto& here = by_fd_[slot(r.fd)];
  here.store(static_cast<uint16_t>(here.load(relaxed) + 1), release);
}

void port::end(io_request& r, int32_t result) noexcept {
  (r.submitted ? flight_ : queue_).remove(r);
  bump(by_fd_[slot(r.fd)], -1);
  if (r.submitted) at_.runs.load(relaxed)->count.add(counter::io_ended);
  r.result = result;
  wake_later(end_part(r));
}

void port::wake_later(fiber_record* f) noexcept {
  if (!f) return;
  f->next = nullptr;
  *woken_end_ = f;
  woken_end_ = &f->next;
}

waitable* port::take_woken() noexcept {
  woken_end_ = &woken_;
  return std::exchange(woken_, nullptr);
}

void port::wake_all(carrier& c) noexcept {
  for (waitable* f = take_woken(); f;) {
    waitable* next = f->next;
    if (worker* to = c.home->ready(c, *c.runs.load(relaxed), *as_fiber(f))) push_inbox(*to, f);
    f = next;
  }
}

void port::post(io_request& r) noexcept {
  io_request* old = posted_.load(relaxed);
  do r.posted = old;
  while (!posted_.compare_exchange_weak(old, &r, seq_cst, relaxed));
  worker& w = *at_.runs.load(relaxed);
  cpu_state seen = w.state.load(seq_cst);
  if (seen == cpu_state::parked) {
    if (w.state.compare_exchange_strong(seen, cpu_state::polling, seq_cst)) w.home->unpark(w);
  } else if (seen == cpu_state::running) {
    at_.attention.fetch_or(att_io, seq_cst);
  }
}

void port::take_posted() noexcept {
  if (!posted()) return;
  for (io_request* r = posted_.exchange(nullptr, seq_cst); r;) {
    io_request* next = r->posted;
    at_.runs.load(relaxed)->count.add(counter::io_cancels);
    // Over already? Then this is the last part, and the request is gone after it.
    if ((r->word.load(acquire) & 3) == 2) {
      if (r->submitted)
        cancel(*r);
      else
        end(*r, -ECANCELED);
    }
    wake_later(end_part(*r));
    r = next;
  }
}

waitable* port::close(int fd) noexcept {
  waitable* out = nullptr;
  waitable** end = &out;
  for (const io_list* l : {&queue_, &flight_})
    for (io_request* r = l->first; r; r = r->next) {
      if (r->fd != fd || r->last()) continue;
      fiber_record* f = r->fiber;
      r->closed.store(true, relaxed);  // read by the fiber after our claim
      if (!claim_epoch(*f, r->epoch(), wait_phase::cancelled)) continue;
      f->next = nullptr;
      *end = f;
      end = &f->next;
    }
  return out;
}

// P3. What is pinned to the stuck cpu stays queued: nobody else could go on with it.
waitable* port::take_over() noexcept {
  reap();
  for (io_request* r = queue_.first; r;) {
    io_request* next = r->next;
    if (may_leave(*r->fiber)) end(*r, io_again);
    r = next;
  }
  return take_woken();
}

}  // namespace heddle::core
