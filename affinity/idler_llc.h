// Across two LLCs: the one with the larger share of idle CPUs, the idler-LLC proposal of 2021 (policy-reference 6.1).
#pragma once

#include "affinity/placement.h"

namespace heddle::core {

struct idler_answer {
  cpu_id cpu = cpu_id::none;  // none: undecided
  bool llcs_full = false;     // not one idle CPU in either
};

// Takes (and clears) a stored idle core, if that is the answer. here and prev are in different LLCs.
idler_answer idler_llc(const policy_view& v, const wakeup& w, cpu_id here, cpu_id prev, bool sync) noexcept;

// Takes the LLC's stored idle core if it holds one the wakee may use: its lowest CPU, else none.
cpu_id take_idle_core(const policy_view& v, const wakeup& w, int llc) noexcept;

}  // namespace heddle::core
