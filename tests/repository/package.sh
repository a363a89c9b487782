#!/usr/bin/env bash
# What a stranger's project gets: the examples build and run against the install tree by find_package and by pkg-config,
# and with the source tree by add_subdirectory; the tree needs no .git. Expects build/release to be built.
source "$(dirname -- "${BASH_SOURCE[0]}")/script_test.sh"

version=$(sed -nE 's/^project\(heddle VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
minor=${version%.*}

quiet_build() {  # quiet_build SOURCE BUILD OPTIONS...
  cmake -G Ninja -S "$1" -B "$2" "${@:3}" && cmake --build "$2" -j "$(jobs)"
}

# --- the install tree, moved after the fact and with a space in its path

check 'install' 0 cmake --install "$root/build/release" --prefix "$work/first"
prefix="$work/moved there"
mv "$work/first" "$prefix"
pkgconfig=$(find "$prefix" -name heddle.pc -printf '%h')
check 'install: the program says its version' 0 "$prefix/bin/heddle" --version
expect_text "install: it is $version" "\\b${version//./\\.}\\b"
check 'install: no internal header is included' 1 grep -rnE '#include "([^h]|h[^e])' "$prefix/include"

check 'find_package: the examples build' 0 quiet_build "$root/examples" "$work/by-package" -DCMAKE_PREFIX_PATH="$prefix"
check 'find_package: the examples run' 0 ctest --test-dir "$work/by-package" --output-on-failure

wants() {  # wants VERSION: a project that asks for it
  mkdir -p "$work/wants-$1"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(wants CXX)' "find_package(heddle $1 REQUIRED)" >"$work/wants-$1/CMakeLists.txt"
  cmake -S "$work/wants-$1" -B "$work/wants-$1/build" -DCMAKE_PREFIX_PATH="$prefix"
}
check "find_package: $minor is served" 0 wants "$minor"
check 'find_package: the next minor version is refused' 1 wants "${minor%.*}.$((${minor#*.} + 1))"

cp -r "$root/examples" "$work/by-make"
export PKG_CONFIG_PATH=$pkgconfig
check 'pkg-config: knows the version' 0 pkg-config --exists "heddle = $version"
check 'pkg-config: the examples build' 0 make -C "$work/by-make" CXX="${CXX:-g++}"
check 'pkg-config: the examples run' 0 make -C "$work/by-make" check
unset PKG_CONFIG_PATH

# --- the source tree, without .git, inside somebody's project

tree="$work/source archive"
mkdir "$tree"
tar -C "$root" --exclude=./.git --exclude='./build*' -c . | tar -C "$tree" -x
alone=(-DHEDDLE_SOURCE="$tree")
for package in CLI11 fmt nlohmann_json doctest; do alone+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
check 'add_subdirectory: the library alone builds with the examples' 0 quiet_build "$root/examples" "$work/by-source" "${alone[@]}"
check 'add_subdirectory: the examples run' 0 ctest --test-dir "$work/by-source" --output-on-failure
check 'add_subdirectory: no program, no tests' 1 test -e "$work/by-source/heddle/heddle" -o -e "$work/by-source/heddle/tests"

for preset in dev release asan tsan interleave; do
  compiler=()
  [[ $preset != tsan ]] || compiler=("-DCMAKE_CXX_COMPILER=$(clang_tool clang++)")
  check "archive: preset $preset configures" 0 env -C "$tree" cmake --preset "$preset" "${compiler[@]}"
  check "archive: preset $preset has a plan" 0 ninja -C "$tree/build/$preset" -t commands all
  expect_text "archive: preset $preset builds heddle by default" ' -o heddle '
done

check 'a missing package is told by its name' 1 cmake -S "$tree" -B "$work/missing" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
expect_text 'a missing package: Debian calls it libfmt-dev' 'package libfmt-dev'
