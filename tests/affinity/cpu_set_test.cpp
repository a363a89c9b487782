#include "affinity/cpu_set.h"

#include <doctest/doctest.h>

using namespace heddle::core;

TEST_CASE("cpu_set: holds CPUs beyond any fixed mask, in order") {
  cpu_set s;
  CHECK(s.empty());
  for (size_t i : {5000u, 3u, 64u, 1023u, 1024u}) s.add(to_cpu(i));
  std::vector<size_t> seen;
  for (cpu_id c : s) seen.push_back(index_of(c));
  CHECK(seen == std::vector<size_t>{3, 64, 1023, 1024, 5000});
  CHECK(s.count() == 5);
  s.remove(to_cpu(5000));
  s.remove(to_cpu(1024));
  cpu_set same{3, 64, 1023};
  CHECK(s == same);
  CHECK((s - same).empty());
  CHECK(s.next(to_cpu(65)) == to_cpu(1023));
  CHECK(s.next(to_cpu(1024)) == cpu_id::none);
}
