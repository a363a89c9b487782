// Text in columns: aligned for people, comma separated for programs, pipes for markdown. Knows nothing of results.
#pragma once

#include <string>
#include <vector>

namespace heddle::bench {

class table {
 public:
  enum class style { aligned, csv, markdown };

  // Columns whose heading begins with '<' are set left, all others right.
  explicit table(std::vector<std::string> headings);
  void row(std::vector<std::string> cells);
  // A blank line in the aligned style, nothing in the others.
  void gap() { rows_.emplace_back(); }
  bool empty() const { return rows_.empty(); }
  std::string text(style as = style::aligned) const;

 private:
  std::string aligned() const;
  std::string csv() const;
  std::string markdown() const;

  std::vector<std::string> headings_;
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace heddle::bench
