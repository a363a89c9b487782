// One operation from start to end, for whoever calls: a fiber suspends, a plain thread blocks.
#pragma once

#include <stop_token>

#include "runtime/base/ids.h"
#include "runtime/io/request.h"

namespace heddle::core {

struct io_limit {
  int64_t deadline = never.count();
  const std::stop_token* stop = nullptr;
};

// The result, or -errno: -ETIMEDOUT after the deadline, -ECANCELED by the stop token, -EBADF when the descriptor was closed.
// Throws shutdown_error.
int32_t run(io_request& r, const io_limit& limit);

// Ends all waits for this descriptor (they get EBADF), then closes it. 0 or -errno.
int32_t close_descriptor(int fd) noexcept;

}  // namespace heddle::core
