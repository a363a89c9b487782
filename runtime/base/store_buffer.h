// A cpu's stores that nobody else sees yet, for the build `interleave`. A store waits here for a seeded while; its own cpu reads it
// from here; a release waits for all stores before it, a relaxed one only for those to the same word: what C++ allows and x86 or
// Arm do. What empties it: a seq_cst store, a releasing read-modify-write, a barrier, a context switch, going to sleep.
// Plain memory is not modelled: it is seen at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::core {

class store_buffer {
 public:
  using apply_fn = void (*)(void* word, uint64_t bits) noexcept;

  void put(void* word, uint64_t bits, apply_fn apply, bool release) {
    if (waiting_.size() == most) drain_first();
    waiting_.push_back({word, bits, apply, release});
  }
  bool newest(const void* word, uint64_t& bits) const noexcept {
    for (size_t i = waiting_.size(); i-- > 0;)
      if (waiting_[i].word == word) {
        bits = waiting_[i].bits;
        return true;
      }
    return false;
  }
  bool empty() const noexcept { return waiting_.empty(); }
  void drain() noexcept {
    while (!waiting_.empty()) drain_first();
  }
  // The store at place `wanted % size` becomes visible, or the first one if that may not overtake those before it.
  void drain_one(uint64_t wanted) noexcept {
    if (waiting_.empty()) return;
    const size_t place = wanted % waiting_.size();
    const auto chosen = waiting_.begin() + static_cast<std::ptrdiff_t>(place);
    const bool held = chosen->release ||
                      std::any_of(waiting_.begin(), chosen, [&](const store& s) { return s.word == chosen->word; });
    if (held) return drain_first();
    chosen->apply(chosen->word, chosen->bits);
    waiting_.erase(chosen);
  }

 private:
  static constexpr size_t most = 8;
  struct store {
    void* word;
    uint64_t bits;
    apply_fn apply;
    bool release;
  };
  void drain_first() noexcept {
    const store s = waiting_.front();
    waiting_.erase(waiting_.begin());
    s.apply(s.word, s.bits);
  }
  std::vector<store> waiting_;
};

// The buffer of the virtual cpu that this thread is at the moment; null: stores are seen at once.
inline constinit thread_local store_buffer* my_stores = nullptr;

}  // namespace heddle::core
