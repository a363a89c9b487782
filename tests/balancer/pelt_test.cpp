#include "balancer/pelt.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "runtime/base/rng.h"
#include "tests/seed.h"

namespace {
using namespace heddle::core;

constexpr int kernel_shift = 10;

nanos periods(int64_t n, int shift = kernel_shift) { return nanos{n * 1024 << shift}; }
nanos ms(int64_t n) { return nanos{n * 1'000'000}; }

void run(pelt::entity& f, nanos until) { pelt::update(f, until, pelt::running, kernel_shift); }
void sleep(pelt::entity& f, nanos until) { pelt::update(f, until, pelt::blocked, kernel_shift); }

struct at {
  int64_t n;
  uint32_t load, util;
};

}  // namespace

TEST_CASE("TV-PELT-1: the decay table follows from its formula") {
  constexpr uint32_t expected[32] = {0xffffffff, 0xfa83b2da, 0xf5257d14, 0xefe4b99a, 0xeac0c6e6, 0xe5b906e6, 0xe0ccdeeb,
                                     0xdbfbb796, 0xd744fcc9, 0xd2a81d91, 0xce248c14, 0xc9b9bd85, 0xc5672a10, 0xc12c4cc9,
                                     0xbd08a39e, 0xb8fbaf46, 0xb504f333, 0xb123f581, 0xad583ee9, 0xa9a15ab4, 0xa5fed6a9,
                                     0xa2704302, 0x9ef5325f, 0x9b8d39b9, 0x9837f050, 0x94f4efa8, 0x91c3d373, 0x8ea4398a,
                                     0x8b95c1e3, 0x88980e80, 0x85aac367, 0x82cd8698};
  for (size_t n = 0; n < 32; n++) CHECK(pelt::inverse[n] == expected[n]);
}

TEST_CASE("TV-PELT-2, TV-PELT-3: decay of one period's worth and of the maximum") {
  constexpr uint64_t n[] = {1, 2, 16, 31, 32, 33, 64, 320, 345, 2016, 2017};
  constexpr uint64_t of_1024[] = {1002, 980, 724, 523, 511, 501, 255, 0, 0, 0, 0};
  constexpr uint64_t of_max[] = {46718, 45717, 33758, 24393, 23870, 23359, 11934, 45, 26, 0, 0};
  for (size_t i = 0; i < std::size(n); i++) {
    CHECK(pelt::decay(1024, n[i]) == of_1024[i]);
    CHECK(pelt::decay(pelt::max_sum, n[i]) == of_max[i]);
  }
}

TEST_CASE("TV-PELT-4: contribution of a span that crosses borders") {
  CHECK(pelt::contribution(1, 1024, 0) == 1002);
  CHECK(pelt::contribution(1, 512, 100) == 601);
  CHECK(pelt::contribution(2, 1024, 0) == 1981);
  CHECK(pelt::contribution(10, 300, 700) == 9215);
  CHECK(pelt::contribution(32, 1024, 0) == 23359);
  CHECK(pelt::contribution(345, 1024, 0) == 46692);
  CHECK(pelt::contribution(3000, 1, 5) == 46723);
}

TEST_CASE("TV-PELT-5: always running, one update") {
  constexpr at expected[] = {{1, 21, 21},     {2, 43, 43},       {4, 85, 85},       {8, 162, 162},
                             {16, 299, 299},  {32, 512, 512},    {64, 768, 768},    {100, 906, 906},
                             {128, 960, 960}, {200, 1010, 1010}, {320, 1023, 1023}, {400, 1023, 1023}};
  for (const at& e : expected) {
    pelt::entity f;
    run(f, periods(e.n));
    CHECK(f.load_avg == e.load);
    CHECK(f.util_avg == e.util);
    CHECK(f.runnable_avg == e.util);
  }
}

TEST_CASE("TV-PELT-6: always running, an update every period") {
  constexpr at expected[] = {{1, 21, 21},    {4, 85, 85},     {8, 162, 163},     {16, 300, 300},   {32, 512, 512},
                             {64, 768, 768}, {100, 907, 907}, {200, 1010, 1011}, {400, 1023, 1024}};
  for (const at& e : expected) {
    pelt::entity f;
    for (int64_t n = 1; n <= e.n; n++) run(f, periods(n));
    CHECK(f.load_avg == e.load);
    CHECK(f.util_avg == e.util);
  }
}

TEST_CASE("TV-PELT-5 at the scaled shift: the averages depend on periods, not on their length") {
  pelt::entity f;
  pelt::update(f, periods(32, 3), pelt::running, 3);
  CHECK(f.last == nanos{262'144});
  CHECK(f.util_avg == 512);
}

TEST_CASE("TV-PELT-7: asleep after a long run") {
  constexpr at expected[] = {{1, 1001, 0}, {8, 860, 0},  {16, 723, 0}, {32, 511, 0}, {64, 255, 0},
                             {96, 127, 0}, {128, 63, 0}, {160, 31, 0}, {320, 0, 0}};
  for (const at& e : expected) {
    pelt::entity f;
    run(f, periods(400));
    sleep(f, periods(400 + e.n));
    CHECK(f.load_avg == e.load);
  }
}

TEST_CASE("TV-PELT-8: periodic steady state") {
  struct pattern {
    int64_t run_ms, sleep_ms;
    uint32_t peak, trough;
  };
  for (const pattern& p :
       {pattern{15, 10, 676, 550}, pattern{5, 5, 538, 485}, pattern{1, 9, 112, 93}, pattern{2, 1, 689, 675}}) {
    pelt::entity f;
    nanos now{0};
    uint32_t peak = 0;
    for (int round = 0; round < 1000; round++) {
      run(f, now += ms(p.run_ms));
      peak = f.load_avg;
      sleep(f, now += ms(p.sleep_ms));
    }
    // The phase of the borders moves from round to round, and the averages with it by one or two.
    CHECK(std::abs(int(peak) - int(p.peak)) <= 2);
    CHECK(std::abs(int(f.load_avg) - int(p.trough)) <= 2);
  }
}

TEST_CASE("TV-PELT-9: unaligned spans keep their remainder") {
  pelt::entity f;
  CHECK_FALSE(pelt::update(f, nanos{300'000}, pelt::running, kernel_shift));
  CHECK(f.position == 292);
  CHECK(f.load_sum == 292);
  CHECK(f.util_sum == 299'008);
  CHECK(f.load_avg == 0);
  CHECK(pelt::update(f, nanos{5'300'000}, pelt::running, kernel_shift));
  CHECK(f.position == 55);
  CHECK(f.load_sum == 4850);
  CHECK(f.util_sum == 4'966'428);
  CHECK(f.load_avg == 106);
  CHECK(f.util_avg == 106);
  CHECK(pelt::update(f, nanos{25'300'000}, pelt::blocked, kernel_shift));
  CHECK(f.position == 131);
  CHECK(f.load_sum == 3213);
  CHECK(f.load_avg == 70);
  CHECK(f.util_avg == 70);
}

TEST_CASE("TV-PELT-10: a queue of two always runnable members") {
  const auto after = [](int64_t n) {
    pelt::queue q;
    q.nr = 2;
    q.weight_sum = 1024 + 512;
    pelt::update(q, periods(n), pelt::full_scale, kernel_shift);
    return q;
  };
  const pelt::queue at_50 = after(50), at_400 = after(400);
  CHECK(at_50.avg.load_avg == 1015);
  CHECK(at_50.avg.runnable_avg == 1354);
  CHECK(at_50.avg.util_avg == 677);
  CHECK(at_400.avg.load_avg == 1535);
  CHECK(at_400.avg.runnable_avg == 2047);
  CHECK(at_400.avg.util_avg == 1023);
  CHECK(at_400.runnable_load_avg == at_400.avg.load_avg);

  pelt::queue each;
  each.nr = 2;
  each.weight_sum = 1536;
  for (int64_t n = 1; n <= 400; n++) {
    pelt::update(each, periods(n), pelt::full_scale, kernel_shift);
    if (n != 50) continue;
    CHECK(each.avg.load_avg == 1016);
    CHECK(each.avg.runnable_avg == 1355);
  }
  CHECK(each.avg.load_avg == 1537);
  CHECK(each.avg.runnable_avg == 2049);
}

TEST_CASE("TV-PELT-11: attach and detach") {
  pelt::queue q;
  pelt::entity a, b{.weight = 512};
  pelt::enqueue(q, a);
  pelt::enqueue(q, b);
  for (int64_t n = 1; n <= 32; n++) {
    pelt::update(a, periods(n), n % 2 == 1 ? pelt::running : pelt::waiting, kernel_shift);
    pelt::update(b, periods(n), n % 2 == 0 ? pelt::running : pelt::waiting, kernel_shift);
    pelt::update(q, periods(n), pelt::full_scale, kernel_shift);
  }
  CHECK(a.load_avg == 512);
  CHECK(a.util_avg == 253);
  CHECK(b.load_avg == 256);
  CHECK(b.util_avg == 259);
  CHECK(q.avg.load_avg == 768);
  CHECK(q.avg.runnable_avg == 1024);
  CHECK(q.avg.util_avg == 512);

  pelt::dequeue(q, b);
  pelt::detach(q, b);
  CHECK(q.avg.load_avg == 512);
  CHECK(q.avg.runnable_avg == 512);
  CHECK(q.avg.util_avg == 253);
  CHECK(b.last == pelt::detached);

  pelt::queue other;
  other.avg.position = 300;
  pelt::attach(other, b, true, kernel_shift);
  CHECK(pelt::divider(300) == 47018);
  CHECK(b.load_sum == 23509);
  CHECK(b.runnable_sum == 24'073'216);
  CHECK(b.util_sum == 12'177'662);
  CHECK(b.position == 300);
  CHECK(b.weight * b.load_sum / 47018 == 256);
  CHECK(other.avg.load_avg == 256);
}

TEST_CASE("TV-PELT-12: what a new fiber is taken for") {
  struct vector {
    uint64_t util, load;
    uint32_t weight, expected;
  };
  for (const vector& v : {vector{0, 0, 1024, 512}, vector{600, 900, 1024, 212}, vector{200, 1500, 1024, 136},
                          vector{1000, 2000, 1024, 12}, vector{1024, 3000, 1024, 0}, vector{300, 1000, 335, 100}}) {
    pelt::queue q;
    q.avg.util_avg = v.util;
    q.avg.load_avg = v.load;
    pelt::entity f;
    pelt::start(f, v.weight, q);
    CHECK(f.util_avg == v.expected);
    CHECK(f.runnable_avg == v.expected);
    CHECK(f.load_avg == v.weight);
    CHECK(f.load_sum == 0);
  }
}

TEST_CASE("TV-PELT-13: a blocked member counts in load_avg only") {
  pelt::queue q;
  pelt::entity f;
  pelt::enqueue(q, f);
  run(f, periods(32));
  pelt::update(q, periods(32), pelt::full_scale, kernel_shift);
  CHECK(q.avg.load_avg == 512);
  CHECK(q.runnable_load_avg == 512);
  pelt::dequeue(q, f);
  CHECK(q.avg.load_avg == 512);
  CHECK(q.runnable_load_avg == 0);
  pelt::update(q, periods(64), 0, kernel_shift);
  CHECK(q.avg.load_avg == 255);
  CHECK(q.runnable_load_avg == 0);
}

TEST_CASE("TV-W-1: weights by nice") {
  constexpr uint32_t expected[40] = {88818, 71054, 56843, 45475, 36380, 29104, 23283, 18626, 14901, 11921,
                                     9537,  7629,  6104,  4883,  3906,  3125,  2500,  2000,  1600,  1280,
                                     1024,  819,   655,   524,   419,   336,   268,   215,   172,   137,
                                     110,   88,    70,    56,    45,    36,    29,    23,    18,    15};
  for (int nice = -20; nice <= 19; nice++) CHECK(pelt::weight_of(nice) == expected[nice + 20]);
}

TEST_CASE("INV-P1: util never exceeds a full CPU nor, but for rounding, the time on a queue") {
  rng random(heddle_test::seed());
  for (int walk = 0; walk < 20; walk++) {
    pelt::queue q;
    nanos now{0};
    for (int i = 0; i < 2000; i++) {
      q.nr = random.below(4);
      q.weight_sum = q.nr * 1024;
      const uint32_t share = q.nr > 0 ? static_cast<uint32_t>(random.below(1025)) : 0;
      now += nanos{static_cast<int64_t>(random.below(3'000'000))};
      pelt::update(q, now, share, kernel_shift);
      REQUIRE(q.avg.util_avg <= 1024);
      REQUIRE(q.avg.util_avg <= q.avg.runnable_avg + 1);
    }
  }
}

TEST_CASE("INV-P2: how often one looks does not matter, but for rounding") {
  rng random(heddle_test::seed());
  for (int walk = 0; walk < 200; walk++) {
    pelt::entity often, once;
    nanos now{0};
    for (int stretch = 0; stretch < 20; stretch++) {
      const pelt::activity what = random.below(2) != 0 ? pelt::running : pelt::blocked;
      for (uint64_t looks = 1 + random.below(10); looks > 0; looks--) {
        now += nanos{static_cast<int64_t>(random.below(5'000'000))};
        pelt::update(often, now, what, kernel_shift);
      }
      pelt::update(once, now, what, kernel_shift);
      // Averages are recomputed at borders only; compare what the sums stand for now.
      pelt::refresh(often);
      pelt::refresh(once);
      REQUIRE(std::abs(int(often.load_avg) - int(once.load_avg)) <= 2);
      REQUIRE(std::abs(int(often.util_avg) - int(once.util_avg)) <= 2);
    }
  }
}

TEST_CASE("INV-P3: without anything runnable all averages fall steadily and reach 0") {
  for (int shift : {3, kernel_shift}) {
    pelt::queue q;
    q.nr = 100;
    q.weight_sum = 100 * 88818;
    nanos now = periods(400, shift);
    pelt::update(q, now, pelt::full_scale, shift);
    q.nr = 0;
    q.weight_sum = 0;
    uint64_t load = q.avg.load_avg, runnable = q.avg.runnable_avg, util = q.avg.util_avg;
    REQUIRE(load > 0);
    int steps = 0;
    for (; q.avg.load_sum + q.avg.runnable_sum + q.avg.util_sum > 0; steps++) {
      pelt::update(q, now += periods(1, shift), 0, shift);
      REQUIRE(q.avg.load_avg <= load);
      REQUIRE(q.avg.runnable_avg <= runnable);
      REQUIRE(q.avg.util_avg <= util);
      load = q.avg.load_avg, runnable = q.avg.runnable_avg, util = q.avg.util_avg;
    }
    CHECK(steps <= 2017);
    CHECK(load + runnable + util == 0);
  }
  pelt::entity f;
  run(f, periods(400));
  sleep(f, periods(400 + 320));
  CHECK(f.load_avg == 0);
  sleep(f, periods(400 + 320 + 2017));
  CHECK(f.load_sum + f.runnable_sum + f.util_sum == 0);
}

TEST_CASE("INV-P4, INV-P5: only time changes an average, and a clock that steps back only its own mark") {
  pelt::entity f;
  run(f, nanos{123'456'789});
  pelt::entity before = f;
  const auto same_values = [&] {
    return f.load_sum == before.load_sum && f.runnable_sum == before.runnable_sum && f.util_sum == before.util_sum &&
           f.load_avg == before.load_avg && f.util_avg == before.util_avg && f.position == before.position;
  };
  CHECK_FALSE(pelt::update(f, f.last, pelt::running, kernel_shift));
  CHECK(same_values());
  CHECK_FALSE(pelt::update(f, f.last + nanos{1023}, pelt::running, kernel_shift));
  CHECK(same_values());
  CHECK_FALSE(pelt::update(f, f.last - ms(50), pelt::running, kernel_shift));
  CHECK(same_values());
  CHECK(f.last == before.last - ms(50));
}

TEST_CASE("INV-P6, INV-P7: load is conserved over attach, detach, block and remote wake-up") {
  struct fiber {
    pelt::entity load;
    size_t on = 0;
    bool queued = true;
  };
  rng random(heddle_test::seed());
  for (int walk = 0; walk < 20; walk++) {
    constexpr size_t cpus = 4, fibers = 12;
    std::array<pelt::queue, cpus> queues;
    std::array<pelt::removed, cpus> gone;
    std::vector<fiber> all(fibers);
    for (size_t i = 0; i < fibers; i++) {
      fiber& f = all[i];
      f.on = random.below(cpus);
      pelt::start(f.load, pelt::weight_of(static_cast<int>(random.below(11)) - 5), queues[f.on]);
      pelt::attach(queues[f.on], f.load, true, kernel_shift);
      pelt::enqueue(queues[f.on], f.load);
    }
    nanos now{0};
    uint64_t operations = fibers;
    const auto catch_up = [&] {
      for (fiber& f : all)
        if (f.load.last != pelt::detached)
          pelt::update(f.load, now, f.queued ? pelt::waiting : pelt::blocked, kernel_shift);
      for (size_t c = 0; c < cpus; c++) pelt::update(queues[c], gone[c], now, 0, kernel_shift);
    };
    for (int i = 0; i < 300; i++) {
      now += nanos{static_cast<int64_t>(random.below(4'000'000))};
      fiber& f = all[random.below(fibers)];
      const size_t to = random.below(cpus);
      operations++;
      catch_up();
      if (f.queued && random.below(2) != 0) {  // steal
        pelt::dequeue(queues[f.on], f.load);
        pelt::detach(queues[f.on], f.load);
        pelt::attach(queues[to], f.load, true, kernel_shift);
        pelt::enqueue(queues[to], f.load);
        f.on = to;
      } else if (f.queued) {
        pelt::dequeue(queues[f.on], f.load);
        f.queued = false;
      } else {  // woken, perhaps elsewhere
        if (to != f.on) {
          pelt::leave_blocked(f.load, gone[f.on], queues[f.on].avg.last, now, kernel_shift);
          pelt::attach(queues[to], f.load, true, kernel_shift);
        }
        pelt::enqueue(queues[to], f.load);
        f.on = to;
        f.queued = true;
      }
      for (const pelt::queue& q : queues) REQUIRE(q.avg.load_avg < (uint64_t{1} << 40));    // INV-P7
      for (const pelt::queue& q : queues) REQUIRE(q.runnable_load_avg <= q.avg.load_avg);   // INV-P8
      for (const pelt::queue& q : queues) REQUIRE((q.nr > 0 || q.runnable_load_avg == 0));  // INV-P9
    }
    now += periods(1);
    catch_up();
    int64_t of_fibers = 0, of_queues = 0;
    for (const fiber& f : all) of_fibers += f.load.load_avg;
    for (const pelt::queue& q : queues) of_queues += static_cast<int64_t>(q.avg.load_avg);
    CHECK(std::abs(of_fibers - of_queues) <= static_cast<int64_t>(operations));
  }
}

TEST_CASE("INV-P8, INV-P9: the runnable part is a part of the load, and zero when nothing is runnable") {
  pelt::queue q;
  pelt::entity a, b;
  pelt::start(a, 1024, q);
  pelt::attach(q, a, true, kernel_shift);
  pelt::start(b, 335, q);
  pelt::attach(q, b, true, kernel_shift);
  pelt::enqueue(q, a);
  CHECK(q.runnable_load_avg == 1024);
  CHECK(q.avg.load_avg == 1024 + 335);
  pelt::update(q, nanos{777'777'777}, pelt::full_scale, kernel_shift);
  CHECK(q.runnable_load_avg <= q.avg.load_avg);
  // The member was not updated, so subtracting it leaves a residue unless the queue knows that nobody is left.
  pelt::dequeue(q, a);
  CHECK(q.runnable_load_avg == 0);
  CHECK(q.runnable_load_sum == 0);
  CHECK(q.avg.load_avg > 0);
}

TEST_CASE("INV-P10: with every member always runnable both loads are equal") {
  rng random(heddle_test::seed());
  pelt::queue q;
  nanos now{0};
  for (int i = 0; i < 5; i++) {
    pelt::entity f;
    pelt::start(f, pelt::weight_of(i), q);
    pelt::attach(q, f, true, kernel_shift);
    pelt::enqueue(q, f);
    for (int k = 0; k < 100; k++) {
      pelt::update(q, now += nanos{static_cast<int64_t>(random.below(9'000'000))}, pelt::full_scale, kernel_shift);
      REQUIRE(q.runnable_load_avg == q.avg.load_avg);
    }
  }
}

TEST_CASE("pelt: a window is accounted like the segments it stands for") {
  // Four fibers yield in turn, a segment of 1 us each; accounted once per 64 segments instead of at each switch.
  constexpr int shift = 3, fibers = 4, window = 64;
  std::array<pelt::entity, fibers> exact, windowed;
  for (int64_t i = 0; i < 64 * 100; i++) {
    const nanos from{i * 1000}, to{(i + 1) * 1000};
    for (int f = 0; f < fibers; f++)
      pelt::update(exact[static_cast<size_t>(f)], to, i % fibers == f ? pelt::running : pelt::waiting, shift);
    if ((i + 1) % window != 0) continue;
    for (pelt::entity& f : windowed)
      pelt::update_window(f, from - nanos{(window - 1) * 1000}, to, nanos{window / fibers * 1000}, shift);
  }
  for (size_t f = 0; f < fibers; f++) {
    CHECK(std::abs(int(exact[f].util_avg) - int(windowed[f].util_avg)) <= 8);
    CHECK(std::abs(int(exact[f].load_avg) - int(windowed[f].load_avg)) <= 8);
    CHECK(windowed[f].util_avg > 200);
  }
}

TEST_CASE("pelt: a window does not count what came before it as running") {
  pelt::entity f;
  pelt::update_window(f, periods(100), periods(101), periods(1), kernel_shift);
  CHECK(f.util_avg == 21);
  CHECK(f.runnable_avg > 850);
  pelt::entity nothing;
  CHECK_FALSE(pelt::update_window(nothing, nanos{0}, nanos{0}, nanos{0}, kernel_shift));
}

TEST_CASE("pelt: attach_age_load decides whether time outside counts") {
  pelt::queue q;
  q.avg.last = periods(432);
  pelt::entity left_alone;
  run(left_alone, periods(400));
  pelt::entity aged = left_alone, kept = left_alone;
  pelt::attach(q, aged, true, kernel_shift);
  pelt::attach(q, kept, false, kernel_shift);
  CHECK(aged.load_avg == 511);
  CHECK(kept.load_avg == left_alone.load_avg);
}

TEST_CASE("pelt: a fiber woken from a parked CPU arrives aged, and leaves behind what it was worth there") {
  pelt::queue source;
  pelt::removed gone;
  pelt::entity f;
  pelt::enqueue(source, f);
  run(f, periods(400));
  pelt::update(source, gone, periods(400), pelt::full_scale, kernel_shift);
  pelt::dequeue(source, f);
  pelt::leave_blocked(f, gone, source.avg.last, periods(432), kernel_shift);
  CHECK(f.load_avg == 511);
  CHECK(gone.load.load(relaxed) == 1023);
  pelt::update(source, gone, periods(432), 0, kernel_shift);
  CHECK(source.avg.load_avg == 0);
  CHECK(gone.load.load(relaxed) == 0);
}

TEST_CASE("F10: readers see the load of a parked CPU decay although nobody updates it") {
  CHECK(pelt::aged(1023, periods(100), periods(100), kernel_shift) == 1023);
  CHECK(pelt::aged(1023, periods(100), periods(99), kernel_shift) == 1023);
  CHECK(pelt::aged(1023, periods(100), periods(100 + 32), kernel_shift) == 510);
  CHECK(pelt::aged(1023, nanos{0}, periods(4 * 32), kernel_shift) < 103);  // 10 % within four half-lives
}
