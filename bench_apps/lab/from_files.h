// Runs out of result files, for `compare --from`: they were made at different times, perhaps on different machines, so they
// are grouped by machine and options and compared without blocks.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_apps/lab/comparison.h"

namespace heddle::bench::lab {

struct read_result {
  std::string app;
  std::vector<compared_case> cases;  // `vary` tells machine and options apart; the first of a kind is its baseline
};

// Throws usage_error for what is no result file of this schema, for files of different apps, and when nothing has a partner.
read_result read_files(const std::vector<std::string>& paths,
                       const std::function<std::string(const std::string& app)>& primary_of);
read_result read_documents(const std::vector<std::pair<std::string, nlohmann::ordered_json>>& named,
                           const std::function<std::string(const std::string& app)>& primary_of);

}  // namespace heddle::bench::lab
