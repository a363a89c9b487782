#include "bench_apps/aim7/jobs.h"

#include <algorithm>

namespace heddle::bench::aim7 {
namespace {

constexpr std::string_view family_names[] = {"arithmetic", "numeric",       "memory",      "ipc",       "process",
                                             "metadata",   "disk_buffered", "disk_direct", "disk_sync", "sleep"};
static_assert(std::size(family_names) == family_count);

// Times: 12 M additions, 2.4 M multiplications, 0.9 M divisions, 5 sieves, 10 sorts, 20 systems, 100 batches of points, 100
// messages, 1000 signals, 100 tasks, 1000 files. Disk jobs move a file, whose size depends on the number of users.
// Nanoseconds: of one core of a 3 GHz server, to the digit that matters.
constexpr std::array<job_kind, job_count> kinds = {{
    {job::add_long, "add_long", family::arithmetic, 12'000'000, 1},
    {job::add_double, "add_double", family::arithmetic, 12'000'000, 1},
    {job::multiply_long, "multiply_long", family::arithmetic, 2'400'000, 1},
    {job::multiply_double, "multiply_double", family::arithmetic, 2'400'000, 1},
    {job::divide_long, "divide_long", family::arithmetic, 900'000, 6},
    {job::divide_double, "divide_double", family::arithmetic, 900'000, 4},
    {job::sieve, "sieve", family::numeric, 5, 3'000'000},
    {job::sort, "sort", family::numeric, 10, 600'000},
    {job::solve, "solve", family::numeric, 20, 60'000},
    {job::transform, "transform", family::numeric, 100, 3'000},
    {job::strings, "strings", family::numeric, 1'000, 3'000},
    {job::blocks, "blocks", family::memory, 100, 8'000},
    {job::copy, "copy", family::memory, 20, 100'000},
    {job::pipe, "pipe", family::ipc, 100, 0},
    {job::stream, "stream", family::ipc, 100, 0},
    {job::queue, "queue", family::ipc, 100, 0},
    {job::shared, "shared", family::ipc, 100, 0},
    {job::signal, "signal", family::ipc, 1'000, 0},
    {job::event, "event", family::ipc, 100, 0},
    {job::spawn, "spawn", family::process, 100, 0},
    {job::files, "files", family::metadata, 1'000, 0},
    {job::disk_write, "disk_write", family::disk_buffered, 1, 0},
    {job::disk_read, "disk_read", family::disk_buffered, 1, 0},
    {job::disk_copy, "disk_copy", family::disk_buffered, 1, 0},
    {job::direct_write, "direct_write", family::disk_direct, 1, 0},
    {job::direct_read, "direct_read", family::disk_direct, 1, 0},
    {job::sync_write, "sync_write", family::disk_sync, 1, 0},
    {job::sync_copy, "sync_copy", family::disk_sync, 1, 0},
    {job::sleep, "sleep", family::sleep, 1, 0},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kinds.size(); i++)
    if (kinds[i].what != static_cast<job>(i)) return false;
  return true;
}
static_assert(in_order());

}  // namespace

std::string_view name_of(family f) { return family_names[static_cast<size_t>(f)]; }

const std::array<job_kind, job_count>& job_kinds() { return kinds; }

std::optional<job> find_job(std::string_view name) {
  const auto at = std::ranges::find(kinds, name, &job_kind::name);
  return at == kinds.end() ? std::nullopt : std::optional(at->what);
}

std::optional<family> find_family(std::string_view name) {
  const auto at = std::ranges::find(family_names, name);
  if (at == std::end(family_names)) return {};
  return static_cast<family>(at - std::begin(family_names));
}

}  // namespace heddle::bench::aim7
