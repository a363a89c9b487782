#include "bench_apps/lab/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/units.h"

namespace heddle::bench::lab {

namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// One item of a case: what is no setting is kept apart, the rest is the settings grammar's.
void add_item(case_plan& to, const std::string& item) {
  const size_t equals = item.find('=');
  const std::string name = item.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
  const auto take = [&](const char* wanted, std::optional<std::string>& into) {
    if (name != wanted) return false;
    if (value.empty()) throw usage_error(fmt::format("--case: '{}' is not {}=VALUE", item, wanted));
    into = value;
    return true;
  };
  if (take("backend", to.backend)) {
    if (value != "fibers" && value != "threads")
      throw usage_error(fmt::format("backend: '{}' is not fibers or threads", value));
    return;
  }
  if (take("machine", to.machine) || take("workers", to.workers) || take("cpus", to.cpus)) return;
  if (name == "seed") {
    to.seed = parse_count(value);
    if (!to.seed || *to.seed < 0) throw usage_error(fmt::format("seed: '{}' is not a whole number from 0", value));
    return;
  }
  to.settings += (to.settings.empty() ? "" : ",") + item;
}

void add_items(case_plan& to, const std::string& list) {
  bool in_cpus = false;  // `cpus=0,2-5,NO_WAKE_AFFINE`: what begins with a digit still is the CPU list
  for (const std::string& item : split(list, ',')) {
    if (item.empty()) continue;
    if (in_cpus && std::isdigit(static_cast<unsigned char>(item[0]))) {
      *to.cpus += "," + item;
      continue;
    }
    add_item(to, item);
    in_cpus = item.starts_with("cpus=");
  }
}

struct varied {
  std::string name;
  std::vector<std::string> values;
  bool option() const { return name.starts_with("-"); }
};

varied parse_vary(const std::string& text) {
  const size_t equals = text.find('=');
  varied v{text.substr(0, equals), {}};
  if (equals != std::string::npos) v.values = split(std::string_view(text).substr(equals + 1), ',');
  std::erase(v.values, "");
  if (v.name.empty() || v.values.empty()) throw usage_error(fmt::format("--vary: '{}' is not NAME=V1,V2,...", text));
  return v;
}

std::string joined(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + " " + b; }

}  // namespace

bool case_plan::same_run(const case_plan& other) const {
  return settings == other.settings && backend == other.backend && machine == other.machine &&
         workers == other.workers && cpus == other.cpus && seed == other.seed;
}

case_plan parse_case(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) throw usage_error(fmt::format("--case: '{}' is not NAME:LIST", text));
  case_plan c{.name = text.substr(0, colon)};
  add_items(c, text.substr(colon + 1));
  return c;
}

comparison_plan make_plan(const std::vector<std::string>& cases, const std::vector<std::string>& varies) {
  comparison_plan plan{.cases = {}, .points = {point_plan{}}};
  for (const std::string& text : cases) plan.cases.push_back(parse_case(text));
  if (cases.empty()) plan.cases.emplace_back();

  for (const std::string& text : varies) {
    const varied v = parse_vary(text);
    if (v.option()) {
      std::vector<point_plan> points;
      for (const point_plan& p : plan.points)
        for (const std::string& value : v.values) {
          points.push_back({joined(p.label, v.name + " " + value), p.words});
          points.back().words.insert(points.back().words.end(), {v.name, value});
        }
      plan.points = std::move(points);
    } else {
      std::vector<case_plan> multiplied;
      for (const case_plan& c : plan.cases)
        for (const std::string& value : v.values) {
          case_plan one = c;
          const std::string item = v.name + "=" + value;
          one.name = joined(c.name, item);
          add_item(one, item);
          multiplied.push_back(std::move(one));
        }
      plan.cases = std::move(multiplied);
    }
  }
  for (case_plan& c : plan.cases)
    if (c.name.empty()) c.name = "base";
  for (size_t i = 0; i < plan.cases.size(); i++)
    for (size_t j = 0; j < i; j++)
      if (plan.cases[i].name == plan.cases[j].name)
        throw usage_error(fmt::format("--case: two cases are called '{}'", plan.cases[i].name));
  return plan;
}

}  // namespace heddle::bench::lab
