#include "runtime/sched/schedstat.h"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <vector>

#include "runtime/sched/scheduler.h"

namespace heddle::core {
namespace {

constexpr puller in_file_order[] = {puller::idle, puller::busy, puller::newly_idle};

std::string_view name_of(puller how) noexcept {
  return how == puller::busy ? "busy" : how == puller::idle ? "idle" : "newidle";
}

uint64_t get(const atomic<uint64_t>& v) noexcept { return v.load(relaxed); }

uint64_t sum(const atomic<uint64_t>* values, size_t count) noexcept {
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) total += get(values[i]);
  return total;
}

// As the kernel prints a cpu mask: hexadecimal words of 32, the highest first.
std::string mask_of(const topology& cpus, const cpu_set& span) {
  std::vector<uint32_t> words;
  for (cpu_id cpu : span) {
    const auto bit = static_cast<size_t>(cpus.os_id(cpu));
    if (words.size() <= bit / 32) words.resize(bit / 32 + 1);
    words[bit / 32] |= uint32_t{1} << bit % 32;
  }
  std::string text;
  for (size_t i = words.size(); i-- > 0;) {
    char word[16];
    std::snprintf(word, sizeof word, "%s%08x", text.empty() ? "" : ",", words[i]);
    text += word;
  }
  return text;
}

// Which of the four distances a level adds to the one below.
std::pair<size_t, size_t> reaches_of(const topology& cpus, std::span<const sched_domain> chain, size_t level) noexcept {
  const auto widest = [&](const sched_domain& d) {
    reach r = reach::core;
    const cpu_id first = d.span().lowest();
    for (cpu_id cpu : d.span()) r = std::max(r, reach_of(cpus, first, cpu));
    return static_cast<size_t>(r);
  };
  const size_t from = level == 0 ? 0 : widest(chain[level - 1]) + 1;
  return {from, widest(chain[level]) + 1};
}

void write_cpu(const scheduler& s, const worker& w, std::ostream& out) {
  const auto count = [&](counter which) { return w.count.get(which); };
  const uint64_t woken = sum(w.reasons.wake, wake_reason_count);
  const uint64_t switches = count(counter::switches);
  out << "cpu" << s.cpus.os_id(w.cpu) << " 0 0 " << switches << ' ' << count(counter::parks) + count(counter::polls_won)
      << ' ' << woken << ' ' << woken - std::min(woken, count(counter::wakes_remote)) << ' ' << count(counter::run_ns)
      << ' ' << count(counter::wait_ns) << ' ' << switches << '\n';
}

void write_domain(const scheduler& s, const worker& w, size_t level, std::ostream& out) {
  const auto chain = s.domains.chain(w.cpu);
  const level_counters& l = w.level_counts[level];
  out << "domain" << level << ' ' << mask_of(s.cpus, chain[level].span());
  for (puller how : in_file_order) {
    const pass_counters& c = l.by[static_cast<size_t>(how)];
    for (const auto* v :
         {&c.passes, &c.balanced, &c.failed, &c.imbalance, &c.gained, &c.hot_gained, &c.no_busy_cpu, &c.no_busy_group})
      out << ' ' << get(*v);
  }
  out << ' ' << get(l.pushes) << " 0 0 0 0 0 0 0 0";  // alb_failed, alb_pushed; exec and fork balance
  uint64_t woken = 0, pulled = 0;
  const auto [from, end] = reaches_of(s.cpus, chain, level);
  for (size_t r = from; r < end; r++) {
    woken += get(w.reasons.woken[r]);
    pulled += get(w.reasons.pulled[r]);
  }
  out << ' ' << woken << ' ' << pulled << " 0\n";
}

}  // namespace

void count_levels(const worker& w, std::map<std::string, uint64_t>& into) {
  const auto chain = w.home->domains.chain(w.cpu);
  for (size_t level = 0; level < chain.size(); level++) {
    const level_counters& l = w.level_counts[level];
    const std::string name(to_string(chain[level].level()));
    for (puller how : in_file_order) {
      const pass_counters& c = l.by[static_cast<size_t>(how)];
      const auto add = [&](const char* what, const atomic<uint64_t>& v) {
        into[name + '_' + std::string(name_of(how)) + '_' + what] += get(v);
      };
      add("passes", c.passes);
      add("balanced", c.balanced);
      add("failed", c.failed);
      add("gained", c.gained);
      add("hot_gained", c.hot_gained);
      if (how == puller::newly_idle) {
        add("left_out", c.left_out);
        add("ns", c.ns);
      }
    }
    into[name + "_pushes"] += get(l.pushes);
    uint64_t& dearest = into[name + "_newidle_cost_ns"];
    dearest = std::max(dearest, static_cast<uint64_t>(get(l.newidle_cost)));
  }
}

void write_schedstat(const scheduler& s, std::ostream& out) {
  out << "version 15\ntimestamp " << s.on->now().count() / 1'000'000 << '\n';
  for (const auto& w : s.workers) {
    write_cpu(s, *w, out);
    for (size_t level = 0; level < w->levels->levels.size(); level++) write_domain(s, *w, level, out);
  }
}

}  // namespace heddle::core
