#include "runtime/machine/costs.h"

namespace heddle::core {

machine_costs costs_of(const settings&) noexcept {
  return {.op = {10, 20, 25, 30, 15, 50, 15, 30, 5, 0},
          .poll_least = 100,
          .poll_most = 10'000,
          .relax_most = 1'000,
          .park = 500,
          .wake_parked = 5'000,
          .wake_waker = 1'000,
          .wake_polling = 200};
}

}  // namespace heddle::core
