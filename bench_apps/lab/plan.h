// What `compare` runs, worked out before anything runs: cases x varied settings, at every combination of varied app options.
// Pure: text in, plan out; nothing here looks at the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bench::lab {

// One way to run the app. What a case leaves empty is the command's.
struct case_plan {
  std::string name;
  std::string settings;  // items of the settings grammar
  std::optional<std::string> backend, machine, workers, cpus;
  std::optional<int64_t> seed;

  bool same_run(const case_plan& other) const;
};

// One combination of varied app options; without any there is one point with an empty label.
struct point_plan {
  std::string label;               // "-c 16"
  std::vector<std::string> words;  // appended to the app's own
};

struct comparison_plan {
  std::vector<case_plan> cases;  // the first is the baseline, at every point
  std::vector<point_plan> points;
};

// `cases` are the values of --case, `varies` those of --vary, in the order given. usage_error for what cannot be read.
comparison_plan make_plan(const std::vector<std::string>& cases, const std::vector<std::string>& varies);

// `NAME:LIST` of --case.
case_plan parse_case(const std::string& text);

}  // namespace heddle::bench::lab
