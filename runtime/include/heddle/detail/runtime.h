// The out-of-line halves of the public API. No stability promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "heddle/detail/switch.h"

namespace heddle::core {
class scheduler;
}

namespace heddle::detail {

// ---- suspend points: {null, null} when the caller goes on at once
switch_target pick_yield();
switch_target pick_sleep(int64_t until_ns);   // steady clock
switch_target pick_join(fiber_head& joined);  // throws std::logic_error from the fiber itself
[[noreturn]] void exit_fiber();

// ---- spawning
struct spawn_attributes {
  std::string_view name;  // at most 31 bytes are kept
  int cpu = -1;           // OS id of the only cpu it may run on; -1 any
  int nice = 0;
  bool idle = false;
};
// The scheduler of the running fiber; throws std::logic_error outside of one.
core::scheduler& current_scheduler();
struct spawn_place {
  fiber_head* head;
  void* frame;  // room for the closure and the result
};
spawn_place prepare_spawn(core::scheduler& on, size_t frame_bytes, size_t frame_align, const spawn_attributes& how);
void* frame_of(fiber_head& f) noexcept;
void submit(core::scheduler& on, fiber_head& f, void (*entry)(void*));
void unprepare(fiber_head& f) noexcept;

// ---- a fiber's end
void set_error(std::exception_ptr error) noexcept;  // of the running fiber
std::exception_ptr take_error(fiber_head& f) noexcept;
std::exception_ptr take_error_and_release(fiber_head& f) noexcept;
void release(fiber_head& f) noexcept;
void detach(fiber_head& f) noexcept;
void request_stop(fiber_head& f) noexcept;
// A wait for the end that shutdown does not interrupt (destructors).
void join_shielded(fiber_head& f) noexcept;
bool join_until(fiber_head& f, int64_t until_ns);
uint64_t id_of(const fiber_head& f) noexcept;
std::string_view name_of(const fiber_head& f) noexcept;

// ---- the running fiber; null on a plain thread
fiber_head* running() noexcept;
int64_t now_ns() noexcept;
bool stop_requested() noexcept;
bool should_yield() noexcept;
int current_cpu() noexcept;

// ---- fiber-local storage
using local_destructor = void (*)(void*);
uint32_t make_local_key(local_destructor destroy);
void*& local_slot(uint32_t key);

}  // namespace heddle::detail
