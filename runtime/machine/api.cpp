// heddle/machine.h's calls: on a fiber its machine's, on a plain thread the host's.
#include "heddle/fiber.h"
#include "heddle/machine.h"
#include "runtime/machine/host.h"
#include "runtime/machine/work.h"
#include "runtime/sched/threads.h"

namespace heddle::this_fiber {

using namespace heddle::core;

namespace {

// Work was cut short (preempt=on): here is what the kernel does at a tick and at an interrupt, and then perhaps a switch.
void offer_cpu() {
  note_interrupt();
  if (should_yield()) yield();
}

}  // namespace

void burn(std::chrono::nanoseconds duration, size_t own_bytes) {
  if (core::machine* m = machine_of_this_thread())
    while ((duration = m->burn(duration, own_bytes)).count() > 0) offer_cpu();
  else
    work_for(duration);
}

void burn_until(std::chrono::nanoseconds time) {
  if (core::machine* m = machine_of_this_thread()) {
    while (!m->burn_until(time)) offer_cpu();
    return;
  }
  while (steady_now() < time) relax_cpu();
}

void touch(void* object, size_t bytes, touch_kind how) {
  if (core::machine* m = machine_of_this_thread())
    m->touch(object, bytes, how == touch_kind::write ? access::write : access::read);
  else
    touch_memory(object, bytes, how == touch_kind::write);
}

}  // namespace heddle::this_fiber
