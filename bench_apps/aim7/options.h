// aim7's options, with the letters of reaim.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_apps/aim7/mixes.h"
#include "bench_apps/common/arguments.h"

namespace heddle::bench {

struct aim7_options {
  int64_t start_users = 1;            // -s
  int64_t end_users = 5;              // -e
  int64_t increment = 1;              // -i
  int64_t users = 0;                  // -u: this number alone
  int64_t jobs = 100;                 // -j, of each user
  std::string mix_name = "alltests";  // -f
  double size = 1;                    // --size: of a job, 1 as the original
  std::vector<std::string> without;   // families left out
  nanos sleep_job{0};                 // --sleep-jobs
  std::string dir;                    // --dir: where files are made

  std::vector<aim7::job> plan;  // of one user, by check()

  int64_t file_bytes(int64_t users_now) const;
  std::vector<int64_t> points() const;  // numbers of users
  bool any(bool (*is)(aim7::family)) const;

  void declare(arguments& args);
  void check();
  nlohmann::ordered_json json() const;
};

}  // namespace heddle::bench
