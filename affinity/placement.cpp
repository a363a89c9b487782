#include "affinity/placement.h"

namespace heddle::core {

std::string_view to_string(wake_reason reason) noexcept {
#define HEDDLE_NAME(name, meaning) #name,
  static constexpr std::string_view names[] = {HEDDLE_WAKE_REASONS(HEDDLE_NAME)};
#undef HEDDLE_NAME
  return names[static_cast<size_t>(reason)];
}

std::string_view to_string(affine_reason reason) noexcept {
#define HEDDLE_NAME(name, meaning) #name,
  static constexpr std::string_view names[] = {HEDDLE_AFFINE_REASONS(HEDDLE_NAME)};
#undef HEDDLE_NAME
  return names[static_cast<size_t>(reason)];
}

}  // namespace heddle::core
