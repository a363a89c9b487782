// The virtual machine's memory: what it costs that data lies in another cpu's cache. Costs only, no contents.
//
// C1 A line costs by the distance between who wrote it last and who wants it now: core, LLC, node, nodes.
// C2 A working set is a fiber's. What of it still lies in a cache decays as others bring theirs into that cache.
// C3 Nothing here iterates over addresses: a program whose memory lies elsewhere costs the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "affinity/topology.h"
#include "runtime/machine/costs.h"

namespace heddle::core {

class cache_model {
 public:
  cache_model(const topology& cpus, const machine_costs& cost);

  // C1; 0 where both are one cpu.
  int64_t line(cpu_id from, cpu_id to) const noexcept;
  // Reading the rows of `rows` cpus around `about`.
  int64_t probes(cpu_id by, cpu_id about, uint64_t rows) const noexcept;
  // Reading a row of every cpu in a domain of `span` cpus around `by`.
  int64_t probe_domain(cpu_id by, size_t span) const noexcept;

  // The fiber `id` at `key` uses its working set on `cpu`: what is missing there is fetched.
  int64_t refill(const void* key, uint64_t id, cpu_id cpu, size_t bytes);
  int64_t touch(const void* object, size_t bytes, access how, cpu_id cpu);

  // The LLC's shared words (busy count, idle mask, idle core) are written `times` times.
  int64_t write_shared(int llc, cpu_id by, uint64_t times) noexcept;
  // A run-queue lock is a server: who comes while it is held waits. Until when, for one who comes at `at`.
  int64_t hold_queue(cpu_id of, cpu_id by, int64_t at) noexcept;

  uint64_t lines_fetched() const noexcept { return fetched_; }

 private:
  struct footprint {
    uint64_t id;
    cpu_id cpu;
    uint64_t core_stamp, llc_stamp;  // what had been brought into these caches when the fiber last ran
  };
  struct object {
    cpu_id writer = cpu_id::none;
    cpu_id readers[4] = {cpu_id::none, cpu_id::none, cpu_id::none,
                         cpu_id::none};  // since then; the oldest is forgotten
    uint8_t next = 0;
    bool has(cpu_id cpu) const noexcept;
  };
  struct queue_lock {
    int64_t free_at = 0;
    cpu_id last = cpu_id::none;
  };

  size_t core_of(cpu_id c) const noexcept { return static_cast<size_t>(machine_.at(c).core); }
  size_t llc_of(cpu_id c) const noexcept { return static_cast<size_t>(machine_.at(c).llc); }
  uint64_t llc_bytes(size_t llc) const noexcept;

  const topology& machine_;
  const machine_costs& cost_;
  std::vector<uint64_t> core_in_, llc_in_;  // bytes ever brought in, by core and LLC
  std::vector<cpu_id> shared_writer_;       // by LLC
  std::vector<queue_lock> queues_;          // by cpu
  std::unordered_map<const void*, footprint> fibers_;
  std::unordered_map<const void*, object> objects_;
  uint64_t fetched_ = 0;
};

}  // namespace heddle::core
