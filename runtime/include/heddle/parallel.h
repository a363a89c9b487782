// Fork-join: calls that may run at the same time, and cost next to nothing while nobody has time for them.
//
// A task lies in its parent's frame and is called there, unless an idle worker takes it first. It may block anywhere: a parent whose
// task was taken suspends, it never runs anything else on its stack. All of these return when everything they started has ended;
// the first exception is rethrown then. Called in a fiber they use its runtime; a plain thread passes a runtime as the first argument
// and waits. What a task may capture, where it may block and what it costs: docs/fork-join.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "heddle/detail/tasks.h"
#include "heddle/runtime.h"

namespace heddle {

namespace detail {

template <class F>
[[gnu::always_inline]] inline void invoke_all(F& f) {
  f();
}
template <class F, class G, class... Rest>
[[gnu::always_inline]] inline void invoke_all(F& f, G& g, Rest&... rest) {
  forked<G> child(g);
  task_deque* const on = child.fork();
  try {
    invoke_all(f, rest...);
  } catch (...) {
    child.settle(on);
    throw;
  }
  child.join(on, g);
}

// What is left, [at, count), is one task; whoever takes it goes on in the same way.
template <class F>
void run_bulk(F& f, int at, int count) {
  for (; at + 1 < count; at++) {
    auto rest = [&f, at, count] { run_bulk(f, at + 1, count); };
    forked<decltype(rest)> later(rest);
    task_deque* const on = later.fork();
    try {
      f(at);
    } catch (...) {
      later.settle(on);
      throw;
    }
    if (!later.cancel(on)) return;
  }
  f(at);
}

template <class Body, class I>
concept loop_body = std::invocable<Body&, I> || std::invocable<Body&, I, I>;

// How much of n to do before looking whether somebody asks: it bounds how long he waits, and how much of the end one has alone.
template <class I>
I piece_of(I n, size_t grain) noexcept {
  if (grain != 0) return grain < static_cast<std::make_unsigned_t<I>>(n) ? static_cast<I>(grain) : n;
  return static_cast<I>(std::clamp<std::make_unsigned_t<I>>(static_cast<std::make_unsigned_t<I>>(n) / 128, 1, 4096));
}
// Half of n in whole pieces.
template <class I>
I half_of(I n, I piece) noexcept {
  const I half = static_cast<I>(n / 2);
  return half > piece ? static_cast<I>(half - half % piece) : piece;
}

template <class I, class Body>
class loop {
 public:
  loop(Body& body, size_t grain, const std::stop_token& stop) noexcept : body_(body), grain_(grain), stop_(stop) {}

  // A piece at a time; meanwhile the rest is a task, so that no piece that blocks or takes long hides it.
  void run(I first, I last) {
    while (!over()) {
      const I n = static_cast<I>(last - first);
      const I piece = piece_of(n, grain_);
      if (piece == n) return work(first, last);
      if (wanted()) {
        const I middle = static_cast<I>(first + half_of(n, piece));
        auto lower = [this, first, middle] { run(first, middle); };
        auto upper = [this, middle, last] { run(middle, last); };
        return invoke_all(lower, upper);
      }
      const I next = static_cast<I>(first + piece);
      auto rest = [this, next, last] { run(next, last); };
      forked<decltype(rest)> later(rest);
      task_deque* const on = later.fork();
      try {
        work(first, next);
      } catch (...) {
        later.drop(on);
        throw;
      }
      if (!later.cancel(on)) return;
      first = next;
    }
  }

 private:
  bool over() const noexcept { return failed_.load(std::memory_order_relaxed) || stop_.stop_requested(); }

  void work(I first, I last) {
    try {
      if constexpr (std::invocable<Body&, I, I>)
        std::invoke(body_, first, last);
      else
        for (I i = first; i < last; i++) std::invoke(body_, i);
    } catch (...) {
      failed_.store(true, std::memory_order_relaxed);  // a hint: no piece begins that need not
      throw;
    }
  }

  Body& body_;
  size_t grain_;
  const std::stop_token& stop_;
  std::atomic<bool> failed_{false};
};

template <class I, class T, class Combine, class Map>
struct fold {
  Combine& combine;
  Map& map;
  size_t grain;

  // As loop::run; first < last.
  T run(I first, I last) {
    std::optional<T> sum;
    for (;;) {
      const I n = static_cast<I>(last - first);
      const I piece = piece_of(n, grain);
      if (piece != n && wanted()) {
        const I middle = static_cast<I>(first + half_of(n, piece));
        std::optional<T> low, high;
        auto lower = [&, first] { low.emplace(run(first, middle)); };
        auto upper = [&, last] { high.emplace(run(middle, last)); };
        invoke_all(lower, upper);
        add(sum, std::invoke(combine, *std::move(low), *std::move(high)));
        break;
      }
      if (piece == n) {
        work(sum, first, last);
        break;
      }
      const I next = static_cast<I>(first + piece);
      std::optional<T> remainder;
      auto rest = [&, next, last] { remainder.emplace(run(next, last)); };
      forked<decltype(rest)> later(rest);
      task_deque* const on = later.fork();
      try {
        work(sum, first, next);
      } catch (...) {
        later.drop(on);
        throw;
      }
      if (!later.cancel(on)) {
        add(sum, *std::move(remainder));
        break;
      }
      first = next;
    }
    return *std::move(sum);
  }

 private:
  void add(std::optional<T>& sum, T&& more) {
    if (sum)
      *sum = std::invoke(combine, *std::move(sum), std::move(more));
    else
      sum.emplace(std::move(more));
  }
  void work(std::optional<T>& sum, I first, I last) {
    T here = sum ? *std::move(sum) : T(std::invoke(map, first++));
    for (; first < last; first++) here = std::invoke(combine, std::move(here), std::invoke(map, first));
    sum.emplace(std::move(here));
  }
};

inline constexpr int sort_serial = 2048;  // about 50 us: a task that is worth a steal

// Quicksort whose halves are tasks; what splits badly for too long is left to std::sort.
template <class It, class Less>
void sort_piece(It first, It last, Less& less, int depth) {
  if (last - first <= sort_serial || depth == 0) return std::sort(first, last, less);
  const It middle = first + (last - first) / 2, end = last - 1;
  if (less(*middle, *first)) std::iter_swap(middle, first);
  if (less(*end, *first)) std::iter_swap(end, first);
  if (less(*end, *middle)) std::iter_swap(end, middle);
  std::iter_swap(middle, end);  // the median of three, out of the way
  const It split = std::partition(first, end, [&](const auto& x) { return less(x, *end); });
  std::iter_swap(split, end);
  // What equals the pivot stays: where many do, it would be sorted again and again.
  const It above = std::partition(split + 1, last, [&](const auto& x) { return !less(*split, x); });
  auto lower = [&] { sort_piece(first, split, less, depth - 1); };
  auto upper = [&] { sort_piece(above, last, less, depth - 1); };
  invoke_all(lower, upper);
}

}  // namespace detail

// Calls all of them, the first one on this fiber; returns when all have ended.
template <class F, class... Rest>
  requires std::invocable<F&> && (std::invocable<Rest&> && ...)
[[gnu::always_inline]] inline void invoke(F&& f, Rest&&... rest) {
  detail::invoke_all(f, rest...);
}
template <class... Calls>
void invoke(runtime& on, Calls&&... calls) {
  on.run([&] { heddle::invoke(calls...); });
}

// f(0) .. f(count - 1), each a task of its own: one closure and an index.
template <class F>
  requires std::invocable<F&, int>
[[gnu::always_inline]] inline void bulk(int count, F&& f) {
  if (count > 0) detail::run_bulk(f, 0, count);
}
template <class F>
void bulk(runtime& on, int count, F&& f) {
  on.run([&] { heddle::bulk(count, f); });
}

// body(i), or body(from, to), for all of [first, last) in pieces of `grain`; 0: the pieces are cut to the range, a hundredth of what
// is left at most. A range is halved only when somebody asks for work. A stop request, or an exception, lets pieces under way end and
// begins no other.
template <std::integral A, std::integral B, class Body, class I = std::common_type_t<A, B>>
  requires detail::loop_body<Body, I>
void parallel_for(A first, B last, size_t grain, Body&& body, const std::stop_token& stop = {}) {
  detail::loop<I, Body> l(body, grain, stop);
  if (static_cast<I>(first) < static_cast<I>(last)) l.run(static_cast<I>(first), static_cast<I>(last));
}
template <std::integral A, std::integral B, class Body, class I = std::common_type_t<A, B>>
  requires detail::loop_body<Body, I>
void parallel_for(A first, B last, Body&& body, const std::stop_token& stop = {}) {
  heddle::parallel_for(first, last, size_t{0}, body, stop);
}
template <class... Args>
void parallel_for(runtime& on, Args&&... args) {
  on.run([&] { heddle::parallel_for(args...); });
}

// body(element) for a random access range.
template <std::ranges::random_access_range Range, class Body>
  requires std::ranges::sized_range<Range> && std::invocable<Body&, std::ranges::range_reference_t<Range>>
void parallel_for_each(Range&& range, size_t grain, Body&& body, const std::stop_token& stop = {}) {
  const auto begin = std::ranges::begin(range);
  using step = std::ranges::range_difference_t<Range>;
  heddle::parallel_for(
      step{0}, static_cast<step>(std::ranges::size(range)), grain, [&](step i) { std::invoke(body, begin[i]); }, stop);
}
template <std::ranges::random_access_range Range, class Body>
  requires std::ranges::sized_range<Range> && std::invocable<Body&, std::ranges::range_reference_t<Range>>
void parallel_for_each(Range&& range, Body&& body, const std::stop_token& stop = {}) {
  heddle::parallel_for_each(range, size_t{0}, body, stop);
}
template <class... Args>
void parallel_for_each(runtime& on, Args&&... args) {
  on.run([&] { heddle::parallel_for_each(args...); });
}

// init, then map(i) for all of [first, last), folded by `combine`: associative, and always in the order of the indices, so that it
// need not be commutative.
template <std::integral A, std::integral B, class T, class Combine, class Map, class I = std::common_type_t<A, B>>
  requires std::invocable<Map&, I> && std::invocable<Combine&, T, T>
T parallel_reduce(A first, B last, size_t grain, T init, Combine&& combine, Map&& map) {
  if (!(static_cast<I>(first) < static_cast<I>(last))) return init;
  detail::fold<I, T, Combine, Map> f{combine, map, grain};
  T rest = f.run(static_cast<I>(first), static_cast<I>(last));
  return std::invoke(combine, std::move(init), std::move(rest));
}
template <std::integral A, std::integral B, class T, class Combine, class Map, class I = std::common_type_t<A, B>>
  requires std::invocable<Map&, I> && std::invocable<Combine&, T, T>
T parallel_reduce(A first, B last, T init, Combine&& combine, Map&& map) {
  return heddle::parallel_reduce(first, last, size_t{0}, std::move(init), combine, map);
}
template <class... Args>
auto parallel_reduce(runtime& on, Args&&... args) {
  return on.run([&] { return heddle::parallel_reduce(args...); });
}

// As std::sort: not stable.
template <std::random_access_iterator It, class Less = std::less<>>
void parallel_sort(It first, It last, Less less = {}) {
  int depth = 2;
  for (auto n = last - first; n > 0; n /= 2) depth += 2;
  detail::sort_piece(first, last, less, depth);
}
template <std::ranges::random_access_range Range, class Less = std::less<>>
void parallel_sort(Range&& range, Less less = {}) {
  heddle::parallel_sort(std::ranges::begin(range), std::ranges::begin(range) + std::ranges::distance(range), less);
}
template <class... Args>
void parallel_sort(runtime& on, Args&&... args) {
  on.run([&] { heddle::parallel_sort(args...); });
}

}  // namespace heddle
