// A set of CPUs of any number: machines with more than 1024 are real. Indexed by cpu_id; what users read and type are
// OS ids, converted at the edge (topology::list()).
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "runtime/base/ids.h"

namespace heddle::core {

class cpu_set {
 public:
  cpu_set() = default;
  cpu_set(std::initializer_list<int> cpus) {
    for (int cpu : cpus) add(to_cpu(static_cast<size_t>(cpu)));
  }
  static cpu_set first(size_t count) {
    cpu_set all;
    for (size_t i = 0; i < count; i++) all.add(to_cpu(i));
    return all;
  }

  bool has(cpu_id cpu) const noexcept {
    const size_t i = index_of(cpu);
    return i / 64 < words_.size() && (words_[i / 64] >> (i % 64) & 1) != 0;
  }
  void add(cpu_id cpu) {
    const size_t i = index_of(cpu);
    if (i / 64 >= words_.size()) words_.resize(i / 64 + 1);
    words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void remove(cpu_id cpu) noexcept {
    const size_t i = index_of(cpu);
    if (i / 64 >= words_.size()) return;
    words_[i / 64] &= ~(uint64_t{1} << (i % 64));
    trim();
  }

  bool empty() const noexcept { return words_.empty(); }
  size_t count() const noexcept {
    size_t n = 0;
    for (uint64_t w : words_) n += static_cast<size_t>(std::popcount(w));
    return n;
  }
  cpu_id lowest() const noexcept { return next(to_cpu(0)); }
  // The lowest member >= from, or cpu_id::none.
  cpu_id next(cpu_id from) const noexcept {
    for (size_t i = index_of(from); i / 64 < words_.size(); i = (i / 64 + 1) * 64)
      if (const uint64_t rest = words_[i / 64] >> (i % 64))
        return to_cpu(i + static_cast<size_t>(std::countr_zero(rest)));
    return cpu_id::none;
  }

  // Word access, so that policies can walk intersections without building them.
  size_t word_count() const noexcept { return words_.size(); }
  uint64_t word(size_t i) const noexcept { return i < words_.size() ? words_[i] : 0; }

  bool contains(const cpu_set& other) const noexcept {
    for (size_t i = 0; i < other.words_.size(); i++)
      if (other.words_[i] & ~word(i)) return false;
    return true;
  }
  bool intersects(const cpu_set& other) const noexcept {
    for (size_t i = 0; i < words_.size(); i++)
      if (words_[i] & other.word(i)) return true;
    return false;
  }
  cpu_set& operator&=(const cpu_set& other) {
    for (size_t i = 0; i < words_.size(); i++) words_[i] &= other.word(i);
    trim();
    return *this;
  }
  cpu_set& operator|=(const cpu_set& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (size_t i = 0; i < other.words_.size(); i++) words_[i] |= other.words_[i];
    return *this;
  }
  cpu_set& operator-=(const cpu_set& other) {
    for (size_t i = 0; i < words_.size(); i++) words_[i] &= ~other.word(i);
    trim();
    return *this;
  }
  friend cpu_set operator&(cpu_set a, const cpu_set& b) { return a &= b; }
  friend cpu_set operator|(cpu_set a, const cpu_set& b) { return a |= b; }
  friend cpu_set operator-(cpu_set a, const cpu_set& b) { return a -= b; }
  bool operator==(const cpu_set&) const = default;

  class iterator {
   public:
    iterator(const cpu_set* set, cpu_id at) : set_(set), at_(at) {}
    cpu_id operator*() const noexcept { return at_; }
    iterator& operator++() noexcept {
      at_ = set_->next(to_cpu(index_of(at_) + 1));
      return *this;
    }
    bool operator!=(const iterator& other) const noexcept { return at_ != other.at_; }

   private:
    const cpu_set* set_;
    cpu_id at_;
  };
  iterator begin() const noexcept { return {this, lowest()}; }
  iterator end() const noexcept { return {this, cpu_id::none}; }

 private:
  // No trailing zero words: equality is then equality of words, and empty() is one test.
  void trim() noexcept {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
  }
  std::vector<uint64_t> words_;
};

}  // namespace heddle::core
