#!/usr/bin/env bash
# The structure of the code is not worse than tools/lint/house.txt says, and a worse one would be seen. Prints the facts.
set -euo pipefail
cd "$(dirname "$0")/../../.."
fail() {
    printf '%s\n' "$*"
    exit 1
}

tools/house.py
tools/house.py hold tools/lint/house.txt || fail "the structure got worse: tools/house.py"

# Each limit is of a figure that there is: one that nothing can keep is named, for all lines of the page.
page=$(mktemp)
trap 'rm -f "$page"' EXIT
sed -E 's/(at most) \|.*/\1 | -1/; s/(at least) \|.*/\1 | 1e9/' tools/lint/house.txt >"$page"
broken=$(tools/house.py hold "$page" 2>&1) && fail "not seen: limits that nothing keeps"
[ "$(grep -c ', expected at ' <<<"$broken")" = "$(grep -cE '^[^#].*\|' "$page")" ] || fail "not all of the limits are seen: $broken"
echo 'asserst | at least | 1' >"$page"
if tools/house.py hold "$page" 2>/dev/null; then fail "not seen: a figure that there is none of"; fi
