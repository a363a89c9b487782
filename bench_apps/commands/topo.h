// `heddle topo`: the machine as heddle sees it, how many workers it would start there and why.
#pragma once

#include "bench_apps/common/command.h"

namespace heddle::bench {

int run_topo(const invocation& typed);
inline constexpr command topo_command{
    "topo", "the machine: packages, nodes, LLCs, cores, CPUs, domains; workers and why", run_topo};

}  // namespace heddle::bench
