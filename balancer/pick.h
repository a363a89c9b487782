// What runs next: the shared queue now and then, the slot while its turn lasts, else the queue (policy-reference 9.4).
// A few compares on state the worker owns, inline because every switch asks.
#pragma once

#include <cstdint>

#include "runtime/base/settings.h"

namespace heddle::core {

enum class pick_source : uint8_t { none, injected, slot, queue, idle_class };

// The settings as plain numbers, copied when the snapshot changes.
struct pick_rules {
  bool use_slot = true;
  uint32_t lifo_max = 3;
  uint32_t fair_interval = 61;
};
pick_rules pick_rules_of(const settings& set) noexcept;

struct pick_state {
  uint32_t streak = 0;      // picks from the slot in a row
  uint32_t until_fair = 0;  // picks until the injected queue goes first
};

// What there is to pick from.
struct pick_offer {
  bool injected = false;  // came from outside: shared queue, inbox
  bool slot = false;
  bool queue = false;
  bool idle_class = false;
};

inline pick_source pick_next(const pick_rules& rules, pick_state& state, pick_offer offer) noexcept {
  if (state.until_fair-- == 0) {
    state.until_fair = rules.fair_interval - 1;
    if (offer.injected) return pick_source::injected;
  }
  // The slot always wins, which is not fair; the guard is how often in a row it may (9.3).
  if (offer.slot && rules.use_slot && state.streak < rules.lifo_max) {
    state.streak++;
    return pick_source::slot;
  }
  state.streak = 0;
  if (offer.queue) return pick_source::queue;
  if (offer.slot) return pick_source::slot;  // nobody else waits
  if (offer.injected) return pick_source::injected;
  return offer.idle_class ? pick_source::idle_class : pick_source::none;
}

}  // namespace heddle::core
