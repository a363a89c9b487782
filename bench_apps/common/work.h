// The unit of work. It stands alone in a translation unit with fixed flags (CMakeLists.txt), because the same loop under
// other flags is another amount of work, and two builds could not be compared.
#pragma once

#include <cstdint>

namespace heddle::bench {

// One iteration is a multiply-add that depends on the one before: no memory, no vectors, nothing to skip.
uint64_t work_iterations(uint64_t count, uint64_t seed) noexcept;

// c = a * b for side x side matrices of 64-bit integers, the plain three loops.
void work_matrix(const uint64_t* a, const uint64_t* b, uint64_t* c, int side) noexcept;

// A pause of the kind a spin loop should make.
void work_pause() noexcept;

}  // namespace heddle::bench
