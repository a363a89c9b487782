// The smallest whole program: a runtime, fibers, their results, and an exception that reaches its joiner.
#include <heddle/heddle.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

long sum_of_squares(long from, long to) {
  long sum = 0;
  for (long i = from; i < to; i++) {
    sum += i * i;
    if (i % 1000 == 0) heddle::this_fiber::yield();  // let others run; nothing preempts a fiber
  }
  return sum;
}

}  // namespace

int main() {
  heddle::runtime rt;  // one worker per CPU that this process may use

  std::vector<heddle::fiber<long>> parts;
  for (long i = 0; i < 10; i++)
    parts.push_back(rt.spawn({.name = "squares"}, sum_of_squares, i * 10'000, (i + 1) * 10'000));
  long sum = 0;
  for (auto& part : parts) sum += part.join();
  std::printf("sum of squares below 100000: %ld\n", sum);

  auto failing = rt.spawn([] { throw std::runtime_error("no such luck"); });
  try {
    failing.join();
  } catch (const std::exception& error) {
    std::printf("a fiber threw, its joiner caught: %s\n", error.what());
  }
  return sum == 333328333350000 ? 0 : 1;
}
