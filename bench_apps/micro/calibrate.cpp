#include "bench_apps/micro/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle::bench::micro {
namespace {

class costs_file {
 public:
  explicit costs_file(const outcomes& found) : found_(found) {}

  std::optional<double> figure(std::string_view name) const {
    for (const outcome& o : found_.figures)
      if (o.info.name == name && !o.values.empty()) return o.median;
    return std::nullopt;
  }
  void line(std::string_view setting, std::optional<double> ns, std::string_view how) {
    if (ns)
      text_ += fmt::format("{}={}  # {}\n", setting, std::llround(std::max(0.0, *ns)), how);
    else
      text_ += fmt::format("# {}: not measured here ({})\n", setting, how);
  }
  const std::string& text() const { return text_; }

 private:
  const outcomes& found_;
  std::string text_ = "# costs of this machine, by heddle micro --calibrate; use with --machine M --costs FILE\n";
};

std::optional<double> minus(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a - *b) : std::nullopt;
}
std::optional<double> times(std::optional<double> a, double factor) {
  return a ? std::optional(*a * factor) : std::nullopt;
}

// The first two cpus are those that the anchor measures between.
std::string_view line_between(const core::topology& m) {
  if (m.cpu_count() < 2) return "vm_line_llc_ns";
  const auto a = core::to_cpu(0), b = core::to_cpu(1);
  if (m.share_core(a, b)) return "vm_line_core_ns";
  if (m.share_llc(a, b)) return "vm_line_llc_ns";
  return m.at(a).node == m.at(b).node ? "vm_line_node_ns" : "vm_line_far_ns";
}

}  // namespace

std::string costs_text(const outcomes& found, const core::topology& machine) {
  costs_file out(found);
  const auto bare = out.figure("switch_ns"), yield = out.figure("yield2_ns"), woken = out.figure("wake_ns");
  const auto cross = times(out.figure("pingpong_cross_ns"), 0.5), line = times(out.figure("anchor_line_ns"), 0.5);
  out.line("vm_switch_ns", bare, "switch_ns");
  out.line("vm_op_ns", minus(yield, bare), "yield2_ns - switch_ns");
  out.line("vm_wake_ns", minus(woken, yield), "wake_ns - yield2_ns: the wakee runs and waits again");
  out.line("vm_spawn_ns", minus(out.figure("spawn_join_ns"), times(yield, 2)), "spawn_join_ns - 2 yield2_ns");
  out.line(line_between(machine), line, "anchor_line_ns / 2: one way");
  out.line("vm_wake_polling_ns", minus(minus(cross, woken), line), "pingpong_cross_ns / 2 - wake_ns - line");
  out.line("vm_wake_parked_ns", times(out.figure("anchor_futex_us"), 1000),
           "anchor_futex_us: its sleeper is not long asleep");
  out.line("vm_deep_idle_ns",
           minus(times(out.figure("extwake_p50_us"), 1000), times(out.figure("anchor_futex_us"), 1000)),
           "extwake_p50_us - anchor_futex_us: the runtime had idled");
  return out.text();
}

}  // namespace heddle::bench::micro
