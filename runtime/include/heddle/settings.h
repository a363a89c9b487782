// Settings as text: the list that --set, HEDDLE_SETTINGS and the API share (docs/cli.md, "Settings: one grammar").
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct setting_info {
  std::string name;
  std::string kind;   // toggle, choice, number
  std::string value;  // by default
  std::string default_kernel;
  std::string range;
  std::string unit;
  std::string when;  // start, run
  std::string meaning;
};

// Every setting there is.
std::vector<setting_info> all_settings();

}  // namespace heddle
