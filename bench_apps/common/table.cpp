#include "bench_apps/common/table.h"

#include <algorithm>

namespace heddle::bench {
namespace {

// Columns on a screen, not bytes: UTF-8 continuation bytes take none.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string trimmed(const std::string& cell) {
  const size_t first = cell.find_first_not_of(' ');
  return first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1);
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

table::table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    left_.push_back(heading.starts_with("<"));
    if (left_.back()) heading.erase(0, 1);
  }
}

void table::row(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string table::text(style as) const {
  return as == style::csv ? csv() : as == style::markdown ? markdown() : aligned();
}

std::string table::aligned() const {
  std::vector<size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(width(heading));
  for (const auto& cells : rows_)
    for (size_t i = 0; i < cells.size(); i++) widths[i] = std::max(widths[i], width(cells[i]));
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < cells.size(); i++) {
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      if (i > 0) text += "  ";
      text += left_[i] ? cells[i] + blanks : blanks + cells[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line(headings_);
  for (const auto& cells : rows_) line(cells);
  return out;
}

std::string table::csv() const {
  std::string out;
  const auto line = [&out](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); i++) out += (i > 0 ? "," : "") + quoted(cells[i]);
    out += "\n";
  };
  line(headings_);
  for (const auto& cells : rows_)
    if (!cells.empty()) line(cells);
  return out;
}

std::string table::markdown() const {
  std::string out;
  const auto line = [&out](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out += "| " + trimmed(cell) + " ";
    out += "|\n";
  };
  line(headings_);
  for (const bool left : left_) out += left ? "|---" : "|---:";
  out += "|\n";
  for (const auto& cells : rows_)
    if (!cells.empty()) line(cells);
  return out;
}

}  // namespace heddle::bench
