#include "affinity/fork.h"

#include "affinity/slow_path.h"

namespace heddle::core {

std::string_view to_string(fork_reason reason) noexcept {
#define HEDDLE_NAME(name, meaning) #name,
  static constexpr std::string_view names[] = {HEDDLE_FORK_REASONS(HEDDLE_NAME)};
#undef HEDDLE_NAME
  return names[static_cast<size_t>(reason)];
}

fork_placement place_fork(const topology& machine, const domain_tree& domains, board& state, const settings& set,
                          const fork_request& request) noexcept {
  const policy_view v{machine, domains, state, set};
  const cpu_set* allowed = request.allowed;
  if (allowed != nullptr) {
    const cpu_id lowest = allowed->lowest();
    if (!valid(allowed->next(to_cpu(index_of(lowest) + 1)))) return {lowest, fork_reason::fork_pinned};
  }

  // Who spawns from outside has no CPU to be local to.
  const bool outside = !valid(request.parent);
  const cpu_id from = outside ? to_cpu(0) : request.parent;
  fork_placement p{from};
  if (outside || set.fork_path == fork_path_t::slow) {
    if (const sched_domain* top = widest_with(v, from, df_balance_fork)) {
      const slow_answer answer = find_idlest(v, *top,
                                             {.from = from,
                                              .load = request.load,
                                              .allowed = allowed,
                                              .flag = df_balance_fork,
                                              .fork = true,
                                              .now = request.now});
      p.probes = answer.probes;
      if (valid(answer.cpu)) return {answer.cpu, fork_reason::fork_idlest, p.probes};
    }
  }
  if (allowed_on(allowed, from)) return p;
  return {nearest_allowed(v, from, *allowed), fork_reason::fork_near, p.probes};
}

}  // namespace heddle::core
