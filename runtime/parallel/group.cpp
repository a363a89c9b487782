// task_group and graph. Calls wait in one list per group; drainers take them in batches. While a drainer runs a call, the rest of its
// batch and of the list is a task on its deque: an idle worker steals it and drains too, and a call that blocks hides nothing.
//
// G1 `draining_` is set: a drainer looks at the list again before it ends. So whoever finds it clear starts one: a fiber per burst.
//    It counts as pending until it has ended, as calls do.
// G2 `pending_` falls to zero only under last_, and is seen to be zero only under last_: the group may go after that.
#include <stdexcept>

#include "heddle/task_group.h"
#include "runtime/parallel/tasks.h"
#include "runtime/sched/scheduler.h"
#include "runtime/sched/wait.h"
#include "runtime/sync/block.h"

namespace heddle::detail {

using core::carrier_now;

namespace {
constexpr int batch_most = 32;
constexpr size_t block_nodes = 64;
}  // namespace

// One drainer's, on the heap: whoever steals it goes on with it, and nobody waits for him.
struct group_core::rest : task {
  group_core* group;
  group_node* batch = nullptr;
  group_node* used = nullptr;  // given back with the next batch
};

void group_core::lock() noexcept {
  while (lock_.exchange(1, std::memory_order_acquire) != 0)
    while (lock_.load(std::memory_order_relaxed) != 0) core::relax_outside();
}

group_node& group_core::take_node() {
  lock();
  if (group_node* n = free_) {
    free_ = n->next;
    unlock();
    return *n;
  }
  unlock();
  auto block = std::make_unique<group_node[]>(block_nodes);
  lock();
  blocks_.push_back(std::move(block));
  group_node* all = blocks_.back().get();
  for (size_t i = 1; i < block_nodes; i++) {
    all[i].next = free_;
    free_ = &all[i];
  }
  unlock();
  return all[0];
}

void group_core::give_node(group_node& n) noexcept {
  lock();
  n.next = free_;
  free_ = &n;
  unlock();
}

void group_core::push(group_node& n) {
  n.next = nullptr;
  pending_.fetch_add(1, std::memory_order_relaxed);
  lock();
  (head_ ? tail_->next : head_) = &n;
  tail_ = &n;
  const bool start = !draining_;
  draining_ = true;
  unlock();
  if (!start) return;
  pending_.fetch_add(1, std::memory_order_relaxed);  // G1
  core::start_task(*on_, &enter_fiber, this);
}

group_node* group_core::take_batch(rest& r) noexcept {
  lock();
  while (group_node* n = r.used) {
    r.used = n->next;
    n->next = free_;
    free_ = n;
  }
  r.batch = head_;
  group_node* last = head_;
  for (int i = 1; last && last->next && i < batch_most; i++) last = last->next;
  head_ = last ? last->next : nullptr;
  if (last) last->next = nullptr;
  if (!head_) draining_ = r.batch != nullptr;
  unlock();
  return r.batch;
}

void group_core::drain(rest& r) {
  while (r.batch || take_batch(r)) {
    group_node& n = *r.batch;
    r.batch = n.next;
    r.word.store(reinterpret_cast<uintptr_t>(&enter_rest) | task_detached, std::memory_order_relaxed);
    task_deque* const on = push_task(r);
    try {
      n.call(n);
    } catch (...) {
      const core::shielded no_refusal;
      last_.lock();
      if (!error_) error_ = std::current_exception();
      last_.unlock();
    }
    const bool mine = pop_detached(on);
    if (mine) {
      n.next = r.used;
      r.used = &n;
    } else {
      give_node(n);
    }
    ended();
    if (!mine) return;  // r went along
  }
  delete &r;
  ended();
}

void group_core::enter_rest(task& t) {
  auto& r = static_cast<rest&>(t);
  r.group->drain(r);
}

void group_core::enter_fiber(void* frame) { (*static_cast<group_core**>(frame))->help(); }

void group_core::help() {
  auto* r = new rest;
  r->group = this;
  drain(*r);
}

void group_core::wait() noexcept {
  core::carrier* c = carrier_now();
  {
    const core::shielded no_refusal;  // what was handed in uses the group
    std::lock_guard guard(last_);
    if (pending_.load(std::memory_order_relaxed) == 0) return;
    pending_.fetch_add(1, std::memory_order_relaxed);
  }
  // A plain thread has no deque; it only waits.
  if (c && c->home == on_)
    help();
  else
    ended();
  const core::shielded no_refusal;
  std::unique_lock guard(last_);
  none_left_.wait(guard, [this] { return pending_.load(std::memory_order_acquire) == 0; });
}

std::exception_ptr group_core::take_error() noexcept {
  const core::shielded no_refusal;
  std::lock_guard guard(last_);
  return std::exchange(error_, nullptr);
}

void group_core::ended() noexcept {
  uint64_t n = pending_.load(std::memory_order_relaxed);
  while (n > 1)
    if (pending_.compare_exchange_weak(n, n - 1, std::memory_order_acq_rel, std::memory_order_relaxed)) return;
  const core::shielded no_refusal;
  last_.lock();  // G2
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) none_left_.notify_all();
  last_.unlock();
}

}  // namespace heddle::detail

namespace heddle::detail {

core::scheduler& scheduler_of(runtime& on) noexcept { return *on.scheduler_; }

}  // namespace heddle::detail

namespace heddle {

// Before anything runs: every node must be reached by taking away, again and again, one that nothing is before.
void graph::check_order() const {
  std::vector<node*> ready;
  for (const auto& n : nodes_) {
    n->waits_for_.store(n->before_, std::memory_order_relaxed);
    if (n->before_ == 0) ready.push_back(n.get());
  }
  size_t reached = 0;
  for (; !ready.empty(); reached++) {
    node& n = *ready.back();
    ready.pop_back();
    for (node* later : n.after_)
      if (later->waits_for_.fetch_sub(1, std::memory_order_relaxed) == 1) ready.push_back(later);
  }
  if (reached != nodes_.size()) throw std::logic_error("heddle::graph: nodes wait for each other in a circle");
}

// One successor that has become ready is run here, the others are handed in.
void graph::run_from(task_group& group, node& first) {
  for (node* n = &first; n;) {
    n->body_();
    node* next = nullptr;
    for (node* later : n->after_) {
      if (later->waits_for_.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      if (next) group.run([this, &group, next] { run_from(group, *next); });
      next = later;
    }
    n = next;
  }
}

void graph::run() {
  check_order();
  for (const auto& n : nodes_) n->waits_for_.store(n->before_, std::memory_order_relaxed);
  task_group group;
  for (const auto& n : nodes_)
    if (n->before_ == 0) group.run([this, &group, &n] { run_from(group, *n); });
  group.wait();
}

}  // namespace heddle
