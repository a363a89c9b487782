// Is this waker/wakee pair part of a relation too wide for one LLC? Counted by how often each side changes the partner it
// wakes (policy-reference 4.1, 4.2). A strict pair never changes, so it is never wide.
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

// Called for every wake-up by a fiber, even if its placement is forced.
void record_wakee(const settings& set, wake_memory& waker, uint32_t wakee, nanos now) noexcept;

// factor: the size of the waker's LLC. Neither side needs to be a fiber; then nothing is wide.
bool wake_wide(const settings& set, const wake_memory* waker, const wake_memory* wakee, int64_t factor) noexcept;

// wake_wide_idle (4.3): does this wide wake-up look beyond the LLC? The dispatcher is the side that changes partners more.
bool wide_looks_beyond(const settings& set, const wake_memory& waker, const wake_memory& wakee) noexcept;

}  // namespace heddle::core
