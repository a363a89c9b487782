// What an app's roles stand on. The same app code, a template over a backend, runs on kernel threads and on fibers; what
// differs between the two rows of a table is the backend and nothing else.
//
// A backend is an object made for one run:
//   run(fn)            calls fn as the directing role and returns when fn has
//   spawn(name, fn)    starts a role; the handle joins, and join() rethrows
//   now, sleep_for, sleep_until, yield, cpu
//   burn(d)            d worth of calibrated work, however long that takes
//   spin_until(t)      until the clock says so, however little work that is
//   multiply(a, b, c, side)   a matrix product of 64-bit integers
//   touch(p, n, a)     what roles communicate: a memory access on the host, charged by distance on a virtual machine
//   word               a flag one role waits for: reset, post (only a post that finds it down wakes), wait (takes it down),
//                      wait_until (false once the deadline has come)
//   mutex, condition_variable, semaphore   as the standard's, with std::unique_lock
//   cpu_count, llc_of_cpu   what the roles run on; cpu() and llc_of_cpu() speak OS ids
//   describe(result)   workers, machine, settings and counters for the result
#pragma once

#include <concepts>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "bench_apps/common/app.h"

namespace heddle::bench {

enum class access { read, write };

template <class B>
concept backend = requires(B& b, nanos d, void* p, uint64_t* matrix, run_result& result, typename B::word& word,
                           typename B::mutex& mutex, typename B::condition_variable& condition,
                           typename B::semaphore& semaphore, std::unique_lock<typename B::mutex>& lock) {
  { B::kind } -> std::convertible_to<backend_kind>;
  b.run([] {});
  b.spawn(std::string(), [] {}).join();
  { b.now() } -> std::same_as<nanos>;
  b.sleep_for(d);
  b.sleep_until(d);
  b.yield();
  { b.cpu() } -> std::convertible_to<int>;
  b.burn(d);
  b.spin_until(d);
  b.touch(p, size_t{}, access::read);
  b.multiply(matrix, matrix, matrix, 1);
  { b.cpu_count() } -> std::convertible_to<int>;
  { b.llc_of_cpu() } -> std::same_as<std::vector<int>>;
  b.describe(result);
  word.reset();
  word.post();
  word.wait();
  { word.wait_until(d) } -> std::same_as<bool>;
  mutex.lock();
  mutex.unlock();
  condition.wait(lock);
  condition.notify_one();
  condition.notify_all();
  semaphore.acquire();
  semaphore.release();
};

}  // namespace heddle::bench
