// The work of aim7's jobs that need no more than a CPU and memory. Each kernel does a fixed amount of work and returns a digest
// of what it computed: equal for equal amounts, whoever ran it, so that a run can show that all of it was done.
//
// Stands in a translation unit with fixed flags (CMakeLists.txt), as work.cpp does and for its reason.
#pragma once

#include <cstdint>

namespace heddle::bench::aim7 {

uint64_t add_long(uint64_t times) noexcept;
uint64_t add_double(uint64_t times) noexcept;
uint64_t multiply_long(uint64_t times) noexcept;
uint64_t multiply_double(uint64_t times) noexcept;
uint64_t divide_long(uint64_t times) noexcept;
uint64_t divide_double(uint64_t times) noexcept;

uint64_t sieve(uint64_t times);      // primes below 1'000'000; their number, times `times`
uint64_t sort(uint64_t times);       // 10'000 numbers; 0 where they do not come out sorted
uint64_t solve(uint64_t times);      // 60 equations; 0 where the solution does not fit
uint64_t transform(uint64_t times);  // 1000 points by a matrix
uint64_t strings(uint64_t times);    // builds, searches and compares a kilobyte of words

uint64_t blocks(uint64_t times);  // 64 blocks of 16 bytes to 8 KiB, allocated and freed in another order
uint64_t copy(uint64_t times);    // a mebibyte

}  // namespace heddle::bench::aim7
