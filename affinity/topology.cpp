#include "affinity/topology.h"

#include <algorithm>

namespace heddle::core {

cpu_id topology::find_os(int os_id) const noexcept {
  const auto at = std::lower_bound(cpus.begin(), cpus.end(), os_id, [](const cpu& c, int id) { return c.os_id < id; });
  return at != cpus.end() && at->os_id == os_id ? to_cpu(static_cast<size_t>(at - cpus.begin())) : cpu_id::none;
}

std::string topology::list(const cpu_set& set) const {
  std::string text;
  for (auto it = set.begin(); it != set.end();) {
    const int from = os_id(*it);
    int to = from;
    for (++it; it != set.end() && os_id(*it) == to + 1; ++it) to++;
    if (!text.empty()) text += ',';
    text += std::to_string(from);
    if (to > from) text += '-' + std::to_string(to);
  }
  return text;
}

}  // namespace heddle::core
