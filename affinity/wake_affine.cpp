#include "affinity/wake_affine.h"

#include <algorithm>

#include "affinity/idler_llc.h"

namespace heddle::core {
namespace {

struct choice {
  cpu_id cpu = cpu_id::none;  // none: this rule is silent
  affine_reason reason = affine_reason::wa_undecided;
  bool llcs_full = false;
};

// 3.4: a CPU whose idle periods are short is being woken all the time; decayed loads of long sleepers would call it empty.
bool in_burst(const policy_view& v, cpu_id a, cpu_id b) noexcept {
  const int64_t threshold = v.set.wa_burst_ns;
  return threshold > 0 &&
         (v.board.row(a).avg_idle.load(relaxed) < threshold || v.board.row(b).avg_idle.load(relaxed) < threshold);
}

choice wa_idle(const policy_view& v, cpu_id here, cpu_id prev, bool sync) noexcept {
  // Only wake-ups from outside fibers find this idle: a waking fiber makes it busy.
  if (v.board.idle(here) && v.machine.share_llc(here, prev)) {
    if (v.set.wa_idle_prefer_prev && v.board.idle(prev)) return {prev, affine_reason::wa_idle_prev};
    return {here, affine_reason::wa_idle_this};
  }
  // Beats an idle prev: the waker's CPU is about to be free, and warm.
  if (sync && v.board.row(here).nr.load(relaxed) == 1) return {here, affine_reason::wa_sync};
  if (v.set.wa_idle_prev && v.board.idle(prev)) return {prev, affine_reason::wa_idle_prev};
  return {};
}

// The idler-LLC series within an LLC: no stacking on the waker before loads are weighed.
choice wa_idle_without_sync(const policy_view& v, const wakeup& w, cpu_id here, cpu_id prev) noexcept {
  if (free_for(v, w, prev)) return {prev, affine_reason::wa_idle_prev};
  if (free_for(v, w, here)) return {here, affine_reason::wa_idle_this};
  return {};
}

choice by_idleness(const policy_view& v, const wakeup& w, cpu_id here, bool sync) noexcept {
  if (!v.set.wa_idler_llc) return v.set.wa_idle ? wa_idle(v, here, w.prev, sync) : choice{};
  if (v.machine.share_llc(here, w.prev)) return v.set.wa_idle ? wa_idle_without_sync(v, w, here, w.prev) : choice{};
  const idler_answer idler = idler_llc(v, w, here, w.prev, sync);
  return {idler.cpu, affine_reason::wa_idler, idler.llcs_full};
}

weight_terms terms(const policy_view& v, const sched_domain& domain, const wakeup& w, cpu_id here, bool sync,
                   load_metric_t metric) noexcept {
  return {.load_this = read_load(v, here, metric, w.now).load,
          .load_prev = read_load(v, w.prev, metric, w.now).load,
          .waker = load_of(w.waker_load, metric),
          .wakee = load_of(w.load, metric),
          .capacity_this = v.machine.at(here).capacity,
          .capacity_prev = v.machine.at(w.prev).capacity,
          .pct = imbalance_pct(v.set, domain),
          .sync = sync,
          .bias = v.set.wa_bias};
}

choice decide_v414(const policy_view& v, const wakeup& w, cpu_id here, const weight_terms& t) noexcept {
  choice idle = by_idleness(v, w, here, t.sync);
  if (valid(idle.cpu) || !v.set.wa_weight) return idle;
  if (v.set.wa_idler_llc && t.sync && v.board.row(here).nr.load(relaxed) <= 1)
    return {here, affine_reason::wa_sync, idle.llcs_full};
  if (weight_pulls_v414(t)) return {here, affine_reason::wa_weight_this, idle.llcs_full};
  return {w.prev, affine_reason::wa_weight_prev, idle.llcs_full};
}

choice decide_v39(const policy_view& v, const wakeup& w, cpu_id here, const weight_terms& t) noexcept {
  if (!v.set.wa_weight) return {};
  const int64_t nr = v.board.row(here).nr.load(relaxed);
  const verdict_v39 verdict = weight_pulls_v39({t, nr > 0 ? t.load_this / nr : 0, w.groups});
  if (!verdict.pull) return {w.prev, affine_reason::wa_weight_prev};
  return {here, verdict.by_sync ? affine_reason::wa_sync : affine_reason::wa_weight_this};
}

bool starts_throttle(wa_throttle_on_t on, bool pulled) noexcept {
  switch (on) {
    case wa_throttle_on_t::success:
      return pulled;
    case wa_throttle_on_t::attempt:
      return true;
    case wa_throttle_on_t::failure:
      return !pulled;
  }
  return false;
}

}  // namespace

affine_answer wake_affine(const policy_view& v, const sched_domain& domain, const wakeup& w, cpu_id here,
                          bool sync) noexcept {
  const bool throttles = v.set.wa_throttle_ns > 0 && w.memory != nullptr;
  if (throttles && w.now.count() < w.memory->affine_blocked_until_ns) return {w.prev, affine_reason::wa_throttled};

  const bool burst = in_burst(v, here, w.prev);
  const load_metric_t metric = burst ? load_metric_t::instant : v.set.load_metric;
  const weight_terms t = terms(v, domain, w, here, sync, metric);
  choice c = v.set.wa_form == wa_form_t::v39 ? decide_v39(v, w, here, t) : decide_v414(v, w, here, t);
  if (!valid(c.cpu)) c = {w.prev, affine_reason::wa_undecided, c.llcs_full};

  if (throttles && starts_throttle(v.set.wa_throttle_on, c.cpu != w.prev))
    w.memory->affine_blocked_until_ns = w.now.count() + v.set.wa_throttle_ns;
  return {c.cpu, c.reason, burst, c.llcs_full};
}

bool weight_pulls_v414(const weight_terms& t) noexcept {
  int64_t here = t.load_this;
  if (t.sync) {
    if (t.waker > here) return true;
    here -= t.waker;
  }
  here = (here + t.wakee) * (t.bias ? 100 : 1) * t.capacity_prev;
  const int64_t bias = t.bias ? 100 + (t.pct - 100) / 2 : 1;
  // The previous CPU still carries the sleeping wakee's load. May go below zero.
  const int64_t there = (t.load_prev - t.wakee) * bias * t.capacity_this + (t.sync ? 1 : 0);
  return here < there;
}

verdict_v39 weight_pulls_v39(const weight_terms_v39& t) noexcept {
  static constexpr wake_groups no_groups{};
  const wake_groups& g = t.groups != nullptr ? *t.groups : no_groups;
  int64_t here = t.load_this;
  int64_t there = t.load_prev;
  if (t.sync) {
    here += effective_load(g.waker_this, -t.waker, -t.waker);
    there += effective_load(g.waker_prev, 0, -t.waker);
  }
  bool balanced = true;
  if (here > 0) {
    const int64_t bias = t.bias ? 100 + (t.pct - 100) / 2 : 100;
    const int64_t te = 100 * t.capacity_prev * (here + effective_load(g.wakee_this, t.wakee, t.wakee));
    // No credit for losing the wakee: it left that queue when it blocked.
    const int64_t pe = bias * t.capacity_this * (there + effective_load(g.wakee_prev, 0, t.wakee));
    balanced = te <= pe;
  }
  if (t.sync && balanced) return {true, true};
  return {balanced || (here <= there && here + t.load_prev <= t.load_per_fiber_this), false};
}

int64_t effective_load(std::span<const group_level> levels, int64_t queue_delta, int64_t group_delta) noexcept {
  for (const group_level& g : levels) {
    const int64_t whole = g.group_weight + group_delta;
    const int64_t part = std::max<int64_t>(g.queue_weight + queue_delta, 0);
    const int64_t weight = std::max<int64_t>(part < whole ? g.shares * part / whole : g.shares, 2);
    queue_delta = weight - g.entity_weight;
    group_delta = 0;  // above, only this one entity changes
  }
  return queue_delta;
}

}  // namespace heddle::core
