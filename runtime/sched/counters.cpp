#include "runtime/sched/counters.h"

namespace heddle::core {
namespace {

struct row {
  const char *name, *meaning;
};
constexpr row rows[] = {
#define HEDDLE_COUNTER_ROW(name, meaning) {#name, meaning},
    HEDDLE_COUNTERS(HEDDLE_COUNTER_ROW)
#undef HEDDLE_COUNTER_ROW
};

}  // namespace

const char* counter_name(counter which) noexcept { return rows[static_cast<size_t>(which)].name; }
const char* counter_meaning(counter which) noexcept { return rows[static_cast<size_t>(which)].meaning; }

}  // namespace heddle::core
