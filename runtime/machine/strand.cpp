#include "runtime/machine/strand.h"

#include <cxxabi.h>

#include <cerrno>

#if HEDDLE_BOOST_SWITCH
#include <boost/context/detail/fcontext.hpp>
#endif
#if HEDDLE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if HEDDLE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace heddle::core {
namespace {

#if HEDDLE_ASAN
// Who handed over to us: ASan tells on arrival which stack was left, so nobody has to know where a strand stood.
thread_local strand* left = nullptr;
#endif

#if HEDDLE_BOOST_SWITCH
thread_local strand* beginning = nullptr;
thread_local void (*first_call)() = nullptr;

void begin(boost::context::detail::transfer_t arrived) {
  static_cast<strand*>(arrived.data)->sp = arrived.fctx;
  first_call();
  __builtin_trap();
}
#endif

#if HEDDLE_TSAN
__attribute__((no_sanitize("thread"), noinline))
#else
[[gnu::noinline]]
#endif
void jump(strand& from, strand& to) noexcept {
#if HEDDLE_BOOST_SWITCH
  const auto arrived = boost::context::detail::jump_fcontext(to.sp, &from);
  static_cast<strand*>(arrived.data)->sp = arrived.fctx;
#else
  uint32_t no_bracket = 0;
  detail::raw_switch(&from.sp, to.sp, &no_bracket);
#endif
}

}  // namespace

void prepare_strand(strand& s, fiber_record& memory, void (*entry)()) noexcept {
  memory.frame = nullptr;
  clean_stack(memory);  // the mapping may have been another machine's, whose strands never returned
#if HEDDLE_BOOST_SWITCH
  first_call = entry;
  s.sp = boost::context::detail::make_fcontext(memory.stack_top,
                                               static_cast<size_t>(memory.stack_top - memory.stack_low), begin);
#else
  prepare_context(memory, entry);
  s.sp = memory.sp.load(relaxed);
#endif
  s.stack_low = memory.stack_low;
  s.stack_bytes = static_cast<size_t>(memory.stack_top - memory.stack_low);
  s.sanitizer = memory.sanitizer;
}

void adopt_strand([[maybe_unused]] strand& s) noexcept {
#if HEDDLE_TSAN
  s.sanitizer = __tsan_get_current_fiber();
#endif
}

void entered_strand() noexcept {
#if HEDDLE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &left->stack_low, &left->stack_bytes);
#endif
}

void hand_over(strand& from, strand& to) noexcept {
  struct globals {
    void* caught;
    unsigned uncaught;
  };
  auto& exceptions = *reinterpret_cast<globals*>(abi::__cxa_get_globals());
  from.runs = this_carrier();
  from.eh_caught = exceptions.caught;
  from.eh_uncaught = exceptions.uncaught;
  from.err = errno;
  set_this_carrier(to.runs);
  exceptions = {to.eh_caught, to.eh_uncaught};
  errno = to.err;
#if HEDDLE_ASAN
  void* fake = nullptr;
  left = &from;
  __sanitizer_start_switch_fiber(&fake, to.stack_low, to.stack_bytes);
#endif
#if HEDDLE_TSAN
  from.sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.sanitizer, 0);  // one kernel thread: hand-overs do order
#endif
  jump(from, to);
#if HEDDLE_ASAN
  __sanitizer_finish_switch_fiber(fake, &left->stack_low, &left->stack_bytes);
#endif
}

}  // namespace heddle::core
