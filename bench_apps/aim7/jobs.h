// What aim7's jobs are: their names, families, and how much one of them does. Told once, in `job_kinds`; who does the work is
// room.h.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "runtime/base/ids.h"

namespace heddle::bench::aim7 {

using core::nanos;

enum class family {
  arithmetic,
  numeric,
  memory,
  ipc,
  process,
  metadata,
  disk_buffered,
  disk_direct,
  disk_sync,
  sleep,
};
inline constexpr size_t family_count = 10;
std::string_view name_of(family f);

enum class job {
  add_long,
  add_double,
  multiply_long,
  multiply_double,
  divide_long,
  divide_double,
  sieve,
  sort,
  solve,
  transform,
  strings,
  blocks,
  copy,
  pipe,
  stream,
  queue,
  shared,
  signal,
  event,
  spawn,
  files,
  disk_write,
  disk_read,
  disk_copy,
  direct_write,
  direct_read,
  sync_write,
  sync_copy,
  sleep,
};
inline constexpr size_t job_count = 29;

struct job_kind {
  job what;
  std::string_view name;
  family in;
  uint64_t times;   // of its unit, with --size 1: the sizes of the original where it is known
  uint64_t cpu_ns;  // of a unit, for a machine on which time passes without work; 0 where it comes from what is done
};

const std::array<job_kind, job_count>& job_kinds();
inline const job_kind& kind_of(job j) { return job_kinds()[static_cast<size_t>(j)]; }
std::optional<job> find_job(std::string_view name);
std::optional<family> find_family(std::string_view name);

// Work that neither sleeps nor waits, so that its shortest duration is about what it costs.
inline bool computes(family f) { return f == family::arithmetic || f == family::numeric || f == family::memory; }
inline bool uses_files(family f) {
  return f == family::metadata || f == family::disk_buffered || f == family::disk_direct || f == family::disk_sync;
}

}  // namespace heddle::bench::aim7
