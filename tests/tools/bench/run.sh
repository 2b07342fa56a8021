#!/usr/bin/env bash
# What the benchmarks make of figures, without measuring any: run.sh. Skipped without python3.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "skipped bench: there is no python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../../bench/harness
python3 "$here/test_harness.py" 2>&1
status=$?
grep -qx scaling <<<"$("$here/../../../bench/run.sh" "$here" list)" || { echo "FAILED: ./dev bench list"; status=1; }
"$here/../../../bench/run.sh" "$here" nothing >/dev/null 2>&1 && { echo "FAILED: an unknown benchmark runs"; status=1; }
says() { # part of the sentence, then what is asked for: nothing of it may run
    local part=$1 said
    shift
    said=$("$here/../../../bench/run.sh" "$here" "$@" 2>&1) && { echo "FAILED: ./dev bench $* ends with 0"; status=1; }
    [[ $said == *"$part"* ]] || { echo "FAILED: ./dev bench $*: $said"; status=1; }
}
says "no benchmark 'typo'" kernels typo
says "no part 'typo'" presses typo
says "no part 'typo'" serve typo

# A page of a build that has no benchmarks but one, which counts how often it ran: what is there is not measured twice, what
# fails is named.
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir -p "$build/bench" "$build/bin"
printf '#!/bin/sh\necho 9 GB/s, "$(echo x >>"%s/ran" && wc -l <"%s/ran")"\n' "$build" "$build" >"$build/bench/bench_kernels"
printf '#!/bin/sh\necho cadenza of this build\n' >"$build/bin/cadenza"
chmod +x "$build/bench/bench_kernels" "$build/bin/cadenza"
page() { PYTHON=python3 "$here/../../../bench/run.sh" "$build" report "$@" 2>/dev/null && cat "$build/results/report.md"; }
holds() { # sentence pattern text
    grep -q -e "$2" <<<"$3" || { echo "FAILED: a report: $1"; printf '%s\n' "$3"; status=1; }
}
first=$(page kernels lua)
holds "names the program" '^cadenza of this build$' "$first"
holds "has what was printed" '^9 GB/s, 1$' "$first"
holds "names what failed" 'Not measured' "$(grep -A 2 '^## lua$' <<<"$first")"
holds "goes on where it was stopped" '^9 GB/s, 1$' "$(page kernels lua)"
holds "begins anew when told to" '^9 GB/s, 2$' "$(page --again kernels)"
page before >/dev/null && { echo "FAILED: a report has a part that needs a revision"; status=1; }
exit $status
