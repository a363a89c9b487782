#include "runtime/machine/caches.h"

#include <algorithm>

#include "runtime/base/atomic.h"

namespace heddle::core {
namespace {

constexpr uint64_t line_bytes = 64;
constexpr uint64_t assumed_llc_bytes = 32u << 20;  // where the description has no cache

uint64_t lines_of(uint64_t bytes) noexcept { return (bytes + line_bytes - 1) / line_bytes; }

// What is left of `bytes` in a cache of `size` after others brought in `foreign`.
uint64_t resident(uint64_t bytes, uint64_t foreign, uint64_t size) noexcept {
  const uint64_t room = std::min(bytes, size);
  if (foreign >= size) return 0;
  return static_cast<uint64_t>(static_cast<double>(room) * static_cast<double>(size - foreign) /
                               static_cast<double>(size));
}

}  // namespace

cache_model::cache_model(const topology& cpus, const machine_costs& cost)
    : machine_(cpus),
      cost_(cost),
      core_in_(cpus.cores.size()),
      llc_in_(cpus.llcs.size()),
      shared_writer_(cpus.llcs.size(), cpu_id::none),
      queues_(cpus.cpu_count()) {}

int64_t cache_model::line(cpu_id from, cpu_id to) const noexcept {
  if (from == to || !valid(from) || !valid(to)) return 0;
  if (machine_.share_core(from, to)) return cost_.line_core;
  if (machine_.share_llc(from, to)) return cost_.line_llc;
  if (machine_.at(from).node == machine_.at(to).node) return cost_.line_node;
  return cost_.line_far * machine_.distance(from, to) / 20;
}

// probe_ns is the price inside an LLC; elsewhere it grows as lines do.
int64_t cache_model::probes(cpu_id by, cpu_id about, uint64_t rows) const noexcept {
  if (rows == 0 || cost_.probe == 0) return 0;
  const int64_t price = by == about ? cost_.line_llc : std::max(line(by, about), cost_.line_llc);
  return static_cast<int64_t>(rows) * cost_.probe * price / std::max<int64_t>(1, cost_.line_llc);
}

int64_t cache_model::probe_domain(cpu_id by, size_t span) const noexcept {
  const size_t llc = std::min(span, machine_.llc_of(by).count());
  const size_t node = std::min(span, std::max(llc, machine_.node_of(by).count()));
  const int64_t unit = std::max<int64_t>(1, cost_.line_llc);
  return cost_.probe * (static_cast<int64_t>(llc) + static_cast<int64_t>(node - llc) * cost_.line_node / unit +
                        static_cast<int64_t>(span - node) * cost_.line_far / unit);
}

uint64_t cache_model::llc_bytes(size_t llc) const noexcept {
  const uint64_t said = llc < machine_.llc_caches.size() ? machine_.llc_caches[llc].bytes : 0;
  return said ? said : assumed_llc_bytes;
}

int64_t cache_model::refill(const void* key, uint64_t id, cpu_id cpu, size_t bytes) {
  if (bytes == 0) return 0;
  const size_t core = core_of(cpu), llc = llc_of(cpu);
  const auto [at, first] = fibers_.try_emplace(key, footprint{id, cpu, 0, 0});
  footprint& f = at->second;
  const bool fresh = first || f.id != id;
  const bool same_llc = !fresh && llc_of(f.cpu) == llc;
  const bool same_core = same_llc && core_of(f.cpu) == core;
  const uint64_t in_llc = same_llc ? resident(bytes, llc_in_[llc] - f.llc_stamp, llc_bytes(llc)) : 0;
  const uint64_t in_core =
      std::min(in_llc, same_core ? resident(bytes, core_in_[core] - f.core_stamp, cost_.core_cache_bytes) : 0);
  const auto from_llc = static_cast<int64_t>(lines_of(in_llc - in_core));
  const auto from_outside = static_cast<int64_t>(lines_of(bytes - in_llc));
  const int64_t outside = fresh ? cost_.line_node : std::max(cost_.line_node, line(f.cpu, cpu));
  core_in_[core] += bytes - in_core;
  llc_in_[llc] += bytes - in_llc;
  fetched_ += static_cast<uint64_t>(from_llc + from_outside);
  f = {id, cpu, core_in_[core], llc_in_[llc]};
  return (from_llc * cost_.line_llc + from_outside * outside) / std::max<int64_t>(1, cost_.refill_overlap);
}

bool cache_model::object::has(cpu_id cpu) const noexcept {
  return writer == cpu || std::find(std::begin(readers), std::end(readers), cpu) != std::end(readers);
}

// A read fetches from the last writer once; a write also from whoever read since, the farthest of them.
int64_t cache_model::touch(const void* what, size_t bytes, access how, cpu_id cpu) {
  object& o = objects_[what];
  int64_t price = 0;
  if (how == access::read) {
    if (!o.has(cpu)) {
      price = line(o.writer, cpu);
      o.readers[o.next] = cpu;
      o.next = static_cast<uint8_t>((o.next + 1) % std::size(o.readers));
    }
  } else {
    price = line(o.writer, cpu);
    for (const cpu_id r : o.readers) price = std::max(price, line(r, cpu));
    o = {};
    o.writer = cpu;
  }
  const auto lines = static_cast<int64_t>(lines_of(std::max<size_t>(1, bytes)));
  if (price > 0) fetched_ += static_cast<uint64_t>(lines);
  // The first line is waited for, those behind it are fetched ahead.
  return price + (lines - 1) * price / std::max<int64_t>(1, cost_.refill_overlap);
}

int64_t cache_model::write_shared(int llc, cpu_id by, uint64_t times) noexcept {
  cpu_id& last = shared_writer_[static_cast<size_t>(llc)];
  const int64_t price = times > 0 ? line(last, by) : 0;
  if (times > 0) last = by;
  return price;
}

int64_t cache_model::hold_queue(cpu_id of, cpu_id by, int64_t at) noexcept {
  if (cost_.lock == 0) return at;
  queue_lock& q = queues_[index_of(of)];
  const int64_t mine = std::max(at, q.free_at) + line(q.last, by);
  q.last = by;
  return q.free_at = mine + cost_.lock;
}

}  // namespace heddle::core
