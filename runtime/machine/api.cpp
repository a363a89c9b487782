// heddle/machine.h's calls: on a fiber its machine's, on a plain thread the host's.
#include "heddle/machine.h"
#include "runtime/machine/host.h"
#include "runtime/machine/work.h"
#include "runtime/sched/threads.h"

namespace heddle::this_fiber {

using namespace heddle::core;

void burn(std::chrono::nanoseconds duration, size_t own_bytes) {
  if (core::machine* m = machine_of_this_thread())
    m->burn(duration, own_bytes);
  else
    work_for(duration);
}

void burn_until(std::chrono::nanoseconds time) {
  if (core::machine* m = machine_of_this_thread()) return m->burn_until(time);
  while (steady_now() < time) relax_cpu();
}

void touch(void* object, size_t bytes, touch_kind how) {
  if (core::machine* m = machine_of_this_thread())
    m->touch(object, bytes, how == touch_kind::write ? access::write : access::read);
  else
    touch_memory(object, bytes, how == touch_kind::write);
}

}  // namespace heddle::this_fiber
