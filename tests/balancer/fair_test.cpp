#include "balancer/fair.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

namespace {
using namespace heddle::core;

fair_rules kernel_rules(pick_order_t order) {
  return {.order = order,
          .base_slice = 700'000,
          .latency = 6'000'000,
          .min_granularity = 750'000,
          .wakeup_gran = 1'000'000};
}

fair_entity entity(uint32_t weight, int64_t v = 0, int64_t deadline = 0) {
  return {.v = v, .deadline = deadline, .weight = weight, .fresh = false};
}

int next_of(const fair_rules& rules, const std::vector<fair_entity>& all, fair_view* view = nullptr) {
  fair_sums sums;
  for (const fair_entity& f : all) sums.add(f);
  if (view) *view = sums.view(view->min_v);
  return choose(rules, sums, [&](auto&& visit) {
    for (const fair_entity& f : all) visit(f);
  });
}
}  // namespace

TEST_CASE("TV-FAIR-1: 3 ms of service by weight") {
  struct vector {
    uint32_t weight;
    int64_t v;
  };
  for (const vector& x : {vector{1024, 3'000'000}, vector{335, 9'170'149}, vector{3121, 984'299},
                          vector{15, 204'800'000}, vector{3, 1'024'000'000}}) {
    fair_entity f = entity(x.weight);
    charge(kernel_rules(pick_order_t::vruntime), f, 3'000'000);
    CHECK(f.v == x.v);
    CHECK(f.ran == 3'000'000);
  }
}

TEST_CASE("TV-FAIR-2: slices share a period by weight") {
  const fair_rules cfs = kernel_rules(pick_order_t::vruntime);
  CHECK(slice_of(cfs, 1024, 2383, 3) == 2'578'262);
  CHECK(slice_of(cfs, 335, 2383, 3) == 843'474);
  CHECK(slice_of(cfs, 1024, 10'240, 10) == 750'000);
  CHECK(slice_of(cfs, 1024, 8192, 8) == 750'000);
  // The other orders have one slice for all.
  CHECK(slice_of(kernel_rules(pick_order_t::eevdf), 335, 2383, 3) == 700'000);
}

TEST_CASE("TV-FAIR-3: of those that are owed service the earliest deadline goes first") {
  const fair_rules eevdf = kernel_rules(pick_order_t::eevdf);
  std::vector<fair_entity> all{entity(1024, 0, 4), entity(1024, 6, 7), entity(2048, 3, 5)};
  fair_view view;
  CHECK(next_of(eevdf, all, &view) == 0);
  CHECK(view.mean_v == 3);
  CHECK(view.weight == 4096);
  fair_sums sums;
  for (const fair_entity& f : all) sums.add(f);
  CHECK(sums.eligible(all[0]));
  CHECK(!sums.eligible(all[1]));
  CHECK(sums.eligible(all[2]));

  all[0].v = 8;
  all[0].deadline = 9;
  CHECK(next_of(eevdf, all, &view) == 2);
  CHECK(view.mean_v == 5);
  // By virtual runtime alone it is the same here, and not where the deadlines say otherwise.
  CHECK(next_of(kernel_rules(pick_order_t::vruntime), all) == 2);
  all = {entity(1024, 0, 9), entity(1024, 1, 5), entity(1024, 4, 4)};
  CHECK(next_of(eevdf, all) == 1);
  CHECK(next_of(kernel_rules(pick_order_t::vruntime), all) == 0);
}

TEST_CASE("TV-FAIR-4: a sleeper's lag is inflated, so that it is the saved one after insertion") {
  fair_rules eevdf = kernel_rules(pick_order_t::eevdf);
  const fair_view queue{.min_v = 90'000, .mean_v = 100'000, .weight = 2048, .nr = 2};
  fair_entity f = entity(1024);
  f.lag = 3'000;
  place(eevdf, queue, f);
  CHECK(queue.mean_v - f.v == 4'500);
  fair_sums after;  // two of weight 1024 around V, and f
  after.add(entity(1024, 95'000));
  after.add(entity(1024, 105'000));
  after.add(f);
  CHECK(after.view(0).mean_v - f.v == 3'000);

  eevdf.place_lag = false;
  place(eevdf, queue, f);
  CHECK(f.v == queue.mean_v);
}

TEST_CASE("INV-PK3: service tends to the weight ratio, within one slice per fiber") {
  for (pick_order_t order : {pick_order_t::vruntime, pick_order_t::eevdf}) {
    const fair_rules rules = kernel_rules(order);
    std::vector<fair_entity> all{entity(1024), entity(335), entity(3121), entity(1024)};
    std::vector<int64_t> service(all.size());
    int64_t total = 0, total_weight = 0;
    fair_view view;
    for (fair_entity& f : all) {
      f.fresh = true;
      total_weight += f.weight;
      place(rules, {}, f);
      f.v = 0;
    }
    for (int i = 0; i < 20'000; i++) {
      const auto k = static_cast<size_t>(next_of(rules, all, &view));
      const int64_t slice = slice_of(rules, all[k].weight, total_weight, static_cast<uint32_t>(all.size()));
      charge(rules, all[k], slice);
      service[k] += slice;
      total += slice;
    }
    // The largest turn there is.
    const int64_t slice = slice_of(rules, 3121, total_weight, 4);
    for (size_t k = 0; k < all.size(); k++) {
      CAPTURE(k);
      const double due = static_cast<double>(total) * all[k].weight / static_cast<double>(total_weight);
      CHECK(std::abs(static_cast<double>(service[k]) - due) <=
            static_cast<double>(all.size()) * static_cast<double>(slice));
    }
  }
}

TEST_CASE("fair: a sleeper's credit is half a latency if gentle, and nobody gains by a short nap") {
  fair_rules cfs = kernel_rules(pick_order_t::vruntime);
  const fair_view queue{.min_v = 50'000'000, .mean_v = 51'000'000, .weight = 2048, .nr = 2};
  fair_entity slept = entity(1024, 1'000'000);
  place(cfs, queue, slept);
  CHECK(slept.v == 47'000'000);
  cfs.gentle = false;
  slept.v = 1'000'000;
  place(cfs, queue, slept);
  CHECK(slept.v == 44'000'000);
  fair_entity napped = entity(1024, 50'500'000);
  place(cfs, queue, napped);
  CHECK(napped.v == 50'500'000);
}

TEST_CASE("fair: a new fiber starts a turn behind with start_debit; EEVDF halves its first request") {
  fair_rules cfs = kernel_rules(pick_order_t::vruntime);
  const fair_view queue{.min_v = 50'000'000, .mean_v = 50'000'000, .weight = 1024, .nr = 1};
  fair_entity f;
  place(cfs, queue, f);
  CHECK(f.v == 53'000'000);
  CHECK(!f.fresh);
  cfs.start_debit = false;
  f.fresh = true;
  place(cfs, queue, f);
  CHECK(f.v == 50'000'000);

  f.fresh = true;
  const fair_rules eevdf = kernel_rules(pick_order_t::eevdf);
  place(eevdf, queue, f);
  CHECK(f.deadline - f.v == 350'000);
  sleep_on(eevdf, queue, f);
  place(eevdf, queue, f);
  CHECK(f.deadline - f.v == 700'000);
}

TEST_CASE("fair: who moves keeps its distance to the queue, not its time") {
  for (pick_order_t order : {pick_order_t::vruntime, pick_order_t::eevdf}) {
    const fair_rules rules = kernel_rules(order);
    const fair_view from{.min_v = 9'000'000, .mean_v = 9'500'000, .weight = 2048, .nr = 2};
    const fair_view to{.min_v = 1'000'000, .mean_v = 1'500'000, .weight = 0, .nr = 0};
    fair_entity f = entity(1024, 9'700'000, 9'900'000);
    leave_queue(rules, from, f);
    join_queue(rules, to, f);
    CHECK(f.v == 1'700'000);
    CHECK(f.deadline == 1'900'000);
  }
}

TEST_CASE("fair: lag is bounded by two slices") {
  const fair_rules eevdf = kernel_rules(pick_order_t::eevdf);
  fair_entity f = entity(1024, 0);
  sleep_on(eevdf, {.mean_v = 1'000'000'000}, f);
  CHECK(f.lag == 1'400'000);
  sleep_on(eevdf, {.mean_v = -1'000'000'000}, f);
  CHECK(f.lag == -1'400'000);
}

TEST_CASE("preemption: a wakee of CFS must be behind by the granularity, weighed by its weight") {
  fair_rules cfs = kernel_rules(pick_order_t::vruntime);
  const fair_view queue{.weight = 2048, .nr = 2};
  CHECK(wakeup_preempts(cfs, queue, entity(1024, 1'000'001), entity(1024, 0)) == preempt_reason::wakeup);
  CHECK(wakeup_preempts(cfs, queue, entity(1024, 1'000'000), entity(1024, 0)) == preempt_reason::none);
  CHECK(wakeup_preempts(cfs, queue, entity(1024, 1'000'001), entity(335, 0)) == preempt_reason::none);
  CHECK(wakeup_preempts(cfs, queue, entity(1024, 400'000), entity(3121, 0)) == preempt_reason::wakeup);
  cfs.wakeup_preemption = false;
  CHECK(wakeup_preempts(cfs, queue, entity(1024, 1'000'001), entity(1024, 0)) == preempt_reason::none);
}

TEST_CASE("preemption: EEVDF goes by eligibility and deadline; run_to_parity protects a slice") {
  fair_rules eevdf = kernel_rules(pick_order_t::eevdf);
  const fair_view queue{.mean_v = 1'000, .weight = 2048, .nr = 2};
  fair_entity running = entity(1024, 900, 2'000);
  const fair_entity wakee = entity(1024, 950, 1'500);
  CHECK(wakeup_preempts(eevdf, queue, running, wakee) == preempt_reason::none);
  running.ran = 700'000;
  CHECK(wakeup_preempts(eevdf, queue, running, wakee) == preempt_reason::wakeup);
  running.ran = 0;
  eevdf.run_to_parity = false;
  CHECK(wakeup_preempts(eevdf, queue, running, wakee) == preempt_reason::wakeup);
  CHECK(wakeup_preempts(eevdf, queue, running, entity(1024, 950, 2'500)) == preempt_reason::none);
  CHECK(wakeup_preempts(eevdf, queue, running, entity(1024, 1'050, 1'500)) == preempt_reason::none);
  // Beyond its due the protection ends.
  eevdf.run_to_parity = true;
  running.v = 1'100;
  CHECK(wakeup_preempts(eevdf, queue, running, wakee) == preempt_reason::wakeup);
}

TEST_CASE("preemption: ticks end a slice where somebody waits, and CFS looks at the distance") {
  const fair_rules cfs = kernel_rules(pick_order_t::vruntime);
  const fair_view queue{.weight = 2048, .nr = 2};
  fair_entity running = entity(1024, 10'000'000);
  const fair_entity far = entity(1024, 6'000'000), near = entity(1024, 9'000'000);
  running.ran = 3'000'001;
  CHECK(tick_preempts(cfs, queue, running, nullptr) == preempt_reason::none);
  CHECK(tick_preempts(cfs, queue, running, &near) == preempt_reason::slice_used);
  running.ran = 800'000;
  CHECK(tick_preempts(cfs, queue, running, &near) == preempt_reason::none);
  CHECK(tick_preempts(cfs, queue, running, &far) == preempt_reason::behind);
  running.ran = 700'000;
  CHECK(tick_preempts(cfs, queue, running, &far) == preempt_reason::none);

  const fair_rules fifo = kernel_rules(pick_order_t::fifo);
  running.ran = 700'001;
  CHECK(tick_preempts(fifo, queue, running, &near) == preempt_reason::slice_used);
  running.ran = 700'000;
  CHECK(tick_preempts(fifo, queue, running, &near) == preempt_reason::none);
}

TEST_CASE("preemption: an idle-class fiber makes room at once, and takes no one's") {
  for (pick_order_t order : {pick_order_t::fifo, pick_order_t::vruntime, pick_order_t::eevdf}) {
    fair_rules rules = kernel_rules(order);
    rules.wakeup_preemption = false;
    fair_entity idle = entity(3), normal = entity(1024, 1'000'000'000);
    idle.idle_class = true;
    CHECK(wakeup_preempts(rules, {}, idle, normal) == preempt_reason::idle_class);
    CHECK(tick_preempts(rules, {}, idle, &normal) == preempt_reason::idle_class);
    rules.wakeup_preemption = true;
    CHECK(wakeup_preempts(rules, {}, normal, idle) == preempt_reason::none);
  }
}

TEST_CASE("pick: a buddy runs first while that is not too unfair; under fifo always") {
  const fair_entity first = entity(1024, 0), near = entity(1024, 1'000'000), far = entity(1024, 1'000'001);
  fair_sums sums;
  for (const fair_entity* f : {&first, &near, &far}) sums.add(*f);
  const fair_rules cfs = kernel_rules(pick_order_t::vruntime), eevdf = kernel_rules(pick_order_t::eevdf);
  CHECK(buddy_may_run(cfs, sums, near, &first));
  CHECK(!buddy_may_run(cfs, sums, far, &first));
  CHECK(buddy_may_run(cfs, sums, far, nullptr));
  CHECK(buddy_may_run(kernel_rules(pick_order_t::fifo), sums, far, &first));
  CHECK(!buddy_may_run(eevdf, sums, near, &first));
  CHECK(buddy_may_run(eevdf, sums, first, &near));
}

TEST_CASE("pick: who yields goes on if nobody is within reach of it") {
  const fair_rules cfs = kernel_rules(pick_order_t::vruntime), eevdf = kernel_rules(pick_order_t::eevdf);
  const fair_entity behind = entity(1024, 0, 700'000), near = entity(1024, 1'000'000, 1'700'000),
                    far = entity(1024, 1'000'001, 1'700'001);
  fair_sums sums;
  for (const fair_entity* f : {&behind, &near, &far}) sums.add(*f);
  CHECK(keeps(cfs, sums, behind, far));
  CHECK(!keeps(cfs, sums, behind, near));
  CHECK(!keeps(kernel_rules(pick_order_t::fifo), sums, behind, far));
  CHECK(keeps(eevdf, sums, behind, near));
  CHECK(!keeps(eevdf, sums, near, behind));
}

TEST_CASE("fair: the four times grow with the CPUs as tunable_scaling says") {
  settings set;
  set.base_slice_ns = 700'000;
  set.wakeup_gran_ns = 1'000'000;
  struct vector {
    tunable_scaling_t how;
    size_t cpus;
    int64_t slice, gran;
  };
  for (const vector& x :
       {vector{tunable_scaling_t::none, 64, 700'000, 1'000'000}, vector{tunable_scaling_t::log, 1, 700'000, 1'000'000},
        vector{tunable_scaling_t::log, 6, 2'100'000, 3'000'000},
        vector{tunable_scaling_t::log, 64, 2'800'000, 4'000'000},
        vector{tunable_scaling_t::linear, 6, 4'200'000, 6'000'000}}) {
    set.tunable_scaling = x.how;
    const fair_rules rules = fair_rules_of(set, x.cpus);
    CHECK(rules.base_slice == x.slice);
    CHECK(rules.wakeup_gran == x.gran);
  }
}
