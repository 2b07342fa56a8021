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
exit $status
