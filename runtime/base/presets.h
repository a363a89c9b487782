// The named groups of settings declared in presets.def. What a preset comes to is settings_list's answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heddle::core {

struct preset {
  std::string_view name;
  bool kernel_base;  // starts from the kernel's defaults, times excepted
  std::string_view meaning;
  std::string items;  // a list of NAME=VALUE; a time may be KERNEL:SCALED
};

std::span<const preset> presets();
const preset* find_preset(std::string_view name);  // either case; nullptr where there is none
const preset& default_preset();

}  // namespace heddle::core
