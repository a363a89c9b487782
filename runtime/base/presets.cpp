#include "runtime/base/presets.h"

#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace heddle::core {
namespace {

constexpr bool kernel = true;
constexpr bool scaled = false;

std::string joined(std::initializer_list<std::string_view> lists) {
  std::string all;
  for (std::string_view list : lists)
    if (!list.empty()) all.append(all.empty() ? "" : ",").append(list);
  return all;
}

}  // namespace

std::span<const preset> presets() {
#define HEDDLE_PRESET(name, base, meaning, placement, balance, picking) \
  {name, base, meaning, joined({placement, balance, picking})},
  static const std::vector<preset> all = {
#include "runtime/base/presets.def"
  };
#undef HEDDLE_PRESET
  return all;
}

const preset* find_preset(std::string_view name) {
  for (const preset& p : presets())
    if (same_text(p.name, name)) return &p;
  return nullptr;
}

const preset& default_preset() {
  const preset* found = find_preset("default");
  HEDDLE_ASSERT(found != nullptr);
  return *found;
}

}  // namespace heddle::core
