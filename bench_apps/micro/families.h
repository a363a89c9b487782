// The families, in the order of the table. A new one is a file and a line here and in families.cpp.
#pragma once

#include <span>

#include "bench_apps/micro/figure.h"

namespace heddle::bench::micro {

// Costs of the machine, without heddle; in every run.
extern const family anchors;

extern const family switching, yield2, yield1000, yield2_pelt;
extern const family spawn_join, spawn_batch, live;
extern const family pingpong1, pingpong2, pingpong_cross, wake, wake_remote, extwake;
extern const family mutex8, mutex64, channel1, channel2;
extern const family fork1, fork2, loops, waves, inject;
extern const family sleep5k, sleep100k;
extern const family paced50, paced90, paced100, hog, idle;
extern const family virtual40, virtual4096;

// A part of the table, under a heading.
struct chapter {
  std::string_view title;
  std::vector<const family*> families;
};
const std::vector<chapter>& chapters();

// What an anchor was on the machine where the targets were set.
struct anchor_info {
  anchor which;
  std::string_view name;
  double reference;
};
std::span<const anchor_info> anchor_list();

}  // namespace heddle::bench::micro
