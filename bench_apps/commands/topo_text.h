// A machine as text that a person likes to read. Pure: a topology in, lines out.
#pragma once

#include <string>
#include <string_view>

#include "affinity/domains.h"
#include "affinity/topology.h"

namespace heddle::bench {

// "40 CPUs in 20 cores of 2 threads; 2 packages, 2 nodes, 2 LLCs"
std::string summary_of(const core::topology& machine);

// Packages, nodes and LLCs as an indented tree with the CPUs of each core ("0+20"); many alike are shown once.
std::string drawing_of(const core::topology& machine);

// The distance matrix where there are several nodes, and "" where there is one.
std::string distances_of(const core::topology& machine);

// Each level of domains with its spans and flags, finest first.
std::string domains_of(const core::topology& machine, const core::domain_tree& tree);

}  // namespace heddle::bench
