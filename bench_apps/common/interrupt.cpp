#include "bench_apps/common/interrupt.h"

#include <csignal>

namespace heddle::bench {
namespace {

volatile std::sig_atomic_t caught = 0;

void remember(int signal) { caught = signal; }

void install(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  // No SA_RESTART: a blocking wait may return early, every wait here loops. RESETHAND: the second one is meant.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

}  // namespace

interrupt_guard::interrupt_guard() {
  caught = 0;
  install(SIGINT, remember);
  install(SIGTERM, remember);
}

interrupt_guard::~interrupt_guard() {
  install(SIGINT, SIG_DFL);
  install(SIGTERM, SIG_DFL);
}

int caught_signal() noexcept { return caught; }

}  // namespace heddle::bench
