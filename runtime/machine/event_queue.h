// When each strand of the virtual machine goes on: a 4-ary heap that knows where each strand's only entry is, so that an
// unpark moves it instead of leaving a stale one. Equal times go by `order`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace heddle::core {

class event_queue {
 public:
  struct event {
    int64_t at;
    uint64_t order;
    uint32_t who;
  };

  void resize(size_t strands) {
    places_.assign(strands, absent);
    heap_.reserve(strands);
  }
  bool empty() const noexcept { return heap_.empty(); }
  const event& first() const noexcept { return heap_.front(); }
  bool has(uint32_t who) const noexcept { return places_[who] != absent; }
  int64_t time_of(uint32_t who) const noexcept { return heap_[places_[who]].at; }

  void add(const event& e) noexcept {
    heap_.push_back(e);
    up(heap_.size() - 1, e);
  }
  // One that is there comes sooner.
  void advance(const event& e) noexcept { up(places_[e.who], e); }
  uint32_t pop() noexcept {
    const uint32_t who = heap_.front().who;
    places_[who] = absent;
    const event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) down(0, last);
    return who;
  }
  // One that is there comes at another time.
  void move(const event& e) noexcept {
    const size_t at = places_[e.who];
    if (at > 0 && before(e, heap_[(at - 1) / 4]))
      up(at, e);
    else
      down(at, e);
  }
  // Any of the first few that come no later than `limit`, chosen by draw(how many).
  template <class Draw>
  event take_any(int64_t limit, Draw draw) noexcept {
    constexpr size_t few = 32;
    size_t found[few], count = 0;
    for (size_t i = 0; i < std::min(few, heap_.size()); i++)
      if (heap_[i].at <= limit) found[count++] = i;
    const event chosen = heap_[found[draw(count)]];
    move({std::numeric_limits<int64_t>::min(), 0, chosen.who});
    pop();
    return chosen;
  }

 private:
  static constexpr uint32_t absent = UINT32_MAX;

  static bool before(const event& a, const event& b) noexcept { return a.at != b.at ? a.at < b.at : a.order < b.order; }
  void put(size_t place, const event& e) noexcept {
    heap_[place] = e;
    places_[e.who] = static_cast<uint32_t>(place);
  }
  void up(size_t i, const event e) noexcept {
    for (size_t parent; i > 0 && before(e, heap_[parent = (i - 1) / 4]); i = parent) put(i, heap_[parent]);
    put(i, e);
  }
  void down(size_t i, const event e) noexcept {
    for (const size_t n = heap_.size();;) {
      const size_t child = i * 4 + 1;
      if (child >= n) break;
      size_t least = child;
      for (size_t k = child + 1; k < child + 4 && k < n; k++)
        if (before(heap_[k], heap_[least])) least = k;
      if (!before(heap_[least], e)) break;
      put(i, heap_[least]);
      i = least;
    }
    put(i, e);
  }

  std::vector<event> heap_;
  std::vector<uint32_t> places_;
};

}  // namespace heddle::core
