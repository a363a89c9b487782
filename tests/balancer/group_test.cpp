#include "balancer/group.h"

#include <doctest/doctest.h>

using namespace heddle::core::pelt;

TEST_CASE("TV-G-1: an entity's weight is its share of the group's load") {
  struct vector {
    uint64_t shares, weight_sum, load_avg, total, contrib, weight;
  };
  for (const vector& v : {vector{1024, 1024, 512, 512, 512, 1024}, vector{1024, 1024, 1024, 4096, 1024, 256},
                          vector{1024, 0, 0, 4096, 0, 2}, vector{1024, 2048, 700, 1400, 700, 763},
                          vector{1024, 512, 300, 9000, 300, 56}, vector{15, 1024, 1024, 8192, 1024, 2}})
    CHECK(group_weight(v.shares, v.weight_sum, v.load_avg, v.total, v.contrib) == v.weight);
  CHECK(group_weight(1024, 0, 0, 0, 0) == 1024);  // nobody has any
}

TEST_CASE("TV-G-2: until 5.6 the runnable part had a weight of its own") {
  CHECK(group_runnable_weight(1024, 1024, 1024, 1024, 1024) == 1024);
  CHECK(group_runnable_weight(1024, 1024, 1024, 0, 0) == 2);
  CHECK(group_runnable_weight(512, 2048, 1024, 512, 1024) == 256);
}

TEST_CASE("TV-G-3: a group's queue is its entity, and its parent changes by the difference") {
  const propagated up = propagate_part(500, 150, 400);
  CHECK(up.parent == 750);
  CHECK(up.entity == 400);
  const propagated down = propagate_part(750, 400, 150);
  CHECK(down.parent == 500);
  CHECK(propagate_part(100, 400, 150).parent == 0);  // rounding must not wrap around
}

TEST_CASE("TV-G-4: load is carried up unweighted, bounded by full activity and by what the members have") {
  struct vector {
    uint64_t load_sum, weight, util;
    int64_t prop;
    uint64_t queue_load_sum, queue_weight_sum;
    uint32_t position;
    uint64_t sum, load;
  };
  for (const vector& v : {vector{10'000, 1024, 5000, 8000, 0, 0, 512, 18'000, 390},
                          vector{40'000, 1024, 0, 20'000, 0, 0, 0, 46'718, 1024},
                          vector{30'000, 1024, 1000, -10'000, 40'960'000, 2048, 0, 20'000, 438},
                          vector{30'000, 1024, 25'000, -10'000, 40'960'000, 2048, 0, 25'000, 547},
                          vector{30'000, 1024, 0, -30'000, 0, 0, 0, 0, 0}}) {
    const load_change c = propagate_load({.load_sum = v.load_sum,
                                          .weight = v.weight,
                                          .util_sum = v.util * 1024,
                                          .prop = v.prop,
                                          .queue_load_sum = v.queue_load_sum,
                                          .queue_weight_sum = v.queue_weight_sum,
                                          .position = v.position});
    CHECK(c.load_sum == v.sum);
    CHECK(c.load_avg == v.load);
  }
}

TEST_CASE("TV-G-5: loads as the root of a CPU sees them") {
  struct vector {
    uint64_t root, entity, queue, fiber, h, task;
  };
  for (const vector& v : {vector{2048, 1024, 3000, 1000, 1023, 340}, vector{1024, 1024, 1024, 1024, 1023, 1022},
                          vector{1024, 256, 4096, 1024, 255, 63}, vector{512, 2, 900, 300, 1, 0}}) {
    const uint64_t h = h_load(v.root, v.entity, v.root);
    CHECK(h == v.h);
    CHECK(h_load(h, v.fiber, v.queue) == v.task);
  }
}
