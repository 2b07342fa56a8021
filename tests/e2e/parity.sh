#!/usr/bin/env bash
# Replays the recorded cases in the tree: run alone, and all of a folder together. parity.sh BUILD
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export PATH="$1/bin:$PATH"
cases=("$root"/tests/golden/*/cases.json)
for batch in one all; do
    cadenza parity --batch $batch "${cases[@]%cases.json}" "$root"/tests/processors/processor_vectors.json
done | tee /dev/stderr | awk '
    $1 == "all" { passed += $2; failed += $3; skipped += $4 + $5 }
    END { print "COUNTED " passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"; exit failed > 0 || passed == 0 }'
