#!/usr/bin/env bash
# compile.sh REPORT COMMAND... - runs nvcc with -Xptxas=-v, keeps what ptxas says of each kernel in REPORT, and shows
# the rest: an error, or nothing.
set -uo pipefail
report=$1
shift
said=$("$@" 2>&1)
status=$?
grep -E "^ptxas info|bytes stack frame" <<<"$said" >"$report"
grep -vE "^ptxas info|bytes stack frame|^$" <<<"$said" >&2
exit $status
