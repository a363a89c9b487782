// What a runtime runs on, and the three calls by which a program that also runs on a virtual machine does its work.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace heddle {

class machine {
 public:
  // Real threads pinned to this machine's CPUs.
  static machine host() { return machine("host"); }
  // An hwloc synthetic description such as "pack:2 core:10 pu:2": the virtual machine.
  static machine synthetic(std::string description) { return machine(std::move(description)); }
  // An hwloc XML file: the virtual machine.
  static machine xml(std::string path) { return machine(std::move(path)); }
  // "host", or a built-in name as `heddle topo --list` shows them.
  static machine named(std::string name) { return machine(std::move(name)); }

  const std::string& spec() const noexcept { return spec_; }

 private:
  explicit machine(std::string spec) : spec_(std::move(spec)) {}
  std::string spec_;
};

enum class touch_kind { read, write };

namespace this_fiber {

// The machine's clock: steady_clock on the host and on plain threads, virtual time on a virtual machine.
std::chrono::nanoseconds now() noexcept;
// A fixed amount of work, calibrated to last this long on an idle CPU (the host really works; virtual time advances).
// own_bytes: the working set it uses, for the virtual machine's caches. Does not suspend.
void burn(std::chrono::nanoseconds duration, size_t own_bytes = 0);
// Spins until the clock shows `time`, whatever happens to this CPU meanwhile. Does not suspend.
void burn_until(std::chrono::nanoseconds time);
// An access to memory that others use too: real on the host, charged by distance from the last writer on a virtual machine.
void touch(void* object, size_t bytes, touch_kind how);

}  // namespace this_fiber
}  // namespace heddle
