#!/usr/bin/env bash
# Replays the recorded cases in the tree, run alone and all of a folder together, and the processor vectors.
# parity.sh BUILD [FOLDER]. FOLDER: other recorded cases than tests/golden.
#
# A case that is not supported fails, unless it is of a folder whose whole model is not, which loads with none of its cases
# run: such folders are the lines of tests/golden/unsupported.txt, and on a device those of cpu_only.txt, and each is a line "skipped golden/NAME: reason", which
# ./dev gathers. One of them that loads fails too: it is to come off the list. A vector that is not supported is a line
# "skipped NAME: reason"; there are no more of those than are known.
set -uo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$1
export PATH="$build/bin:$PATH"
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
golden=${2:-$root/tests/golden}
cases=("$golden"/*/cases.json)
vectors=$root/tests/processors/processor_vectors.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Vectors that are not replayed: kind, class, how many. No other may be unsupported or optional.
cat >"$work/expected" <<'END'
error ClassifierFreeGuidance 4
loop greedy 14
END

left_out() {
    awk '/^(unsupported|optional) / { n[$2 " " $3]++ } END { for (k in n) print k, n[k] }' "$1" | LC_ALL=C sort
}

# A wrong expectation must fail: NAME, what to change (sed -E), how many cases have it.
wrong() {
    sed -E "$2" "$vectors" >"$work/wrong.json"
    local failed
    failed=$(cadenza parity "$work/wrong.json" | awk 'END { print $3 }')
    if [ "$failed" = "$3" ]; then echo "vectors 1 0 0 0"; else
        echo "FAILED: $1 changed: $failed cases fail, expected $3"
        echo "vectors 0 1 0 0"
    fi
}

# Rows of the table as rows of ours: what is not supported of a folder that runs, and a folder on the list that runs.
folders() {
    awk -v list="$root/tests/golden/unsupported.txt" -v here="$root/tests/golden/cpu_only.txt" '
        function know(file, line, word) { while ((getline line < file) > 0) if (line !~ /^(#|$)/) { split(line, word, " "); known[word[1]] = 1 } }
        BEGIN { know(list); if (ENVIRON["CADENZA_DEVICE"] != "") know(here) }
        $1 ~ /\// && NF == 5 && $2 ~ /^[0-9]+$/ {
            name = $1
            sub(/.*\//, "", name)
            whole = $2 == 0 && $3 == 0 && $4 > 0
            if (name in known && whole) { print "skipped golden/" name ": the model is not supported yet"; print "goldens 0 0 0", $4; next }
            if (name in known) print "FAILED: " name " is on a list of tests/golden, but loads"
            if ($4 > 0) print "FAILED: " $4 " cases of " name " are not supported"
            print "goldens", $2, $3 + (name in known), $4, $5
        }' "$1"
}

{
    for batch in one all; do
        cadenza parity --verbose --allow-unsupported --batch $batch "${cases[@]%/cases.json}" >"$work/goldens" ||
            echo "goldens 0 1 0 0 FAILED: cadenza parity --batch $batch ended with $?"
        cat "$work/goldens"
        folders "$work/goldens"
    done
    cadenza parity --verbose "$vectors" | tee "$work/replayed" |
        sed -E 's,^(unsupported|optional) ([^ ]+) ([^ ]+) ([^ ]+): ,skipped \2/\3/\4: ,; s,^[^ ]*processor_vectors.json ,vectors ,'
    left_out "$work/replayed" | diff "$work/expected" - ||
        echo "vectors 0 1 0 0 FAILED: other vectors are left out than the list in parity.sh says"
    wrong "what is refused" '/"kind":"config"/s/"error":false/"error":true/' 38
    wrong "minor issues" '/"kind":"config"/s/"minor_issues":\[[^]]*/"minor_issues":["seed"/' 38
    wrong "max_length" '/"kind":"lengths"/s/(.*"max_length":)[0-9]+/\1999/' 24
    wrong "the order" '/"kind":"pipeline/s/"order":\[/"order":["LogitNormalization"],"was":[/' 29
    wrong "what a streamer prints" '/"kind":"streamer"/s/\["",false\]/["x",false]/' 12
    wrong "scores of a chain" '/"kind":"pipeline"/s/("scores_out":\[\[)[^,]+/\10.125/' 28
} | tee /dev/stderr | awk '
    $1 == "goldens" { passed += $2; failed += $3 + $4; skipped += $5 }
    $1 == "vectors" { passed += $2; failed += $3; skipped += $4 + $5 }
    END { print "COUNTED " passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"; exit failed > 0 || passed == 0 }'
