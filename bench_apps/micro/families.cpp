#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {

const std::vector<chapter>& chapters() {
  static const std::vector<chapter> all = {
      {"anchors: what this machine costs without heddle", {&anchors}},
      {"switch and yield", {&switching, &yield2, &yield1000, &yield2_pelt}},
      {"spawn", {&spawn_join, &spawn_batch, &live}},
      {"wake-ups", {&pingpong1, &pingpong2, &pingpong_cross, &wake, &wake_remote, &extwake}},
      {"locks and channels", {&mutex8, &mutex64, &channel1, &channel2}},
      {"fork and join", {&fork1, &fork2, &loops, &waves, &inject}},
      {"time", {&sleep5k, &sleep100k}},
      {"load and idleness", {&paced50, &paced90, &paced100, &hog, &idle}},
      {"virtual machine", {&virtual40, &virtual4096}},
  };
  return all;
}

std::span<const anchor_info> anchor_list() {
  static constexpr anchor_info all[] = {
      {anchor::switch_ns, "anchor_switch_ns", 1.6}, {anchor::rmw_ns, "anchor_rmw_ns", 6.0},
      {anchor::line_ns, "anchor_line_ns", 270},     {anchor::page_ns, "anchor_page_ns", 1750},
      {anchor::futex_us, "anchor_futex_us", 4.4},
  };
  return all;
}

}  // namespace heddle::bench::micro
