// Tasks that are handed in one by one, from anywhere, and waited for together; and graphs of tasks with an order between them.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/detail/group.h"
#include "heddle/runtime.h"

namespace heddle {

// Tasks may block, and may hand in more. Destroyed with tasks that have not ended, it waits for them.
class task_group {
 public:
  // In a fiber: of its runtime. Elsewhere throws std::logic_error.
  task_group() : core_(detail::current_scheduler()) {}
  explicit task_group(runtime& on) : core_(detail::scheduler_of(on)) {}
  ~task_group() { core_.wait(); }

  // From tasks of this group, other fibers, and plain threads. Begins no later than wait(); order is not promised.
  template <class F>
    requires std::invocable<std::decay_t<F>&>
  void run(F&& f) {
    using body = std::decay_t<F>;
    detail::group_node& n = core_.take_node();
    try {
      if constexpr (sizeof(body) <= detail::group_node::inline_bytes && alignof(body) <= 16)
        emplace<body>(n, std::forward<F>(f));
      else
        emplace<boxed<body>>(n, boxed<body>{std::make_unique<body>(std::forward<F>(f))});
    } catch (...) {
      core_.give_node(n);
      throw;
    }
    core_.push(n);
  }

  // Until all that was handed in has ended; rethrows the first exception. The group may be used again.
  void wait() {
    core_.wait();
    if (std::exception_ptr error = core_.take_error()) std::rethrow_exception(std::move(error));
  }

 private:
  template <class Body>
  struct boxed {
    std::unique_ptr<Body> body;
    void operator()() { (*body)(); }
  };

  template <class Body, class F>
  static void emplace(detail::group_node& n, F&& f) {
    ::new (static_cast<void*>(n.body)) Body(std::forward<F>(f));
    n.call = [](detail::group_node& self) {
      Body& body = *std::launder(reinterpret_cast<Body*>(self.body));
      struct destroyer {
        Body& b;
        ~destroyer() { std::destroy_at(&b); }
      } const at_end{body};
      body();
    };
  }

  detail::group_core core_;
};

// Nodes and what must precede what. Built once, run any number of times; one run at a time.
class graph {
 public:
  class node {
   public:
    // This one before `later`.
    node& precede(node& later) {
      after_.push_back(&later);
      later.before_++;
      return *this;
    }

   private:
    friend class graph;
    std::function<void()> body_;
    std::vector<node*> after_;
    uint32_t before_ = 0;
    std::atomic<uint32_t> waits_for_{0};
  };

  template <class F>
    requires std::invocable<std::decay_t<F>&>
  node& add(F&& f) {
    nodes_.push_back(std::make_unique<node>());
    nodes_.back()->body_ = std::forward<F>(f);
    return *nodes_.back();
  }

  // Inside a fiber. What follows a node that threw does not run; the first exception is rethrown. Throws std::logic_error, having run
  // nothing, where nodes wait for each other in a circle.
  void run();
  void run(runtime& on) {
    on.run([this] { run(); });
  }

 private:
  void run_from(task_group& group, node& first);
  void check_order() const;

  std::vector<std::unique_ptr<node>> nodes_;
};

}  // namespace heddle
