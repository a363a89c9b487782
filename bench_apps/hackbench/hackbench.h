// hackbench: groups of senders that write to all receivers of their group, as fast as they can. Measures how long a fixed
// number of messages takes. The scenario of docs/bench-reference.md, section 2, as an app.
#pragma once

#include "bench_apps/common/app.h"

namespace heddle::bench {

std::unique_ptr<app> make_hackbench();

inline constexpr app_kind hackbench_app{
    "hackbench", "messages in groups: every sender to every receiver, over queues, pipes or sockets", make_hackbench};

}  // namespace heddle::bench
