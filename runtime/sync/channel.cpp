// Everything under the receivers' lock: a ring of bytes, receivers and senders in order. A push that finds a receiver copies
// into the receiver's frame; a pop that makes room copies the first waiting sender's value in, so order is kept and nobody
// who is woken has to come back for anything.
#include "heddle/channel.h"

#include <cstring>

#include "runtime/sched/inbox.h"
#include "runtime/sync/block.h"

namespace heddle::detail {

using namespace heddle::core;

namespace {

channel_op& op_of(waitable& f) noexcept {
  void* arg = f.flags & ff_thread ? static_cast<thread_waiter&>(f).wait_arg : as_fiber(&f)->wait_arg;
  return *static_cast<channel_op*>(arg);
}

template <class Read>
auto under_lock(wait_list& l, Read&& read) noexcept {
  carrier* c = this_carrier();
  if (c) enter(*c, core::op::wake);
  lock(l);
  const auto value = read();
  unlock(l);
  if (c) leave(*c);
  return value;
}

}  // namespace

byte_channel::byte_channel(size_t capacity, size_t value_bytes)
    : capacity_(capacity), value_bytes_(value_bytes), ring_(std::make_unique<std::byte[]>(capacity * value_bytes)) {
  senders_.guard = &receivers_;
}

void byte_channel::put(const void* value) noexcept {
  size_t at = first_ + count_;
  if (at >= capacity_) at -= capacity_;
  std::memcpy(&ring_[at * value_bytes_], value, value_bytes_);
  count_++;
}

void byte_channel::get(void* value) noexcept {
  std::memcpy(value, &ring_[first_ * value_bytes_], value_bytes_);
  if (++first_ == capacity_) first_ = 0;
  count_--;
}

bool byte_channel::push_locked(const void* value, void*& woken, const void* by) noexcept {
  if (closed_) return false;
  if (waitable* f = pop_claimed(receivers_, static_cast<const carrier*>(by))) {
    channel_op& op = op_of(*f);
    std::memcpy(op.value, value, value_bytes_);
    op.done = true;
    woken = f;
    return true;
  }
  if (count_ == capacity_) return false;
  put(value);
  return true;
}

bool byte_channel::pop_locked(void* value, void*& woken, const void* by) noexcept {
  if (count_ == 0) return false;
  get(value);
  if (waitable* f = pop_claimed(senders_, static_cast<const carrier*>(by))) {
    channel_op& op = op_of(*f);
    put(op.value);
    op.done = true;
    woken = f;
  }
  return true;
}

bool byte_channel::try_push(const void* value) noexcept {
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, core::op::wake) : nullptr;
  void* woken = nullptr;
  lock(receivers_);
  const bool done = push_locked(value, woken, c);
  unlock(receivers_);
  leave_and_wake(c, w, static_cast<waitable*>(woken), waker_intent::writes);
  return done;
}

bool byte_channel::try_pop(void* value) noexcept {
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, core::op::wake) : nullptr;
  void* woken = nullptr;
  lock(receivers_);
  const bool done = pop_locked(value, woken, c);
  unlock(receivers_);
  leave_and_wake(c, w, static_cast<waitable*>(woken), waker_intent::writes);
  return done;
}

[[gnu::noinline]] switch_target byte_channel::pick_push(channel_op& op) {
  carrier* c = this_carrier();
  if (!c) {
    bool late = false;
    op.done = push_until(op.value, never.count(), late);
    return nowhere;
  }
  worker& w = enter(*c, core::op::suspend);
  check_cancelled(*c);
  void* woken = nullptr;
  lock(receivers_);
  op.done = push_locked(op.value, woken, c);
  if (op.done || closed_) {
    unlock(receivers_);
    leave_and_wake(c, &w, static_cast<waitable*>(woken), waker_intent::writes);
    return nowhere;
  }
  fiber_record& me = *c->running();
  me.wait_arg = &op;
  begin_wait(*c, me, wait_kind::channel_push, &senders_);
  append(senders_, me);
  unlock(receivers_);
  return next_of_wait(*c->home, *c, w, me);
}

[[gnu::noinline]] switch_target byte_channel::pick_pop(channel_op& op) {
  carrier* c = this_carrier();
  if (!c) {
    bool late = false;
    op.done = pop_until(op.value, never.count(), late);
    return nowhere;
  }
  worker& w = enter(*c, core::op::suspend);
  check_cancelled(*c);
  void* woken = nullptr;
  lock(receivers_);
  op.done = pop_locked(op.value, woken, c);
  if (op.done || closed_) {
    unlock(receivers_);
    leave_and_wake(c, &w, static_cast<waitable*>(woken), waker_intent::writes);
    return nowhere;
  }
  fiber_record& me = *c->running();
  me.wait_arg = &op;
  begin_wait(*c, me, wait_kind::channel_pop, &receivers_);
  append(receivers_, me);
  unlock(receivers_);
  return next_of_wait(*c->home, *c, w, me);
}

// Push and pop with a deadline, and plain threads' of both kinds: `attempt` under the lock, else a wait in `list`.
template <class Attempt>
bool byte_channel::transfer(Attempt&& attempt, wait_list& list, core::wait_kind kind, channel_op& op, int64_t deadline,
                            bool& timed_out) {
  timed_out = false;
  carrier* c = this_carrier();
  worker* w = c ? &enter(*c, core::op::suspend) : nullptr;
  if (c) check_cancelled(*c);
  void* woken = nullptr;
  lock(receivers_);
  op.done = attempt(woken, c);
  if (op.done || closed_) {
    unlock(receivers_);
    leave_and_wake(c, w, static_cast<waitable*>(woken), waker_intent::writes);
    return op.done;
  }
  if (!c) {
    thread_waiter me;
    me.wait_arg = &op;
    timed_out = !block_thread(me, list, deadline);
    return op.done;
  }
  fiber_record& me = *c->running();
  me.wait_arg = &op;
  const wait_phase ended = block(*c, *w, list, kind, deadline);
  if (ended == wait_phase::cancelled) throw_cancelled(me);
  timed_out = ended == wait_phase::timed_out;
  return op.done;
}

bool byte_channel::push_until(const void* value, int64_t deadline, bool& timed_out) {
  channel_op op{const_cast<void*>(value)};
  return transfer([&](void*& woken, carrier* c) { return push_locked(value, woken, c); }, senders_,
                  wait_kind::channel_push, op, deadline, timed_out);
}

bool byte_channel::pop_until(void* value, int64_t deadline, bool& timed_out) {
  channel_op op{value};
  return transfer([&](void*& woken, carrier* c) { return pop_locked(value, woken, c); }, receivers_,
                  wait_kind::channel_pop, op, deadline, timed_out);
}

size_t byte_channel::size() noexcept {
  return under_lock(receivers_, [&] { return count_; });
}
bool byte_channel::closed() noexcept {
  return under_lock(receivers_, [&] { return closed_; });
}

void byte_channel::close() noexcept {
  carrier* c = this_carrier();
  if (c) enter(*c, core::op::wake);
  waitable* woken = nullptr;
  lock(receivers_);
  closed_ = true;
  // Receivers wait only while the ring is empty and senders only while it is full: neither gets anything any more.
  for (wait_list* l : {&receivers_, &senders_})
    while (waitable* f = pop_claimed(*l, c)) {
      f->list_next = woken;
      woken = f;
    }
  unlock(receivers_);
  if (c) leave(*c);
  while (woken) {
    waitable* f = woken;
    woken = f->list_next;
    wake(*f);
  }
}

}  // namespace heddle::detail
