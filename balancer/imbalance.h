// Is a level unbalanced, and by how much (policy-reference 7.4, 7.5): numbers in, numbers out.
#pragma once

#include <cstdint>

#include "balancer/classify.h"
#include "balancer/reasons.h"

namespace heddle::core {

// In what the amount is counted while fibers are taken.
enum class pull_kind : uint8_t { none, task, load, util, misfit, push };
std::string_view to_string(pull_kind kind) noexcept;

struct imbalance {
  pull_kind kind = pull_kind::none;
  uint64_t amount = 0;
  balance_reason reason = balance_reason::no_imbalance;
};

struct imbalance_query {
  puller how;
  uint64_t imbalance_pct;
  bool above_llc;  // the level spans several caches
  bool numa;
  int imb_numa_nr = 0;  // 1.6
  bool prefer_sibling;  // the busiest group's child level asks for it, and the setting allows it
};

imbalance imbalance_of(const group_comparison& c, const imbalance_query& q) noexcept;

// Fibers by which a sibling group should shrink, before halving (7.5, "sibling").
uint64_t sibling_imbalance(const group_stats& busiest, const group_stats& local, puller how) noexcept;

// A pair of communicating fibers may stay on one node as long as it is nearly empty (1.6).
uint64_t numa_adjusted(uint64_t amount, uint64_t running_on_destination, int imb_numa_nr) noexcept;

}  // namespace heddle::core
