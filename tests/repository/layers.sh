#!/usr/bin/env bash
# scripts/check_layers can fail: each rule is broken once in a tree of our own, and must be named with its file and line.
source "$(dirname -- "${BASH_SOURCE[0]}")/script_test.sh"

tree=$work/tree
file() { mkdir -p "$(dirname -- "$tree/$1")" && printf '%s\n' "${@:2}" >"$tree/$1"; }

file runtime/base/ids.h '#pragma once'
file runtime/base/atomic.h '#pragma once' '#include <atomic>'
file runtime/base/up.h '#pragma once' '#include "affinity/wake.h"'
file affinity/wake.h '#pragma once' '#include "runtime/base/ids.h"' '#include <cstdint>'
file affinity/wake.cpp '#include "affinity/wake.h"' '#include "balancer/pelt.h"'
file affinity/discover.cpp '#include <hwloc.h>'
file affinity/pin.cpp '#include <hwloc/bitmap.h>'
file balancer/pelt.h '#pragma once' '#include "wake.h"'
file balancer/plan.cpp '#include <heddle/runtime.h>' '#include <atomic>'
file runtime/io/ring.cpp '#include <liburing.h>' '#include <boost/lockfree/queue.hpp>'
file runtime/include/heddle/good.h '#pragma once' '#include <atomic>' 'inline std::atomic<int> good{0};'
file runtime/include/heddle/needy.h '#pragma once' 'inline std::string needy;'
file runtime/include/heddle/twice.h 'struct twice {};'
file runtime/include/heddle/leaky.h '#pragma once' '#include "runtime/base/ids.h"'
file bench_apps/main.cpp '#include <CLI/CLI.hpp>' '#include "runtime/base/ids.h"'
file examples/hello.cpp '#include <heddle/good.h>' '#include "runtime/base/ids.h"'

check 'a tree with violations is refused' 1 "$root/scripts/check_layers" "$tree"
expect_line 'L1: a layer to the right' 'runtime/base/up.h:2: L1: '
expect_line 'L1: between policies' 'affinity/wake.cpp:2: L1: '
expect_line 'L1: a public header from a policy' 'balancer/plan.cpp:1: L1: '
expect_line 'L2: a path that does not name its layer' 'balancer/pelt.h:2: L2: '
expect_line 'L3: hwloc outside its door' 'affinity/pin.cpp:1: L3: '
expect_line 'L3: atomics outside their door' 'balancer/plan.cpp:2: L3: '
expect_line 'L3: Boost.Lockfree outside its door' 'runtime/io/ring.cpp:2: L3: '
expect_line 'L4: a header that needs another first' 'runtime/include/heddle/needy.h:1: L4: '
expect_line 'L4: a header without a guard' 'runtime/include/heddle/twice.h:1: L4: '
expect_line 'L4: a public header that includes an internal one' 'runtime/include/heddle/leaky.h:2: L4: '
expect_line 'L5: an example that includes an internal header' 'examples/hello.cpp:2: L5: '
# leaky.h does not compile alone either: 12 lines and not one more, so what is right was left alone.
expect_count 'nothing else is reported' 12 ': L[1-5]: '

for wrong in runtime/base/up.h affinity/wake.cpp affinity/pin.cpp balancer/pelt.h balancer/plan.cpp runtime/io/ring.cpp \
  runtime/include/heddle/needy.h runtime/include/heddle/twice.h runtime/include/heddle/leaky.h examples/hello.cpp; do
  rm "$tree/$wrong"
done
check 'the rest of it passes' 0 "$root/scripts/check_layers" "$tree"
check 'this tree passes' 0 "$root/scripts/check_layers"
