// Three stages joined by bounded channels: one fiber produces lines, some count the words in them, the last adds up.
// A full channel holds its producer back, so memory stays small however fast that one is.
#include <heddle/heddle.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using counts = std::map<std::string, long>;

constexpr int lines_total = 20'000;

void produce(heddle::channel<std::string>& lines) {
  for (int i = 0; i < lines_total; i++) lines.push(i % 2 == 0 ? "warp and weft" : "the heddle lifts the warp");
  lines.close();  // those who read drain what is left, then get nothing
}

void count(heddle::channel<std::string>& lines, heddle::channel<counts>& partial) {
  counts mine;
  while (auto line = lines.pop()) {
    std::istringstream words(*line);
    for (std::string word; words >> word;) mine[word]++;
  }
  partial.push(std::move(mine));
}

counts add_up(heddle::channel<counts>& partial) {
  counts total;
  while (auto one = partial.pop())
    for (const auto& [word, n] : *one) total[word] += n;
  return total;
}

}  // namespace

int main() {
  heddle::runtime rt;
  heddle::channel<std::string> lines(64);
  heddle::channel<counts> partial(4);

  auto total = rt.spawn({.name = "total"}, [&] { return add_up(partial); });
  std::vector<heddle::fiber<void>> counters;
  for (int i = 0; i < 4; i++) counters.push_back(rt.spawn({.name = "count"}, [&] { count(lines, partial); }));
  auto producer = rt.spawn({.name = "produce"}, [&] { produce(lines); });

  producer.join();
  for (auto& counter : counters) counter.join();
  partial.close();
  counts words = total.join();
  for (const auto& [word, n] : words) std::printf("%6ld %s\n", n, word.c_str());
  return words["warp"] == lines_total && words["heddle"] == lines_total / 2 ? 0 : 1;
}
