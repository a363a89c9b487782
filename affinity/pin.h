// Threads and the CPUs they may run on, in OS ids. Masks are as long as the kernel wants them: machines with more CPUs than
// a cpu_set_t has bits are real.
#pragma once

#include <functional>
#include <system_error>
#include <vector>

namespace heddle::core {

// Binds the calling thread to one CPU. A refusal (CPU offline, outside the cpuset, forbidden by seccomp) is the caller's to
// report: the thread then keeps running where it did.
std::error_code pin_this_thread(int os_id);

// Lets the calling thread run on all of these.
std::error_code allow_this_thread(const std::vector<int>& os_ids);

// Fills `words` and returns the bytes written, or -1 with errno; as sched_getaffinity does for the calling thread.
using mask_reader = std::function<long(size_t bytes, unsigned long* words)>;

// CPUs the calling thread may run on, ascending; what threads it starts will inherit. Empty if the kernel does not say.
std::vector<int> affinity_mask();
std::vector<int> affinity_mask(const mask_reader& read);

}  // namespace heddle::core
