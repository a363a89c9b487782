#include "bench_apps/micro/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench_apps/common/interrupt.h"
#include "bench_apps/common/statistics.h"
#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {
namespace {

struct collected {
  std::vector<double> values;
  std::vector<double> cpu_ns;
};
using collection = std::map<std::string, collected, std::less<>>;

void add(collection& all, const round& one) {
  for (const auto& [name, reading] : one.readings()) {
    all[name].values.push_back(reading.value);
    if (reading.cpu_ns_per_op) all[name].cpu_ns.push_back(*reading.cpu_ns_per_op);
  }
}

bool wanted(const plan& p, const family& f) {
  return p.only.has(f) && (p.fixed || f.workers == 0) && std::max(f.workers, p.workers) <= p.cpus.size();
}

// How many times as dear this machine is as the reference; 1 where the anchor is missing.
double dearness(anchor which, const collection& all) {
  for (const anchor_info& a : anchor_list())
    if (a.which == which)
      if (const auto found = all.find(a.name); found != all.end()) return *median(found->second.values) / a.reference;
  return 1;
}

outcome conclude(const figure_info& info, const collected& found, const collection& all) {
  outcome o{.info = info, .values = found.values, .median = *median(found.values)};
  std::ranges::sort(o.values);
  o.cpu_ns_per_op = median(found.cpu_ns);
  const double dear = dearness(info.scaled_by, all);
  const auto here = [&](std::optional<double> there) -> std::optional<double> {
    if (!there) return std::nullopt;
    return info.better == direction::lower ? *there * dear : *there / dear;
  };
  o.limit_here = here(info.limit);
  o.target_here = here(info.target);
  return o;
}

void note_left_out(const plan& p, outcomes& out) {
  for (const chapter& c : chapters())
    for (const family* f : c.families)
      if (p.only.has(*f) && p.fixed && f->workers > p.cpus.size())
        out.notes.push_back(
            fmt::format("{}: needs {} CPUs, {} may be used", f->figures.front().name, f->workers, p.cpus.size()));
}

}  // namespace

bool outcome::holds() const {
  return !target_here || (info.better == direction::lower ? median <= *target_here : median >= *target_here);
}

ordered_json range_json(const outcome& o) {
  ordered_json out = {{"min", o.values.front()}, {"max", o.values.back()}, {"rounds", o.values.size()}};
  if (o.cpu_ns_per_op) out["cpu_ns_per_op"] = *o.cpu_ns_per_op;
  if (o.limit_here) out["limit"] = *o.limit_here;
  if (o.target_here) {
    out["target"] = *o.target_here;
    out["meets_target"] = o.holds();
  }
  return out;
}

outcomes run_rounds(const plan& p, const std::function<void(const std::string&)>& begin) {
  outcomes out;
  collection all;
  for (int64_t n = 0; n < p.rounds; n++)
    for (const chapter& c : chapters())
      for (const family* f : c.families) {
        if (!wanted(p, *f) || n >= f->rounds_max || stop_requested()) continue;
        begin(fmt::format("{}, round {} of {}", f->figures.front().name, n + 1, p.rounds));
        round one({.workers = p.workers,
                   .cpus = p.cpus,
                   .settings = p.settings,
                   .seed = p.seed + static_cast<uint64_t>(n),
                   .live = p.live,
                   .part = p.part});
        f->measure(one);
        add(all, one);
        for (const std::string& note : one.notes())
          if (std::ranges::find(out.notes, note) == out.notes.end()) out.notes.push_back(note);
      }
  for (const chapter& c : chapters())
    for (const family* f : c.families)
      for (const figure_info& info : f->figures)
        if (const auto found = all.find(info.name); found != all.end() && p.only.has(info.name))
          out.figures.push_back(conclude(info, found->second, all));
  note_left_out(p, out);
  return out;
}

}  // namespace heddle::bench::micro
