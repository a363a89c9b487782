// An operation as system calls: blocking (plain threads, helpers) or as an attempt that does not block (the epoll rung).
#pragma once

#include "runtime/io/request.h"

namespace heddle::core {

// The result, or -errno. Blocks its thread; starts again after signals.
int32_t perform(const io_request& r) noexcept;
// -EAGAIN: not now. io_blocks: this kind can only be done by blocking (files).
inline constexpr int32_t io_blocks = -513;
int32_t attempt(const io_request& r) noexcept;
// What to wait for before the next attempt.
short readiness(const io_request& r) noexcept;
// A connect that was under way has become ready: how did it end?
int32_t connected(int fd) noexcept;

}  // namespace heddle::core
