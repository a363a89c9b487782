#include "runtime/machine/virtual.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/rng.h"
#include "runtime/fiber/pool.h"
#include "runtime/machine/accesses.h"
#include "runtime/machine/caches.h"
#include "runtime/machine/costs.h"
#include "runtime/machine/event_queue.h"
#include "runtime/machine/host.h"
#include "runtime/machine/strand.h"
#include "runtime/sched/threads.h"

namespace heddle::core {
namespace {

// What a carrier's own code needs: idle loop, balancing, log lines.
constexpr size_t carrier_stack_bytes = 64 * 1024;

// The trace knows these beside core::op.
enum class event : uint32_t { park = 32, unpark, relax, poll, burn, touch, nap, wait, notify, end };

struct cpu_strand : strand {
  int64_t at = 0;      // its clock; of one that works: when it began to
  int64_t since = -1;  // when it began to wait in a loop; -1: it does not
  int64_t parked_at = 0;
  bool parked = false;   // and nobody has unparked it
  bool token = false;    // an unpark that came before the park
  bool polls = false;    // look() may end its pause
  bool hopeful = false;  // its entry in the queue may change something (a timer, work); a patient poller's cannot
  fiber_record* stack = nullptr;
  // Work under way (V4).
  bool works = false;
  bool by_the_clock = false;  // burn_until: ends on time
  int64_t pace = 100;         // percent of the time that it would take alone
  int64_t paced_at = 0;       // since when
  int64_t left = 0;           // at that time, at full speed
  int64_t cut_at = 0;         // when it is interrupted, if it has not ended before
  int64_t next_noise = 0;
};

// explore: how far ahead of the others a cpu may be drawn, that is how long it may hold them up.
constexpr int64_t explore_window = 20'000;
constexpr uint64_t stuck_one_in = 512;

class virtual_machine final : public machine {
 public:
  virtual_machine(const topology& cpus, const settings& rule, uint64_t seed)
      : rule_(rule),
        cost_(costs_of(rule)),
        cpus_(cpus),
        caches_(cpus_, cost_),
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
      if (rule_.fault_spurious_pct > 0 && drawn(100) < rule_.fault_spurious_pct)
        deadline = std::min(deadline, nanos{me().at + drawn(explore_window)});
      sleep_until(deadline);
      me().parked = false;
      if (!me().token) me().at += deep_idle(me(), me().at);  // by its own timer; an unpark has reckoned with it
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
      const int64_t late = rule_.fault_late_ns > 0 ? drawn(rule_.fault_late_ns) : 0;
      wake(static_cast<uint32_t>(index_of(cpu)), me().at + cost_.wake_parked + deep_idle(sleeper, me().at) + late);
    }
    pay(cost_.unpark);
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
    if (strands_[who].polls) wake(who, me().at + cost_.wake_polling + (on_cpu() ? caches_.line(here(), cpu) : 0));
  }

  nanos burn(nanos duration, size_t own_bytes) override {
    note(event::burn);
    const int64_t asked = std::max<int64_t>(0, duration.count());
    if (!on_cpu()) {
      advance(asked);
      return nanos{0};
    }
    if (own_bytes == 0 && asked > 0) own_bytes = cost_.working_set_bytes;
    const fiber_record& fiber = *this_carrier()->running();
    const int64_t capacity = cpus_.at(here()).capacity;
    const int64_t amount = spread(asked) * 1024 / capacity + caches_.refill(&fiber, fiber.id, here(), own_bytes);
    return nanos{work(amount, false) * capacity / 1024};
  }
  bool burn_until(nanos time) override {
    note(event::burn);
    const int64_t left = std::max<int64_t>(0, time.count() - me().at);
    if (on_cpu()) return work(left, true) == 0;
    advance(left);
    return true;
  }
  void interrupt(cpu_id cpu) noexcept override {
    const auto who = static_cast<uint32_t>(index_of(cpu));
    cpu_strand& s = strands_[who];
    const int64_t at = me().at + rule_.vm_resched_ns;
    if (!rule_.preempt || !s.works || who == current_ || at >= s.cut_at) return;
    s.cut_at = at;
    if (at < queue_.time_of(who)) queue_.move({std::max(at, s.at), order_++, who});
  }
  void touch(void* object, size_t bytes, access how) override {
    note(event::touch);
    advance(on_cpu() ? caches_.touch(object, bytes, how, here()) : 0);
  }
  void point(op kind) override {
    note(kind);
    int64_t took = cost_.op[static_cast<size_t>(kind)];
    if (__builtin_expect(rule_.fault_stuck_ns > 0, 0) && drawn(stuck_one_in) == 0) took += rule_.fault_stuck_ns;
    advance(took);
  }
  void charge(chore what, cpu_id about, uint64_t count) noexcept override {
    insist();
    if (on_cpu()) advance(price_of(what, about, count));
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
    say("vm_lines_fetched", caches_.lines_fetched());
  }

  void start(size_t cpus, std::function<void(cpu_id)> body, std::function<void()> monitor_body) override {
    HEDDLE_ASSERT(cpus == cpu_count_);
    body_ = std::move(body);
    monitor_ = std::move(monitor_body);
    running_ = cpus + (monitor_ ? 1 : 0);
    waitable* memory = nullptr;
    if (rule_.fault_carrier > 0 && static_cast<size_t>(rule_.fault_carrier) <= cpus)
      throw std::system_error(EAGAIN, std::generic_category(),
                              "heddle: carrier " + std::to_string(rule_.fault_carrier) + " (fault_carrier)");
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
  bool on_cpu() const noexcept { return current_ < cpu_count_; }
  cpu_id here() const noexcept { return to_cpu(current_); }
  int64_t drawn(int64_t bound) noexcept { return static_cast<int64_t>(chance_.below(static_cast<uint64_t>(bound))); }

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

  int64_t price_of(chore what, cpu_id about, uint64_t count) noexcept {
    switch (what) {
      case chore::tick:
        return cost_.tick;
      case chore::place:
        return cost_.place + caches_.probes(here(), about, count);
      case chore::balance:
        return cost_.balance_pass + caches_.probe_domain(here(), count);
      case chore::marks:
        return caches_.write_shared(cpus_.at(about).llc, here(), count);
      case chore::queue:
        return caches_.hold_queue(about, here(), me().at) - me().at;
    }
    return 0;
  }

  // ---- time and turns

  // The current strand works for `duration`; those whose time comes first have their turn (V1).
  void advance(int64_t duration) noexcept {
    me().at += duration;
    if (goes_on(me().at)) return;
    requeue(me().at, true);
  }
  // Nobody's turn comes before ours.
  bool goes_on(int64_t at) const noexcept { return queue_.empty() || (!rule_.explore && at < queue_.first().at); }
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
    const event_queue::event e = take_turn();
    cpu_strand& next = strands_[e.who];
    hopeful_ -= next.hopeful;
    next.at = std::max(next.at, e.at);
    if (rule_.explore) next.at = latest_ = std::max(latest_, next.at);  // as all cpus' clocks agree, whoever is held up
    turn_to(e.who);
    return current_ != driver() || !std::exchange(stuck_now_, false);
  }
  event_queue::event take_turn() noexcept {
    const event_queue::event e = queue_.first();
    if (rule_.explore) return queue_.take_any(e.at + explore_window, [this](size_t n) { return chance_.below(n); });
    queue_.pop();
    return e;
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

  // ---- work (V4)

  // What is left of it when it was cut short: at the next tick, or by an interrupt.
  int64_t work(int64_t amount, bool by_the_clock) noexcept {
    cpu_strand& s = me();
    if (!by_the_clock) amount += stolen(s, amount);
    s.left = amount;
    s.paced_at = s.at;
    s.works = true;
    s.cut_at = rule_.preempt ? s.at + rule_.tick_ns : std::numeric_limits<int64_t>::max();
    s.by_the_clock = by_the_clock;
    repace_siblings(s.at);
    s.pace = by_the_clock ? 100 : pace_of(current_);
    const int64_t end = std::min(s.at + amount * s.pace / 100, s.cut_at);
    if (goes_on(end))
      s.at = end;
    else
      requeue(end, true);
    s.works = false;
    repace_siblings(s.at);
    return s.at < s.cut_at ? 0 : std::max<int64_t>(0, s.left - (s.at - s.paced_at) * 100 / s.pace);
  }
  int64_t pace_of(uint32_t who) const noexcept {
    if (cost_.smt_pct == 100) return 100;
    for (const cpu_id sibling : cpus_.core_of(to_cpu(who)))
      if (index_of(sibling) != who && strands_[index_of(sibling)].works) return cost_.smt_pct;
    return 100;
  }
  void repace_siblings(int64_t now) noexcept {
    if (cost_.smt_pct == 100) return;
    for (const cpu_id sibling : cpus_.core_of(here()))
      if (index_of(sibling) != current_) repace(static_cast<uint32_t>(index_of(sibling)), now);
  }
  void repace(uint32_t who, int64_t now) noexcept {
    cpu_strand& s = strands_[who];
    if (!s.works || s.by_the_clock || !queue_.has(who)) return;
    const int64_t pace = pace_of(who);
    if (pace == s.pace) return;
    now = std::max(now, s.paced_at);
    s.left = std::max<int64_t>(0, s.left - (now - s.paced_at) * 100 / s.pace);
    s.paced_at = now;
    s.pace = pace;
    queue_.move({std::min(now + s.left * pace / 100, std::max(now, s.cut_at)), order_++, who});
  }
  // noise: what daemons take of a piece of work.
  int64_t stolen(cpu_strand& s, int64_t amount) noexcept {
    if (rule_.noise == noise_t::off) return 0;
    constexpr int64_t ms = 1'000'000;
    if (s.next_noise < s.at - 20 * ms || s.next_noise == 0) s.next_noise = s.at + drawn(10 * ms);
    int64_t sum = 0;
    for (; s.next_noise < s.at + amount + sum; s.next_noise += 4 * ms + drawn(6 * ms))
      if (s.next_noise >= s.at) sum += 20'000 + drawn(30'000);
    return sum;
  }
  int64_t spread(int64_t amount) noexcept {
    if (rule_.burn_spread_pct == 0) return amount;
    const double cv = static_cast<double>(rule_.burn_spread_pct) / 100;
    const double variance = std::log(1 + cv * cv);
    double normal = -6;  // the sum of twelve uniforms has variance 1
    for (int i = 0; i < 12; i++) normal += chance_.unit();
    return static_cast<int64_t>(static_cast<double>(amount) * std::exp(std::sqrt(variance) * normal - variance / 2));
  }
  // What its sleep adds to the wake-up of a cpu.
  int64_t deep_idle(const cpu_strand& s, int64_t now) const noexcept {
    const int64_t slept = std::clamp<int64_t>(now - s.parked_at, 0, cost_.deep_after);
    return static_cast<int64_t>(static_cast<double>(cost_.deep_idle) * static_cast<double>(slept) /
                                static_cast<double>(cost_.deep_after));
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
  const settings rule_;
  const machine_costs cost_;
  const topology cpus_;
  cache_model caches_;
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
  int64_t latest_ = 0;  // explore: the time that has been shown to somebody
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
