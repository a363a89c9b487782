#include "runtime/base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/base/atomic.h"

namespace heddle::core {
namespace {
// Not a core::atomic: in the interleave build that would be a scheduling point, and nobody else may run now.
std::atomic<who_fn> context{nullptr};
}  // namespace

void set_check_context(who_fn who) noexcept { context.store(who, std::memory_order_relaxed); }

void check_failed(const char* what, const char* file, int line) noexcept {
  char who[128] = "";
  if (who_fn name = context.load(std::memory_order_relaxed)) name(who, sizeof who);
  char text[512];
  const int length = std::snprintf(text, sizeof text, "heddle: broken invariant: %s at %s:%d%s%s\n", what, file, line,
                                   *who ? " in " : "", who);
  if (length > 0) [[maybe_unused]]
    ssize_t ignored = ::write(
        STDERR_FILENO, text, static_cast<size_t>(length) < sizeof text ? static_cast<size_t>(length) : sizeof text - 1);
  std::abort();
}

}  // namespace heddle::core
