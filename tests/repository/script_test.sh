# shellcheck shell=bash
# What the script tests share: each check prints "ok NAME" or "not ok NAME", and scripts/test counts those lines.
source "$(dirname -- "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
output=$work/output

ok() { printf 'ok %s\n' "$1"; }
not_ok() {  # not_ok NAME: with what the last command printed, because that is what explains it
  printf 'not ok %s\n' "$1"
  [[ -s $output ]] && tail -n 30 "$output" | sed 's/^/    /'
}

# check NAME STATUS COMMAND...: runs it without a terminal or input; its output stays in $output for the expect_ below.
check() {
  local name=$1 expected=$2 status=0
  shift 2
  "$@" >"$output" 2>&1 </dev/null || status=$?
  if ((status == expected)); then ok "$name"; else not_ok "$name (exit status $status, not $expected)"; fi
}

expect_line() {  # expect_line NAME TEXT: some line begins with it
  if awk -v text="$2" 'index($0, text) == 1 { found = 1 } END { exit !found }' "$output"; then ok "$1"; else not_ok "$1"; fi
}

expect_text() {  # expect_text NAME REGEX
  if grep -qE -- "$2" "$output"; then ok "$1"; else not_ok "$1"; fi
}

expect_count() {  # expect_count NAME COUNT REGEX
  local lines
  lines=$(grep -cE -- "$3" "$output" || true)
  if ((lines == $2)); then ok "$1"; else not_ok "$1 ($lines, not $2)"; fi
}
