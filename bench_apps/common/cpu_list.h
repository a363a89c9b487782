// Which CPUs kernel threads may use, by OS id: the same that a runtime would start workers on.
#pragma once

#include <string>
#include <vector>

namespace heddle::bench {

std::string show_cpu_list(const std::vector<int>& cpus);  // "0,2-5"

// What the process may use now (affinity mask), ascending.
std::vector<int> allowed_cpus();
// Binds the calling thread; false where the system refuses.
bool bind_this_thread(const std::vector<int>& cpus);

// What `--cpus`, `--workers`, the affinity mask and the cgroup quota leave; usage_error for what cannot be.
std::vector<int> chosen_cpus(const std::string& list, const std::string& workers);

}  // namespace heddle::bench
