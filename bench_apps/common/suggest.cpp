#include "bench_apps/common/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace heddle::bench {
namespace {

// Levenshtein with transposition of neighbours counted as one edit ("tpoo" is one slip, not two).
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); i++) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, std::exchange(row, before));
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> nearest(std::string_view word, std::span<const std::string> names) {
  std::vector<std::pair<size_t, std::string>> found;
  const size_t limit = word.size() < 4 ? 1 : 2;
  for (const std::string& name : names) {
    const size_t distance = edits(word, name);
    if (distance <= limit)
      found.emplace_back(distance, name);
    else if (word.size() >= 2 && name.starts_with(word))
      found.emplace_back(limit + 1, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> best;
  for (const auto& [distance, name] : found)
    if (best.size() < 3) best.push_back(name);
  return best;
}

std::string near_text(std::string_view word, std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : nearest(word, names)) text += (text.empty() ? "; near: " : ", ") + name;
  return text;
}

}  // namespace heddle::bench
