// What a plain thread has to do with machines: the thread that made a virtual runtime drives its clock.
#pragma once

#include "heddle/detail/switch.h"
#include "runtime/fiber/fiber.h"
#include "runtime/machine/machine.h"

namespace heddle::detail {
switch_target pick_yield_thread();
switch_target pick_sleep_thread(int64_t until_ns);
void join_thread(fiber_head& f);
bool take_back_join(core::fiber_record& joined, core::fiber_record& me) noexcept;
}  // namespace heddle::detail

namespace heddle::core {

// What a plain thread's wait without a deadline throws (shutdown_error) when it can never end.
inline constexpr const char* deadlock_text =
    "heddle: deadlock: this wait can never end, nothing happens on the virtual machine any more";

void drive_by_this_thread(machine* m) noexcept;
machine* machine_of_this_thread() noexcept;
// The running fiber's work was cut short: its next operation ticks if it is time to.
void note_interrupt() noexcept;
void notify_word(std::atomic<uint32_t>& word) noexcept;

}  // namespace heddle::core
