// The atomics door: the same operations in every build, and in the build `interleave` a point before each access.
#include "runtime/base/atomic.h"

#include <doctest/doctest.h>

using namespace heddle::core;

TEST_CASE("atomic: every operation of the door does what std::atomic does") {
  atomic<uint32_t> word{5};
  CHECK(word.load(relaxed) == 5);
  word.store(6, release);
  CHECK(word.exchange(7, acq_rel) == 6);
  uint32_t seen = 6;
  CHECK_FALSE(word.compare_exchange_strong(seen, 9, acq_rel, relaxed));
  CHECK(seen == 7);
  while (!word.compare_exchange_weak(seen, 8)) CHECK(seen == 7);
  CHECK(word.fetch_add(4u, relaxed) == 8);
  CHECK(word.fetch_sub(2u, relaxed) == 12);
  CHECK(word.fetch_or(1u, seq_cst) == 10);
  CHECK(word.fetch_and(9u, seq_cst) == 11);
  CHECK(word == 9);
  bump(word, 3);
  CHECK((word = 1) == 1);

  int here = 0;
  atomic<int*> pointer{nullptr};
  int* nothing = nullptr;
  CHECK(pointer.compare_exchange_strong(nothing, &here));
  CHECK(pointer.exchange(nullptr, acquire) == &here);
}

#if defined(HEDDLE_INTERLEAVE)
namespace {
int points = 0;
}

TEST_CASE("atomic: in the interleave build each access is one scheduling point") {
  atomic<int> word{0};
  const interleave_fn before = interleave_schedule.load();
  points = 0;
  set_interleave([]() noexcept { points++; });
  word.store(1, relaxed);
  const int loaded = word.load(acquire);
  const int added = word.fetch_add(1, acq_rel);
  int expected = 7;
  const bool swapped = word.compare_exchange_strong(expected, 8);
  set_interleave(before);
  CHECK(loaded == 1);
  CHECK(added == 1);
  CHECK_FALSE(swapped);
  CHECK(points == 4);
}
#endif
