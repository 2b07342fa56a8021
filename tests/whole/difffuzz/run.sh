#!/usr/bin/env bash
# The difference fuzzer's recorded cases, and its own logic: run.sh BUILD. The second part is skipped without python3.
# With DIFFFUZZ_PYTHON, a Python that has the reference, a planted wrong answer must be found too.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
passed=0 failed=0 skipped=0
models=("$here"/cases/*/m)
for batch in one all; do
    counts=$("$build/bin/cadenza" parity --optional --verbose --batch $batch "${models[@]}" | tee /dev/stderr | awk 'END { print $(NF-3), $(NF-2), $(NF-1) }')
    read -r same other unsupported <<<"$counts"
    passed=$((passed + same)) failed=$((failed + other + unsupported))
done
[ "$passed" -ge 1000 ] || { echo "FAILED: $passed answers of recorded cases are the same, expected at least 1000"; failed=$((failed + 1)); }
if command -v python3 >/dev/null; then
    export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../../../tools/difffuzz CADENZA=$build/bin/cadenza
    if python3 "$here/test_difffuzz.py"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
else
    echo "skipped difffuzz_logic: there is no python3"
    skipped=1
fi
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
