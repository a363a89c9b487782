// Why a balance pass did what it did: the counter, the trace word and what the tests assert. Every enumerator is reached by
// a test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle::core {

#define HEDDLE_BALANCE_REASONS(X)                                                     \
  /* over: no level is left to look at now */                                         \
  X(not_due, "no level's interval has passed")                                        \
  X(switched_off, "the setting says no")                                              \
  X(outstanding, "an earlier pull has not been reported")                             \
  X(work_arrived, "there is something to run")                                        \
  X(nobody_overloaded, "no CPU has two fibers")                                       \
  X(idles_too_short, "this CPU idles for less than a search costs")                   \
  X(recently_busy, "this CPU was busy lately: it will be again")                      \
  X(too_costly, "the next level's search would outlast the idle time")                \
  X(searched, "every level was looked at")                                            \
  /* nothing to pull at this level */                                                 \
  X(diced, "searches here pay too rarely to make each")                               \
  X(no_spare, "nobody in this LLC had two fibers when it was last balanced")          \
  X(not_designated, "another CPU of the group balances this level")                   \
  X(no_busy_group, "no other group has a fiber (any more)")                           \
  X(lower_class, "the own group is of the busier class")                              \
  X(local_heavier, "the own group has the higher load")                               \
  X(above_average, "the own group has more than the average load")                    \
  X(within_pct, "the difference is below imbalance_pct")                              \
  X(puller_busy, "only an idle CPU pulls from a group that is not overloaded")        \
  X(idle_enough, "the busiest group has as many idle CPUs, or one fewer")             \
  X(single_fiber, "the busiest group has one fiber, which runs")                      \
  X(no_imbalance, "unbalanced, but by less than one fiber")                           \
  X(only_pinned, "all it has to give may not run here")                               \
  /* a pull */                                                                        \
  X(pull_load, "overloaded: load down to the average")                                \
  X(pull_small, "less than a fiber is missing, but it would not be the worse for it") \
  X(pull_util, "the own group has room for some of the busiest one's work")           \
  X(pull_spare, "as many idle CPUs here as there")                                    \
  X(pull_sibling, "fibers spread over the groups of a level that prefers it")         \
  X(pull_smt, "a fiber shares its core while this CPU idles")                         \
  X(pull_imbalanced, "affinity kept an earlier pass from evening out the group")      \
  X(pull_misfit, "a fiber needs a faster CPU")                                        \
  X(pull_random, "whoever has something, found by chance")                            \
  X(pull_retry, "what may not run here may run on a neighbour")                       \
  X(push_running, "nothing queued would move: the running fiber is asked for")        \
  /* what came of it */                                                               \
  X(moved, "fibers moved")                                                            \
  X(failed, "nothing moved")

enum class balance_reason : uint8_t {
#define X(name, meaning) name,
  HEDDLE_BALANCE_REASONS(X)
#undef X
};

inline constexpr std::array balance_reason_names = {
#define X(name, meaning) std::string_view{#name},
    HEDDLE_BALANCE_REASONS(X)
#undef X
};
inline constexpr std::array balance_reason_meanings = {
#define X(name, meaning) std::string_view{meaning},
    HEDDLE_BALANCE_REASONS(X)
#undef X
};
inline constexpr size_t balance_reason_count = balance_reason_names.size();

constexpr std::string_view to_string(balance_reason reason) noexcept {
  return balance_reason_names[static_cast<size_t>(reason)];
}

}  // namespace heddle::core
