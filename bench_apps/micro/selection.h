// Which figures were asked for.
#pragma once

#include <string>
#include <vector>

#include "bench_apps/micro/families.h"

namespace heddle::bench::micro {

class selection {
 public:
  // "yield,spawn_join": prefixes of figure names; empty: all. usage_error for one that begins no name. Anchors always belong.
  explicit selection(const std::string& prefixes);

  bool has(std::string_view figure) const;
  bool has(const family& one) const;  // any of its figures

 private:
  std::vector<std::string> prefixes_;
};

}  // namespace heddle::bench::micro
