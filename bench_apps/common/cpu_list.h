// CPU lists as people type them: "0,2-5". OS ids throughout.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bench {

// Ascending and without repeats; nothing where the text is no list.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);
std::string show_cpu_list(const std::vector<int>& cpus);

// What the process may use now (affinity mask), ascending.
std::vector<int> allowed_cpus();
// Binds the calling thread; false where the system refuses.
bool bind_this_thread(const std::vector<int>& cpus);

// The CPUs that `--cpus` and `--workers` leave: usage_error where the list names others than the allowed.
std::vector<int> chosen_cpus(const std::string& list, const std::string& workers);

}  // namespace heddle::bench
