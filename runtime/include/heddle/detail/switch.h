// The context switch, inlined into every public suspend point. No stability promise.
//
// A suspend point is a call `pick...()` that decides, out of line, who runs next, and then this switch, which saves only what
// a clobber list cannot carry and leaves by an indirect jump. Inlined, because a switch inside a library function returns
// into another fiber's call site: the return predictor is wrong every time, 17-22 ns instead of 5-7.
// pick returns {null, null} when there is nothing to switch to, and always in builds that switch inside pick (sanitizers,
// Boost.Context): this header is the same in all of them.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::detail {

// First member of a fiber's record. F1: sp == null means published but still on its cpu; the switch's store of sp is the
// release that lets another carrier resume it.
struct fiber_head {
  std::atomic<void*> sp{nullptr};
  uint16_t flags = 0;
  std::atomic<uint16_t> cancelled{
      0};           // the wait that just ended was cancelled; set by the canceller, who has claimed the fiber
  int16_t cpu = 0;  // the cpu that runs it or last ran it
  std::atomic<uint16_t> account{0};  // what accounting knows of it
};

[[noreturn]] void throw_cancelled(fiber_head& self);

// First members of a carrier's record. The switch clears `inside` after the stack pointer is saved (design 2b rule 2).
struct carrier_head {
  std::atomic<uint32_t> inside{0};
  std::atomic<int32_t> countdown{64};
  std::atomic<fiber_head*> current{nullptr};
};

struct switch_target {
  fiber_head* from;
  carrier_head* on;
};

static_assert(sizeof(std::atomic<void*>) == sizeof(void*) && sizeof(std::atomic<uint32_t>) == 4);

#if defined(__x86_64__)
#define HEDDLE_INLINE_SWITCH 1
#if defined(__AVX512F__)
#define HEDDLE_WIDE_CLOBBERS                                                                                    \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
      "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define HEDDLE_WIDE_CLOBBERS
#endif
// rbp and rbx are saved by hand: compilers refuse them in a clobber list when they serve as frame or base pointer.
// The 128 bytes keep the pushes out of a red zone. x87 and MXCSR control words are not switched: they belong to the thread.
[[gnu::always_inline]] inline void raw_switch(void* save, void* to, void* clear) noexcept {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%0)\n\t"  // release on x86: nothing on this stack is touched after it
      "movq %1, %%rsp\n\t"
      "movl $0, (%2)\n\t"
      "popq %%rax\n\t"
      "jmp *%%rax\n"
      "1:\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "+D"(save), "+S"(to), "+d"(clear)
      :
      : "rax", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2",
        "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15" HEDDLE_WIDE_CLOBBERS);
}
#elif defined(__aarch64__)
#define HEDDLE_INLINE_SWITCH 1
// x29 and x19 by hand (frame and base pointer); x18 is the platform's. stlr orders the saved frame before sp, and sp before
// `inside`.
[[gnu::always_inline]] inline void raw_switch(void* save, void* to, void* clear) noexcept {
  register void* r0 asm("x0") = save;
  register void* r1 asm("x1") = to;
  register void* r2 asm("x2") = clear;
  asm volatile(
      "adr x9, 1f\n\t"
      "stp x29, x19, [sp, #-32]!\n\t"
      "str x9, [sp, #16]\n\t"
      "mov x10, sp\n\t"
      "stlr x10, [%0]\n\t"
      "mov sp, %1\n\t"
      "stlr wzr, [%2]\n\t"
      "ldr x9, [sp, #16]\n\t"
      "ldp x29, x19, [sp], #32\n\t"
      "br x9\n"
      "1:"
      : "+r"(r0), "+r"(r1), "+r"(r2)
      :
      : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x20", "x21",
        "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5",
        "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
        "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#else
#define HEDDLE_INLINE_SWITCH 0
inline void raw_switch(void*, void*, void*) noexcept {}  // never reached: pick switches by itself (Boost.Context)
#endif

[[gnu::always_inline]] inline void switch_to(switch_target t) noexcept {
  raw_switch(&t.from->sp, t.on->current.load(std::memory_order_relaxed)->sp.load(std::memory_order_relaxed),
             &t.on->inside);
}

// The end of an untimed wait: the switch, and the rare bad news.
[[gnu::always_inline]] inline void suspend(switch_target t) {
  if (!t.from) return;
  switch_to(t);
  if (__builtin_expect(t.from->cancelled.load(std::memory_order_relaxed) != 0, 0)) throw_cancelled(*t.from);
}

}  // namespace heddle::detail
