// Around the chosen CPU: one that is free and shares its LLC (policy-reference 5.1), by the order of a kernel generation.
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

struct search_answer {
  cpu_id cpu = cpu_id::none;
  wake_reason reason = wake_reason::wake_miss;
  uint32_t probes = 0;
};

// w.prev and target are allowed. Remembers w.prev in w.memory; refutes wrong hints of the LLC.
search_answer select_idle_sibling(const policy_view& v, const wakeup& w, cpu_id target) noexcept;

}  // namespace heddle::core
