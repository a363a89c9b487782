// Machines that are built in under a short name: those of the published measurements heddle is held against, and shapes
// that few people own.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "affinity/topology.h"

namespace heddle::core {

struct named_machine {
  std::string_view name;
  std::string_view meaning;  // one line
};

std::span<const named_machine> named_machines() noexcept;
std::optional<topology> make_named_machine(std::string_view name);

}  // namespace heddle::core
