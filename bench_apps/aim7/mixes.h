// What a user's jobs are: a mix, a list of weights, and the plan made of it for a number of jobs. A mix is text of lines
// `WEIGHT NAME`; the name is a job's, or a family's, which stands for its jobs in equal parts. `#` begins a comment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench_apps/aim7/jobs.h"
#include "runtime/base/rng.h"

namespace heddle::bench::aim7 {

struct mix_line {
  job what;
  double weight;
};
using mix = std::vector<mix_line>;

// usage_error that names `where` and the line.
mix parse_mix(std::string_view text, const std::string& where);

// One of the eight that are built in, by name; nothing for other names.
std::optional<std::string_view> built_in_mix(std::string_view name);
std::vector<std::string_view> built_in_names();

// A built-in name, or a file. usage_error.
mix find_mix(const std::string& name);

// How often a user does which job: the weight's share of `jobs`, rounded, but once at least; so there may be some more
// in all than were asked for, as in the original.
std::vector<job> plan_for(const mix& m, int64_t jobs);

// The same jobs in an order of the user's own.
std::vector<job> shuffled(std::vector<job> plan, uint64_t seed, uint64_t user);

}  // namespace heddle::bench::aim7
