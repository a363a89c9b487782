# shellcheck shell=bash
# Sourced by the other scripts: where the tree is, how many jobs this machine bears, how messages look.
# Nothing here depends on the current directory, on git, or on root.
set -euo pipefail

# shellcheck disable=SC2034  # read by who sources this
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '%s\n' "$*" >&2; }
die() {
  say "$(basename -- "$0"): $1"
  exit "${2:-1}"
}

# One compiler per allowed CPU, but never more than the memory bears: g++ takes up to 1 GiB on a test file, and a small
# cloud machine that starts to swap is slower than one job at a time.
jobs() {
  local cpus gib
  cpus=$(nproc)
  gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  ((gib < 1)) && gib=1
  echo $((cpus < gib ? cpus : gib))
}

# The newest clang at or above 19, by whatever name the distribution gives it. Debian's plain clang is 14 and fails on
# libstdc++ 12's <ranges>.
clang_tool() {  # clang_tool clang++ | clang-format
  local name
  for name in "$1-19" "$1-20" "$1-21" "$1"; do
    command -v "$name" >/dev/null || continue
    (($("$name" --version | sed -nE '1,2s/.*version ([0-9]+).*/\1/p' | head -n 1) >= 19)) || continue
    echo "$name"
    return
  done
  return 1
}

# A second build of the same sources costs seconds where ccache is installed.
if [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER-} ]] && command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
