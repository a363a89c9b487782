#include "runtime/fiber/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "runtime/base/check.h"
#include "runtime/base/mutants.h"
#include "runtime/fiber/context.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102  // Linux 6.13
#endif

namespace heddle::core {
namespace {

// A stack top is moved down by up to half a page, in steps of three lines: frames at one page offset would fight for the
// same sets of the first cache (11.4 against 5.0 ns a switch among 1000 fibers). More would cost a second page each.
constexpr size_t colour_step_bytes = 3 * cache_line, colour_range_bytes = 2048;

enum class guard { install, protect };

guard probe_guard() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* p = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return guard::protect;
  const bool works = madvise(p, page, MADV_GUARD_INSTALL) == 0;
  munmap(p, page);
  return works ? guard::install : guard::protect;
}

guard guard_form() {
  static const guard form = probe_guard();
  return form;
}

long map_limit() {
  long limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit;
}

[[noreturn]] void throw_no_memory(int error, const char* what, uint64_t made) {
  std::string text = "fiber stacks: ";
  text += what;
  text += " failed after " + std::to_string(made) + " fibers";
  if (error == ENOMEM) text += " (vm.max_map_count is " + std::to_string(map_limit()) + ", see also ulimit -v)";
  throw std::system_error(error, std::generic_category(), text);
}

}  // namespace

struct fiber_pool::slab {
  char* memory = nullptr;
  size_t bytes = 0;
  size_t count = 0;
  std::unique_ptr<fiber_record[]> records;
  slab* older = nullptr;

  ~slab() {
    for (size_t i = 0; i < count; i++) drop_context(records[i]);
    if (memory) munmap(memory, bytes);
  }
};

// AddressSanitizer makes frames several times larger; what fits into a stack elsewhere has to fit under it too.
constexpr size_t frame_growth = HEDDLE_ASAN ? 4 : 1;

fiber_pool::fiber_pool(size_t stack_bytes) : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
  stack_bytes_ = (std::max(stack_bytes, size_t{8192}) * frame_growth + page_bytes_ - 1) / page_bytes_ * page_bytes_;
}

fiber_pool::~fiber_pool() = default;

const char* fiber_pool::guard_kind() const noexcept {
  return guard_form() == guard::install ? "MADV_GUARD_INSTALL" : "mprotect";
}

// Slabs double from 16 fibers to 1024: a small program maps little, a million fibers need a thousand mappings.
void fiber_pool::grow() {
  const size_t count = std::min<size_t>(1024, std::max<size_t>(16, made_));
  if (slabs_until_failure_-- == 0) throw_no_memory(ENOMEM, "mmap", made_);
  const size_t stride = stack_bytes_ + page_bytes_;
  auto s = std::make_unique<slab>();
  s->bytes = count * stride;
  void* memory = mmap(nullptr, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_no_memory(errno, "mmap", made_);
  s->memory = static_cast<char*>(memory);
  for (size_t i = 0; i < count; i++) {
    char* guard_page = s->memory + i * stride;
    const int failed = guard_form() == guard::install ? madvise(guard_page, page_bytes_, MADV_GUARD_INSTALL)
                                                      : mprotect(guard_page, page_bytes_, PROT_NONE);
    if (failed) throw_no_memory(errno, "a guard page", made_);
  }
  s->records = std::make_unique<fiber_record[]>(count);
  s->count = count;
  for (size_t i = 0; i < count; i++) {
    fiber_record& f = s->records[i];
    f.id = made_++;
    f.stack_low = s->memory + i * stride + page_bytes_;
    f.stack_top = s->memory + (i + 1) * stride - f.id * colour_step_bytes % colour_range_bytes;
    f.sp.store(f.stack_top, relaxed);  // F1: not on any cpu
  }
  for (size_t i = count; i-- > 0;) {
    s->records[i].next = free_;
    free_ = &s->records[i];
  }
  s->older = newest_.load(relaxed);
  newest_.store(s.get(), release);
  slabs_.push_back(std::move(s));
}

waitable* fiber_pool::take(size_t want) {
  HEDDLE_ASSERT(want > 0);
  std::lock_guard guard(lock_);
  const unbroken whole;
  // A joiner may be here before the fiber it joined has switched; waiting for that could mean waiting for a preempted carrier.
  // At most one per carrier is in that state.
  waitable** link = &free_;
  while (*link && !(*link)->sp.load(acquire) && !is_planted(mutant::reuse_unsaved)) link = &(*link)->next;
  if (!*link) {
    grow();
    link = &free_;
  }
  waitable* first = *link;
  waitable* last = first;
  for (size_t i = 1; i < want && last->next && last->next->sp.load(acquire); i++) last = last->next;
  *link = last->next;
  last->next = nullptr;
  return first;
}

void fiber_pool::give(waitable* chain) noexcept {
  if (!chain) return;
  waitable* last = chain;
  while (last->next) last = last->next;
  std::lock_guard guard(lock_);
  const unbroken whole;
  last->next = free_;
  free_ = chain;
}

void fiber_pool::for_each(const std::function<void(fiber_record&)>& visit) const {
  for (slab* s = newest_.load(acquire); s; s = s->older)
    for (size_t i = 0; i < s->count; i++) visit(s->records[i]);
}

const fiber_record* fiber_pool::guard_hit(const void* address) const noexcept {
  const auto* at = static_cast<const char*>(address);
  const size_t stride = stack_bytes_ + page_bytes_;
  for (slab* s = newest_.load(acquire); s; s = s->older) {
    if (at < s->memory || at >= s->memory + s->bytes) continue;
    const auto offset = static_cast<size_t>(at - s->memory);
    return offset % stride < page_bytes_ ? &s->records[offset / stride] : nullptr;
  }
  return nullptr;
}

}  // namespace heddle::core
