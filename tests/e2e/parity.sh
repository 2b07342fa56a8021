#!/usr/bin/env bash
# Replays the recorded cases in the tree, run alone and all of a folder together, and the processor vectors.
# parity.sh BUILD. A recorded case that is not supported fails too; a vector that is not is a line
# "skipped NAME: reason", which ./dev gathers; there are no more of those than are known.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
export PATH="$build/bin:$PATH"
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
cases=("$root"/tests/golden/*/cases.json)
{
    for batch in one all; do
        cadenza parity --verbose --batch $batch "${cases[@]%cases.json}" | sed 's/^all /goldens /'
    done
    cadenza parity --verbose "$root"/tests/processors/processor_vectors.json |
        sed 's/^unsupported /skipped /; s/^optional /skipped /; s/^[^ ]*processor_vectors.json /vectors /'
} | tee /dev/stderr | awk '
    $1 == "goldens" { passed += $2; failed += $3 + $4; skipped += $5 }
    $1 == "vectors" { passed += $2; failed += $3 + ($4 > 113 ? $4 - 113 : 0) + ($5 > 26 ? $5 - 26 : 0); skipped += $4 + $5 }
    END { print "COUNTED " passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"; exit failed > 0 || passed == 0 }'
