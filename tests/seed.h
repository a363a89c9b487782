// The seed of this test run: --seed N on the command line, printed at the start.
#pragma once

#include <cstdint>

namespace heddle_test {
uint64_t seed();
}
