// Fork-join: count primes in a loop that splits when somebody has time, sort by digits, and walk a tree whose nodes block.
#include <heddle/heddle.h>

#include <cstdio>
#include <numeric>
#include <vector>

namespace {

bool prime(int n) {
  if (n < 2) return false;
  for (int d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return true;
}

int digit_sum(int n) { return n ? n % 10 + digit_sum(n / 10) : 0; }

// Each node waits a little, as one that asks a server would; that keeps nobody else from working.
int nodes(int depth) {
  heddle::this_fiber::sleep_for(std::chrono::microseconds(50));
  if (depth == 0) return 1;
  int left = 0, right = 0;
  heddle::invoke([&] { left = nodes(depth - 1); }, [&] { right = nodes(depth - 1); });
  return left + right + 1;
}

}  // namespace

int main() {
  heddle::runtime rt;
  const int count = heddle::parallel_reduce(rt, 0, 200'000, 0, std::plus<>(), [](int n) { return prime(n) ? 1 : 0; });

  std::vector<int> numbers(10'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  heddle::parallel_sort(rt, numbers, [](int a, int b) {
    const int x = digit_sum(a), y = digit_sum(b);
    return x != y ? x < y : a < b;
  });

  const int walked = rt.run([] { return nodes(6); });
  std::printf("%d primes below 200000; greatest digit sum below 10000: %d; %d nodes\n", count, numbers.back(), walked);
  return count == 17984 && numbers.back() == 9999 && walked == 127 ? 0 : 1;
}
