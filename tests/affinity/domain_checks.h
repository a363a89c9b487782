// What must hold of the domains of any machine (policy-reference 1.4), for every test that has a machine at hand.
#pragma once

#include <doctest/doctest.h>

#include <set>

#include "affinity/domains.h"

namespace heddle_test {

using namespace heddle::core;

inline void check_domain_invariants(const topology& machine, const domain_tree& tree) {
  CAPTURE(machine.name);
  bool grow = true, whole_top = true, cover = true, disjoint = true, local = true, masks = true, closed = true,
       flags = true;
  std::set<const sched_span*> seen;
  for (cpu_id c : machine.all()) {
    const auto chain = tree.chain(c);
    if (machine.cpu_count() == 1) {
      CHECK(chain.empty());
      return;
    }
    if (chain.empty() || chain.back().span() != machine.all()) whole_top = false;
    for (size_t i = 0; i < chain.size(); i++) {
      const sched_domain& d = chain[i];
      const cpu_set* const below = i > 0 ? &chain[i - 1].span() : nullptr;
      if (!d.span().has(c)) grow = false;
      if (below != nullptr && (!d.span().contains(*below) || d.span() == *below)) grow = false;
      // The local group is the whole of what lies below.
      if (d.group(0).span != (below != nullptr ? *below : cpu_set{static_cast<int>(c)})) local = false;
      if (i > 0)
        for (uint32_t flag : {df_share_llc, df_share_capacity})
          if (d.has(flag) && !chain[i - 1].has(flag)) closed = false;
      if (!seen.insert(d.shared).second) continue;

      cpu_set covered;
      size_t members = 0;
      for (const sched_group& g : d.shared->groups) {
        covered |= g.span;
        members += g.span.count();
        if (g.balance_mask.empty() || !g.span.contains(g.balance_mask)) masks = false;
        if (g.cores < 1) masks = false;
      }
      if (covered != d.span() || d.shared->weight != d.span().count() || d.group_count() < 2) cover = false;
      if (!d.has(df_numa) && members != covered.count()) disjoint = false;
      if (d.has(df_numa) == d.has(df_prefer_sibling)) flags = false;
    }
  }
  CHECK_MESSAGE(grow, "INV-D1: spans strictly grow upward");
  CHECK_MESSAGE(cover, "INV-D2: groups cover the domain, at least two of them");
  CHECK_MESSAGE(disjoint, "INV-D2: groups are disjoint below NUMA");
  CHECK_MESSAGE(whole_top, "INV-D3: the top domain spans all CPUs");
  CHECK_MESSAGE(closed, "INV-D5: share_llc and share_capacity are closed downward");
  CHECK_MESSAGE(local, "the local group is the child's span");
  CHECK_MESSAGE(masks, "a balance mask is never empty and lies in its group");
  CHECK_MESSAGE(flags, "prefer_sibling exactly where a domain is not NUMA");
}

}  // namespace heddle_test
