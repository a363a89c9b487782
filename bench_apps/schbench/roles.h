// The two roles of schbench and what they share, as a template over a backend.
//
// S1  A worker pushes itself on its message role's stack and posts the role; the role takes the whole stack at once and
//     posts every worker in it: last arrived, first woken.
// S2  A worker's slot belongs to the worker until its push, to the message role from taking the stack until the post,
//     and to the worker again when its wait returns. `below`, `ticket` and the stamps need no atomics therefore: the push
//     (release), the take (acquire) and the word's post and wait order them. A pusher reads no other slot: the stack's
//     word holds the top's number and a ticket that only grows, which also tells a slot pushed twice from one that stayed.
// S3  One clock read per burst, before the first post: what the waker spends on waking the others, or loses to a worker
//     that preempts it, is latency of those still waiting.
// S4  Records are private to a role until it has been joined.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/histogram.h"
#include "bench_apps/common/work.h"
#include "bench_apps/schbench/options.h"
#include "runtime/base/atomic.h"
#include "runtime/base/rng.h"

namespace heddle::bench::schbench {

// Slots are numbered from 1; tasks.max of them fit.
inline constexpr int number_bits = 20;
inline constexpr uint64_t number_mask = (uint64_t{1} << number_bits) - 1;
static_assert(tasks.max <= static_cast<int64_t>(number_mask));

// Where a worker ran after its wake-up, seen from its waker.
enum class distance { same_cpu, same_llc, other_llc };
inline constexpr size_t distance_count = 3;
inline constexpr std::string_view distance_names[distance_count] = {"same_cpu", "same_llc", "other_llc"};

struct worker_records {
  histogram latency[distance_count];  // burst stamp to first statement
  histogram burst;                    // of it: burst stamp to this worker's post
  histogram run;                      // of it: post to first statement
  histogram request;                  // v1: before the sleep to after the work
  uint64_t loops = 0;                 // wake-ups inside the window
  uint64_t dropped = 0;               // zeros that --compat dropped
  double cycle_ns = 0;                // sum over the recorded cycles
  nanos first_began{0};               // of the recorded cycles, and when the last one ended: what lies outside of them
  nanos last_ended{0};                // are cycles that the window cuts
};

struct message_records {
  histogram overshoot;  // how much later than asked a sleep ended
  uint64_t bursts = 0;
  uint64_t wakes = 0;
  uint64_t out_of_order = 0;  // stack entries that were not in LIFO order: always 0
};

template <backend B>
struct alignas(core::cache_line) worker_slot {
  typename B::word word;
  uint64_t below = 0;   // number of the slot pushed before, 0 at the bottom
  uint64_t ticket = 0;  // of its push: what LIFO order is checked by
  nanos woken_at{0};
  nanos posted_at{0};
  int waker_cpu = 0;
  std::vector<char> pipe;              // -p: filled by the waker, then by the worker
  core::atomic<uint64_t> requests{0};  // v1: read once a second by the director
  worker_records records;
};

template <backend B>
struct alignas(core::cache_line) message_slot {
  typename B::word word;
  core::atomic<uint64_t> stack{0};  // ticket << number_bits | number of the top slot
  message_records records;
};

// The work of a v1 request holds the lock of the CPU it began on: a holder that is preempted makes the next one spin.
struct alignas(core::cache_line) cpu_lock {
  core::atomic<bool> held{false};
};

template <backend B>
class scenario {
 public:
  scenario(B& on, const schbench_options& options, uint64_t seed, const std::vector<int>& llc_of_cpu)
      : b_(on),
        o_(options),
        seed_(seed),
        llc_of_cpu_(llc_of_cpu),
        messages_(static_cast<size_t>(options.message_roles)),
        workers_(static_cast<size_t>(options.worker_count())),
        locks_(std::max<size_t>(1, llc_of_cpu.size())) {}

  // Called by the directing role: starts everybody. Recording begins at open().
  void start() {
    for (size_t m = 0; m < messages_.size(); m++) {
      roles_.push_back(b_.spawn(fmt::format("message{}", m), [this, m] { message_role(m); }));
      for (size_t t = 0; t < static_cast<size_t>(o_.workers_each); t++) {
        const size_t w = m * static_cast<size_t>(o_.workers_each) + t;
        roles_.push_back(b_.spawn(fmt::format("worker{}", w), [this, m, w] { worker_role(messages_[m], w); }));
      }
    }
  }
  void open(nanos at) { open_at_.store(at.count(), core::release); }
  void stop() {
    stopped_.store(true);
    wake_everybody();
    for (auto& role : roles_) role.join();
  }
  uint64_t requests() const {
    uint64_t sum = 0;
    for (const auto& w : workers_) sum += w.requests.load(core::relaxed);
    return sum;
  }
  const std::vector<worker_slot<B>>& workers() const { return workers_; }
  const std::vector<message_slot<B>>& messages() const { return messages_; }

 private:
  bool stopped() const { return stopped_.load(); }
  bool recording(nanos since) const { return since.count() >= open_at_.load(core::acquire); }

  void worker_role(message_slot<B>& boss, size_t index) {
    worker_slot<B>& me = workers_[index];
    me.pipe.resize(static_cast<size_t>(o_.pipe_bytes));
    std::vector<uint64_t> matrices(
        o_.v1() ? 3 * static_cast<size_t>(o_.matrix_side()) * static_cast<size_t>(o_.matrix_side()) : 0, 1);
    nanos cycle_began = b_.now();
    while (!stopped()) {
      if (!o_.v1()) think(o_.think_time);
      fill_pipe(me, 1);
      if (!wait_for_wake(boss, me, index + 1)) return;
      const nanos now = b_.now();
      if (stopped()) return;
      if (recording(me.woken_at)) record_wake(me, now, cycle_began);
      cycle_began = now;
      if (o_.v1()) request(me, matrices);
    }
  }

  bool wait_for_wake(message_slot<B>& boss, worker_slot<B>& me, uint64_t number) {
    me.word.reset();
    if (stopped()) return false;  // a stop's post may be what reset() took back
    me.woken_at = b_.now();
    push(boss, me, number);
    boss.word.post();
    me.word.wait();
    return true;
  }

  void fill_pipe(worker_slot<B>& slot, char with) {
    if (slot.pipe.empty()) return;
    std::fill(slot.pipe.begin(), slot.pipe.end(), with);
    b_.touch(slot.pipe.data(), slot.pipe.size(), access::write);
  }

  static void push(message_slot<B>& boss, worker_slot<B>& me, uint64_t number) {
    uint64_t top = boss.stack.load(core::relaxed);
    uint64_t mine = 0;
    do {
      me.below = top & number_mask;
      me.ticket = (top >> number_bits) + 1;
      mine = me.ticket << number_bits | number;
    } while (!boss.stack.compare_exchange_weak(top, mine, core::release, core::relaxed));  // S2: publishes the slot
  }

  void record_wake(worker_slot<B>& me, nanos now, nanos cycle_began) {
    worker_records& r = me.records;
    b_.touch(&me.woken_at, sizeof me.woken_at, access::read);
    if (r.loops++ == 0) r.first_began = cycle_began;
    r.last_ended = now;
    r.cycle_ns += static_cast<double>((now - cycle_began).count());
    nanos latency = now - me.woken_at;
    if (o_.compat) {
      latency = std::chrono::floor<std::chrono::microseconds>(latency);
      if (latency.count() == 0) return void(r.dropped++);
    }
    r.latency[static_cast<size_t>(distance_to(me.waker_cpu))].record(latency);
    r.burst.record(me.posted_at - me.woken_at);
    r.run.record(now - me.posted_at);
  }

  distance distance_to(int waker_cpu) const {
    const int here = b_.cpu();
    if (here == waker_cpu) return distance::same_cpu;
    const auto llc = [this](int cpu) {
      return static_cast<size_t>(cpu) < llc_of_cpu_.size() ? llc_of_cpu_[static_cast<size_t>(cpu)] : -1;
    };
    return llc(here) == llc(waker_cpu) ? distance::same_llc : distance::other_llc;
  }

  void message_role(size_t index) {
    message_slot<B>& me = messages_[index];
    core::rng jitter(seed_ * 1'000'003 + index);
    while (!stopped()) {
      me.word.reset();
      if (stopped()) return;
      wake_all(me);
      me.word.wait();
      if (!o_.v1() && !stopped()) pause_between_bursts(me, jitter);
    }
  }

  void wake_all(message_slot<B>& me) {
    uint64_t number = me.stack.fetch_and(~number_mask, core::acquire);  // S2: takes all, the ticket stays
    uint64_t ticket = number >> number_bits;
    if ((number &= number_mask) == 0) return;
    const nanos burst_at = b_.now();  // S3
    const bool counted = recording(burst_at);
    const int here = b_.cpu();
    uint64_t woken = 0;
    while (number != 0) {
      worker_slot<B>& slot = workers_[number - 1];
      number = slot.below;  // S2: gone with the post
      if (slot.ticket != ticket--) me.records.out_of_order++;
      slot.woken_at = burst_at;
      slot.waker_cpu = here;
      fill_pipe(slot, 2);
      slot.posted_at = b_.now();
      b_.touch(&slot.woken_at, sizeof slot.woken_at, access::write);
      slot.word.post();
      woken++;
    }
    if (!counted) return;
    me.records.bursts++;
    me.records.wakes += woken;
  }

  void pause_between_bursts(message_slot<B>& me, core::rng& jitter) {
    if (o_.sleep.count() == 0) return;
    const uint64_t quarter = static_cast<uint64_t>(o_.sleep.count()) / 4;
    const nanos asked = o_.sleep + nanos{static_cast<int64_t>(quarter > 0 ? jitter.below(quarter) : 0)};
    const nanos before = b_.now();
    b_.sleep_for(asked);
    const nanos slept = b_.now() - before;
    if (recording(before) && !stopped()) me.records.overshoot.record(slept - asked);
  }

  void think(nanos amount) {
    const bool slices = B::kind == backend_kind::fibers && o_.yield_every.count() > 0;
    const nanos end = b_.now() + amount;
    for (nanos done{0}; done < amount && !stopped();) {
      const nanos slice = slices ? std::min(o_.yield_every, amount - done) : amount;
      done += slice;
      if (o_.wall())
        b_.spin_until(slices ? end - amount + done : end);
      else
        b_.burn(slice);
      if (slices && done < amount) b_.yield();
    }
  }

  void request(worker_slot<B>& me, std::vector<uint64_t>& matrices) {
    const nanos began = b_.now();
    if (o_.sleep.count() > 0) b_.sleep_for(o_.sleep);
    if (o_.no_cpu_lock) {
      multiply(matrices);
    } else {
      cpu_lock& lock = lock_this_cpu();
      multiply(matrices);
      lock.held.store(false, core::release);
    }
    if (recording(began) && !stopped()) me.records.request.record(b_.now() - began);
    core::bump(me.requests, 1);
  }

  void multiply(std::vector<uint64_t>& m) {
    const int side = o_.matrix_side();
    const size_t area = m.size() / 3;
    for (int64_t i = 0; i < o_.operations; i++) b_.multiply(&m[0], &m[area], &m[2 * area], side);
  }

  // A try-lock loop, as the original's; it lets others run after a bounded number of tries, or two fibers of one worker
  // would wait for each other for ever.
  cpu_lock& lock_this_cpu() {
    constexpr int tries_per_turn = 1000;
    for (int tries = 1;; tries++) {
      const int cpu = b_.cpu();
      cpu_lock& lock = locks_[static_cast<size_t>(cpu) % locks_.size()];
      if (!lock.held.exchange(true, core::acquire)) {
        if (b_.cpu() == cpu) return lock;
        lock.held.store(false, core::release);  // moved meanwhile: that was another CPU's lock
      }
      work_pause();
      if (B::kind == backend_kind::fibers && tries % tries_per_turn == 0) b_.yield();
    }
  }

  void wake_everybody() {
    for (auto& m : messages_) m.word.post();
    for (auto& w : workers_) w.word.post();
  }

  B& b_;
  const schbench_options& o_;
  const uint64_t seed_;
  const std::vector<int>& llc_of_cpu_;  // by OS id
  core::atomic<int64_t> open_at_{std::numeric_limits<int64_t>::max()};
  core::atomic<bool> stopped_{false};
  std::vector<message_slot<B>> messages_;
  std::vector<worker_slot<B>> workers_;
  std::vector<cpu_lock> locks_;
  std::vector<typename B::role> roles_;
};

}  // namespace heddle::bench::schbench
