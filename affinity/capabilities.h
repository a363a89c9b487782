// What this kernel and this process's limits allow, each found by trying it: a version number says little about a container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::core {

struct capability {
  std::string name;  // "io_uring", "membarrier_rseq"
  bool available = false;
  // A limit's value; nullopt: not a number, or no limit.
  std::optional<uint64_t> value;
  bool is_limit = false;
  std::string note;  // what it is for, or why it is missing and what would help
};

// Each probe undoes what it did.
std::vector<capability> probe_capabilities();

}  // namespace heddle::core
