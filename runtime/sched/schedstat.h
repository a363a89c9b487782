// What a scheduler counted, per domain level, for people and for tools that read /proc/schedstat.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

namespace heddle::core {

class scheduler;
struct worker;

// One worker's counts of its levels, by names as "llc_newidle_gained": level, who balanced, what.
void count_levels(const worker& w, std::map<std::string, uint64_t>& into);

// Version 15 of the layout: a line per cpu, and one per domain of it. What is not counted here stands as 0 (docs/counters.md).
void write_schedstat(const scheduler& s, std::ostream& out);

}  // namespace heddle::core
