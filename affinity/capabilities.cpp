#include "affinity/capabilities.h"

#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "affinity/pin.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

// Kernel ABI that older headers lack; the probes find out whether the kernel has it.
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

namespace heddle::core {

namespace {

// 0, or why a ring with these flags cannot be had.
int try_ring(unsigned flags) {
  io_uring_params params{};
  params.flags = flags;
  const long fd = ::syscall(SYS_io_uring_setup, 2, &params);
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

std::string why_no_ring(int failure) {
  switch (failure) {
    case 0:
      return "sockets and files without a helper pool";
    case EPERM:
      return "forbidden by sysctl kernel.io_uring_disabled or the container's seccomp profile; epoll is used";
    case ENOSYS:
      return "not in this kernel, or hidden by seccomp; epoll is used";
    case ENOMEM:
      return "out of locked memory: raise ulimit -l; epoll is used";
    default:
      return std::string(std::strerror(failure)) + "; epoll is used";
  }
}

capability io_uring() {
  const int failure = try_ring(0);
  return {"io_uring", failure == 0, {}, false, why_no_ring(failure)};
}

bool membarrier(int command) {
  const long supported = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return supported > 0 && (supported & command) != 0;
}

bool guard_install() {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool done = ::madvise(memory, page, MADV_GUARD_INSTALL) == 0;
  ::munmap(memory, page);
  return done;
}

bool rseq_registered() {
#if __has_include(<sys/rseq.h>)
  return __rseq_size > 0;
#else
  return false;
#endif
}

capability limit(std::string name, int resource, std::string note) {
  rlimit l{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &l);
  const bool unlimited = l.rlim_cur == RLIM_INFINITY;
  return {std::move(name), true, unlimited ? std::nullopt : std::optional<uint64_t>(l.rlim_cur), true, std::move(note)};
}

capability max_map_count() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  uint64_t count = 0;
  const bool known = static_cast<bool>(file >> count);
  return {"max_map_count", known, known ? std::optional<uint64_t>(count) : std::nullopt, true,
          "mappings; a guarded stack takes one or two: sysctl vm.max_map_count"};
}

}  // namespace

std::vector<capability> probe_capabilities() {
  const std::vector<int> mask = affinity_mask();
  const bool pinning = !mask.empty() && !allow_this_thread(mask);
  return {
      {"pinning",
       pinning,
       {},
       false,
       pinning ? "a worker stays on its CPU" : "sched_setaffinity is refused; workers float"},
      io_uring(),
      {"io_uring_coop_taskrun", try_ring(IORING_SETUP_COOP_TASKRUN) == 0, {}, false, "completions without interrupts"},
      {"io_uring_single_issuer", try_ring(IORING_SETUP_SINGLE_ISSUER) == 0, {}, false, "cheaper submission"},
      {"io_uring_defer_taskrun",
       try_ring(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) == 0,
       {},
       false,
       "completions only when asked for; used with stall_rescue=off"},
      {"membarrier_private_expedited",
       membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
       {},
       false,
       "plain stores on the hot path; without it they are exchanges"},
      {"membarrier_rseq",
       membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ),
       {},
       false,
       "a claim interrupts one CPU instead of all"},
      {"rseq", rseq_registered(), {}, false, "the C library registers restartable sequences"},
      {"madv_guard_install", guard_install(), {}, false, "stack guards that take no mapping of their own"},
      limit("memlock_bytes", RLIMIT_MEMLOCK, "locked memory, for io_uring buffers: ulimit -l"),
      max_map_count(),
      limit("open_files", RLIMIT_NOFILE, "descriptors: ulimit -n"),
      limit("processes", RLIMIT_NPROC, "threads of this user: ulimit -u"),
      limit("address_space_bytes", RLIMIT_AS, "for stacks: ulimit -v"),
  };
}

}  // namespace heddle::core
