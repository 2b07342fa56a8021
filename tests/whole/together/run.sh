#!/usr/bin/env bash
# A strategy that goes back, a stateful processor, a mask of a grammar and a drafter in one pipeline: alone, among fifty
# different pipelines, and without drafts it says the same. run.sh BUILD
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../../.." && pwd)
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
model=$root/models/pocket-dictionary
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/tests/whole/together/*.lua "$work"
cd "$work" || exit 1
passed=0 failed=0
same() {
    if [ "$2" = "$3" ] && [ -n "$2" ]; then passed=$((passed + 1)); else
        echo "FAILED $1: '$2' is not '$3'"
        failed=$((failed + 1))
    fi
}

prompts=('music is' 'river (noun): a' 'A dog is a kind of' 'To be angry is' 'A cat is a cat is a')
pipeline() { # number, drafter
    cat <<EOF
[pipeline]
strategy   = lua:drafts_and_returns.lua
drafter    = $2
processors = lua:fresh.lua, lua:grammar.lua
[generation]
max_new_tokens     = $((10 + $1 % 7))
repetition_penalty = 1.$(($1 % 4))
prompt_lookup_num_tokens = 4
[lua:drafts_and_returns.lua]
floor   = 0.$((1 + $1 % 6))
retries = $(($1 % 9))
[lua:fresh.lua]
strength = $(($1 % 5)).5
decay    = 0.$((5 + $1 % 5))
[lua:grammar.lua]
run = $((1 + $1 % 4))
EOF
}

for i in $(seq 50); do
    pipeline "$i" prompt_lookup > "p$i.ini"
    printf '{"prompt": "%s", "pipeline": "p%d.ini"}\n' "${prompts[$((i % ${#prompts[@]}))]}" "$i"
done > lines.jsonl

ids() { grep -o '"ids": *\[[^]]*\]*' | head -1; }

cadenza run "$model" --input lines.jsonl > together.jsonl 2> err || { echo "FAILED: $(cat err)"; failed=$((failed + 1)); }
drafted=$(grep -c '"accepted": *\[* *[1-9]' together.jsonl)
went_back=0
for i in $(seq 50); do
    prompt=${prompts[$((i % ${#prompts[@]}))]}
    all=$(sed -n "${i}p" together.jsonl | ids)
    same "pipeline $i alone" "$(cadenza run "$model" --json --pipeline "p$i.ini" -p "$prompt" 2>&1 | ids)" "$all"
    pipeline "$i" none > "n$i.ini"
    sed -i '/prompt_lookup_num_tokens/d' "n$i.ini"
    same "pipeline $i without drafts" "$(cadenza run "$model" --json --pipeline "n$i.ini" -p "$prompt" 2>&1 | ids)" "$all"
    never=$(cadenza run "$model" --json --pipeline "n$i.ini" -s retries=0 -p "$prompt" 2>&1 | ids)
    [ "$never" = "$all" ] || went_back=$((went_back + 1))
done
# The parts do something: going back changes answers, and so do the two processors.
[ "$went_back" -ge 10 ] && passed=$((passed + 1)) || { echo "FAILED: going back changed $went_back answers"; failed=$((failed + 1)); }
[ "$drafted" -ge 3 ] && passed=$((passed + 1)) || { echo "FAILED: drafts helped $drafted answers"; failed=$((failed + 1)); }
[ "$(sort -u together.jsonl | wc -l)" -ge 40 ] && passed=$((passed + 1)) || { echo "FAILED: the answers are alike"; failed=$((failed + 1)); }
echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
