#include "runtime/machine/virtual.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/rng.h"
#include "runtime/fiber/pool.h"
#include "runtime/machine/accesses.h"
#include "runtime/machine/costs.h"
#include "runtime/machine/event_queue.h"
#include "runtime/machine/host.h"
#include "runtime/machine/strand.h"
#include "runtime/sched/threads.h"

namespace heddle::core {
namespace {

// What a carrier's own code needs: idle loop, balancing, log lines. Sanitizers make frames several times larger.
constexpr size_t carrier_stack_bytes = HEDDLE_ASAN ? 256 * 1024 : 64 * 1024;

// The trace knows these beside core::op.
enum class event : uint32_t { park = 32, unpark, relax, poll, burn, touch, nap, wait, notify, end };

struct cpu_strand : strand {
  int64_t at = 0;      // its clock
  int64_t since = -1;  // when it began to wait in a loop; -1: it does not
  int64_t parked_at = 0;
  bool parked = false;   // and nobody has unparked it
  bool token = false;    // an unpark that came before the park
  bool polls = false;    // look() may end its pause
  bool hopeful = false;  // its entry in the queue may change something (a timer, work); a patient poller's cannot
  fiber_record* stack = nullptr;
};

class virtual_machine final : public machine {
 public:
  virtual_machine(const topology& cpus, const settings& rule, uint64_t seed)
      : cost_(costs_of(rule)),
        chance_(seed),
        stacks_(carrier_stack_bytes),
        thread_(pthread_self()),
        cpu_count_(cpus.cpu_count()) {
    strands_.resize(cpu_count_ + 2);
    queue_.resize(cpu_count_ + 2);
    current_ = driver();
    adopt_strand(me());
#if defined(HEDDLE_INTERLEAVE)
    if (explore_accesses != 0) accesses_ = std::make_unique<access_schedule>(*this, strands_.size(), explore_accesses);
#endif
  }
  ~virtual_machine() override { release_thread(); }

  bool is_virtual() const noexcept override { return true; }
  bool has_barrier() const noexcept override { return true; }  // one kernel thread: everything is ordered
  void barrier(cpu_id) noexcept override { show_stores(); }
  nanos now() noexcept override { return nanos{me().at}; }
  cpu_id current_cpu() const noexcept override {
    insist();
    return current_ < cpu_count_ ? to_cpu(current_) : cpu_id::none;
  }

  void park(cpu_id cpu, nanos deadline) noexcept override {
    HEDDLE_ASSERT(index_of(cpu) == current_);
    note(event::park);
    show_stores();  // a cpu that sleeps holds nothing back
    me().at += cost_.park;
    me().parked_at = me().at;
    if (!me().token) {
      me().parked = true;
      sleep_until(deadline);
      me().parked = false;
    }
    me().token = false;
  }
  void unpark(cpu_id cpu) noexcept override {
    insist();
    note(event::unpark);
    cpu_strand& sleeper = strands_[index_of(cpu)];
    sleeper.token = true;
    if (sleeper.parked) {
      sleeper.parked = false;
      wake(static_cast<uint32_t>(index_of(cpu)), me().at + cost_.wake_parked);
    }
    pay(cost_.wake_waker);
  }

  void relax() noexcept override {
    note_wait(event::relax);
    advance(patience(cost_.relax_most));
  }
  void poll(nanos until) noexcept override {
    note_wait(event::poll);
    const int64_t at =
        std::min(me().at + patience(cost_.poll_most), std::max(until.count(), me().at + cost_.poll_least));
    me().polls = true;
    requeue(at, until != never);
    me().polls = false;
  }
  void look(cpu_id cpu) noexcept override {
    const auto who = static_cast<uint32_t>(index_of(cpu));
    if (strands_[who].polls) wake(who, me().at + cost_.wake_polling);
  }

  void burn(nanos duration, size_t) override {
    note(event::burn);
    advance(std::max<int64_t>(0, duration.count()));
  }
  void burn_until(nanos time) override {
    note(event::burn);
    advance(std::max<int64_t>(0, time.count() - me().at));
  }
  void touch(void*, size_t, access) override {
    note(event::touch);
    advance(0);
  }
  void point(op kind) override {
    note(kind);
    advance(cost_.op[static_cast<size_t>(kind)]);
  }

  void nap(nanos duration) noexcept override {
    note(event::nap);
    if (!me().token) {
      me().parked = true;
      requeue(saturating_add(nanos{me().at}, duration).count(), false);
      me().parked = false;
    }
    me().token = false;
  }
  void poke() noexcept override {
    strands_[monitor()].token = true;
    if (strands_[monitor()].parked) wake(monitor(), me().at + cost_.wake_parked);
  }

  bool wait(std::atomic<uint32_t>& word, uint32_t expected, nanos deadline) noexcept override {
    insist();
    note(event::wait);
    while (word.load(acquire) == expected) {
      if (deadline.count() <= me().at) return false;
      awaited_ = &word;
      const bool alive = sleep_until(deadline);
      awaited_ = nullptr;
      if (!alive && !(stuck_ && stuck_())) return word.load(acquire) != expected;
    }
    return true;
  }
  // The driver waits for one word at a time; another word is a plain thread's that waits by itself.
  void notify(std::atomic<uint32_t>& word) noexcept override {
    note(event::notify);
    if (awaited_ == &word)
      wake(driver(), me().at + cost_.wake_parked);
    else
      futex_wake(word);
  }

  void when_stuck(std::function<bool()> change) override { stuck_ = std::move(change); }
  std::span<char> stack_of(cpu_id cpu) const noexcept override {
    const fiber_record& memory = *strands_[index_of(cpu)].stack;
    return {memory.stack_low, memory.stack_top};
  }
  void check_thread() const override {
    if (!pthread_equal(thread_, pthread_self())) throw std::logic_error(std::string("heddle: ") + wrong_thread);
  }
  void count(const std::function<void(std::string_view, uint64_t)>& say) const override {
    say("vm_events", events_);
    say("vm_handovers", handovers_);
    say("vm_now_ns", static_cast<uint64_t>(strands_[driver()].at));
    say("vm_trace_hash", hash_);
  }

  void start(size_t cpus, std::function<void(cpu_id)> body, std::function<void()> monitor_body) override {
    HEDDLE_ASSERT(cpus == cpu_count_);
    body_ = std::move(body);
    monitor_ = std::move(monitor_body);
    running_ = cpus + (monitor_ ? 1 : 0);
    waitable* memory = nullptr;
    for (uint32_t who = 0; who < running_; who++) {
      if (!memory) memory = stacks_.take(running_ - who);
      strands_[who].stack = as_fiber(memory);
      memory = memory->next;
      prepare_strand(strands_[who], *strands_[who].stack, &strand_main);
      enqueue(who, 0, who != monitor());
    }
    drive_by_this_thread(this);
  }

  bool join(nanos deadline) override {
    insist();
    while (running_ > 0 && me().at < deadline.count() && sleep_until(deadline)) {
    }
#if defined(HEDDLE_INTERLEAVE)
    if (accesses_) accesses_->stop();
#endif
    release_thread();
    return running_ == 0;
  }

 private:
  static constexpr const char* wrong_thread =
      "this thread did not make the runtime: a virtual machine runs on the thread that made it and can be used from "
      "its fibers and there alone";

  uint32_t monitor() const noexcept { return static_cast<uint32_t>(cpu_count_); }
  uint32_t driver() const noexcept { return static_cast<uint32_t>(cpu_count_ + 1); }
  cpu_strand& me() noexcept { return strands_[current_]; }

  // A caller on another thread would corrupt everything: no error value could mend that.
  void insist() const noexcept {
    if (pthread_equal(thread_, pthread_self())) return;
    std::fprintf(stderr, "heddle: %s\n", wrong_thread);
    std::abort();
  }
  void release_thread() noexcept {
    if (pthread_equal(thread_, pthread_self()) && machine_of_this_thread() == this) drive_by_this_thread(nullptr);
  }

  static void strand_main() {
    entered_strand();
    static_cast<virtual_machine*>(machine_of_this_thread())->run_strand();
  }
  void run_strand() {
    current_ == monitor() ? monitor_() : body_(to_cpu(current_));
    note(event::end);
    if (--running_ == 0) wake(driver(), me().at);
    for (;;) go_on();
  }

  // ---- time and turns

  // The current strand works for `duration`; those whose time comes first have their turn (V1).
  void advance(int64_t duration) noexcept {
    me().at += duration;
    if (queue_.empty() || me().at < queue_.first().at) return;
    requeue(me().at, true);
  }
  // A cost that the driving thread, which is outside of the machine, does not have.
  void pay(int64_t duration) noexcept {
    if (current_ != driver()) advance(duration);
  }
  void requeue(int64_t at, bool hopeful) noexcept {
    enqueue(current_, at, hopeful);
    go_on();
  }
  // False: nothing will ever happen.
  bool sleep_until(nanos deadline) noexcept {
    if (deadline != never) enqueue(current_, std::max(deadline.count(), me().at), true);
    return go_on();
  }

  void enqueue(uint32_t who, int64_t at, bool hopeful) noexcept {
    strands_[who].hopeful = hopeful;
    hopeful_ += hopeful;
    queue_.add({at, order_++, who});
  }
  void wake(uint32_t who, int64_t at) noexcept {
    cpu_strand& sleeper = strands_[who];
    if (!queue_.has(who)) return enqueue(who, std::max(at, sleeper.at), true);
    hopeful_ += !sleeper.hopeful;
    sleeper.hopeful = true;
    if (at < queue_.time_of(who)) queue_.advance({std::max(at, sleeper.at), order_++, who});
  }

  // The current strand is queued, or waits to be woken: whose turn is it? False: nobody's ever again, and we are the driver.
  bool go_on() noexcept {
    if (hopeful_ > 0) {
      hopeless_turns_ = 0;
    } else if (queue_.empty() || ++hopeless_turns_ > 64 * strands_.size()) {
      // Every poller has looked several times. Only the driver can wait without being queued then.
      hopeless_turns_ = 0;
      HEDDLE_ASSERT(!queue_.has(driver()));
      stuck_now_ = true;
      turn_to(driver());
      return !std::exchange(stuck_now_, false);
    }
    const event_queue::event e = queue_.first();
    queue_.pop();
    cpu_strand& next = strands_[e.who];
    hopeful_ -= next.hopeful;
    next.at = std::max(next.at, e.at);
    turn_to(e.who);
    return current_ != driver() || !std::exchange(stuck_now_, false);
  }
  void turn_to(uint32_t who) noexcept {
    if (who == current_) return;
    handovers_++;
    cpu_strand& from = me();
    current_ = who;
#if defined(HEDDLE_INTERLEAVE)
    if (accesses_) accesses_->turn_to(who);
#endif
    hand_over(from, me());
  }

  // Interleave build: what waits in store buffers becomes visible.
  void show_stores() noexcept {
#if defined(HEDDLE_INTERLEAVE)
    if (accesses_) accesses_->barrier();
#endif
  }

  // Wait loops look often at first and then at an eighth of the time they have waited: as exact as their waiting is long.
  int64_t patience(int64_t most) noexcept { return std::clamp((me().at - me().since) / 8, cost_.poll_least, most); }
  void note_wait(event kind) noexcept {
    const int64_t since = me().since < 0 ? me().at : me().since;
    note(kind);
    me().since = since;
  }

  // ---- the trace

  template <class Kind>
  void note(Kind kind) noexcept {
    events_++;
    me().since = -1;
    mix(static_cast<uint64_t>(me().at));
    mix(uint64_t{current_} << 8 | static_cast<uint64_t>(kind));
    if (const carrier* c = this_carrier()) mix(c->running()->id);
  }
  void mix(uint64_t value) noexcept { hash_ = (hash_ ^ value) * 1099511628211u; }

#if defined(HEDDLE_INTERLEAVE)
  std::unique_ptr<access_schedule> accesses_;
#endif
  machine_costs cost_;
  rng chance_;
  fiber_pool stacks_;
  pthread_t thread_;
  size_t cpu_count_;
  std::vector<cpu_strand> strands_;  // the cpus, the monitor, the driver
  event_queue queue_;
  uint32_t current_ = 0;
  uint64_t order_ = 0;
  size_t hopeful_ = 0;
  size_t hopeless_turns_ = 0;
  bool stuck_now_ = false;
  size_t running_ = 0;
  std::atomic<uint32_t>* awaited_ = nullptr;
  std::function<void(cpu_id)> body_;
  std::function<void()> monitor_;
  std::function<bool()> stuck_;
  uint64_t events_ = 0, handovers_ = 0;
  uint64_t hash_ = 14695981039346656037u;
};

}  // namespace

std::unique_ptr<machine> make_virtual(const topology& cpus, const settings& rule, uint64_t seed) {
  if (this_carrier())
    throw std::invalid_argument(
        "heddle: machine: a virtual machine is driven by the plain thread that makes it; this is a fiber");
  if (machine_of_this_thread())
    throw std::invalid_argument(
        "heddle: machine: this thread already drives a virtual machine; another one needs another thread");
  return std::make_unique<virtual_machine>(cpus, rule, seed);
}

}  // namespace heddle::core
