#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/seed.h"

namespace {
uint64_t chosen_seed = 1;
}

uint64_t heddle_test::seed() { return chosen_seed; }

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], "--seed") == 0) chosen_seed = std::strtoull(argv[i + 1], nullptr, 0);
  std::printf("seed %llu (repeat with --seed N)\n", static_cast<unsigned long long>(chosen_seed));
  doctest::Context context(argc, argv);
  return context.run();
}
