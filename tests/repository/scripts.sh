#!/usr/bin/env bash
# The scripts that a newcomer meets first: what they say when something is missing, and that wrong usage is one line.
source "$(dirname -- "${BASH_SOURCE[0]}")/script_test.sh"

# A machine without apt-get, ninja and pkg-config: only what the script itself calls. The scripts are copied to where
# anybody may read them.
chmod a+rx "$work"
cp -r "$root/scripts" "$work/"
mkdir "$work/bin"
for tool in bash dirname basename sed awk head sort paste; do ln -s "$(command -v $tool)" "$work/bin/"; done
check 'setup: without apt-get it lists and exits 3' 3 env PATH="$work/bin" "$work/scripts/setup"
expect_text 'setup: names for Debian' '^ *Debian .*\bninja-build\b.*\bpkg-config\b'
expect_text 'setup: names for Ubuntu' '^ *Ubuntu .*\bninja-build\b'
expect_text 'setup: names for Fedora' '^ *Fedora .*\bpkgconf-pkg-config\b'
expect_text 'setup: names for Arch' '^ *Arch .*\bpkgconf\b'

# The same machine with apt-get, but we are not root. The apt-get must not be called.
printf '#!/bin/sh\ntouch "%s/apt-was-called"\n' "$work" >"$work/bin/apt-get"
chmod a+x "$work/bin/apt-get"
as_nobody=()
if ((EUID == 0)); then as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
check 'setup: without root it lists and exits 3' 3 "${as_nobody[@]}" env PATH="$work/bin" "$work/scripts/setup"
expect_text 'setup: says that root was needed' 'not root'
check 'setup: without root apt-get is left alone' 1 test -e "$work/apt-was-called"

check 'setup: all there, nothing to say' 0 "$root/scripts/setup" --test
expect_count 'setup: all there, no output' 0 '.'
check 'setup: an unknown option is status 2' 2 "$root/scripts/setup" --frobnicate
expect_text 'setup: it names the option' "'--frobnicate'"
check 'test: an unknown option is status 2' 2 "$root/scripts/test" --frobnicate
check 'test: seeds must be a number' 2 "$root/scripts/test" --seeds many
check 'format: an unknown option is status 2' 2 "$root/scripts/format" --frobnicate
check 'format: every source is formatted' 0 "$root/scripts/format" --check

if command -v shellcheck >/dev/null; then
  check 'shellcheck has no complaint' 0 env -C "$root" shellcheck scripts/* tests/repository/*.sh .ci/run
else
  printf 'skip shellcheck is not installed\n'
fi
