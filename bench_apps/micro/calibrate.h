// What the virtual machine should charge to resemble this one: figures of `heddle micro` as settings, one a line, for --costs.
#pragma once

#include <string>

#include "affinity/topology.h"
#include "bench_apps/micro/run.h"

namespace heddle::bench::micro {

// The prefixes of the figures that are needed.
inline constexpr const char* calibrating = "switch_ns,yield2_ns,wake_ns,spawn_join_ns,pingpong_cross_ns,extwake_p50_us";

// What could not be measured is left out, and a comment says so: the profile's figure rules there.
std::string costs_text(const outcomes& found, const core::topology& machine);

}  // namespace heddle::bench::micro
