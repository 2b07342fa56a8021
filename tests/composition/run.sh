#!/usr/bin/env bash
# Every pair of a way to decode, a processor and a stopping rule gives what the slow, obvious way gives: one row at a time,
# no cache reused, no drafts. run.sh BUILD_FOLDER; ends with a line "COUNTED n passed, n failed, n skipped".
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
export CADENZA_PLUGIN_DIR=${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}
model=$root/models/pocket-dictionary
draft=$root/models/pocket-dictionary-draft
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/tests/composition/*.lua "$work"
cd "$work" || exit 1

modes=(greedy sample beam assisted assisted_lookup)
processors=(none sparse stateless stateful guided)
stops=(length strings rule)
# Three prompts of one length: river (noun): a | music (noun): a | window (noun): a
prompts=('[360,336,292,305,299,261]' '[1037,512,292,305,299,261]' '[2127,2211,292,305,299,261]')

mode_keys() { # fast or slow, mode: [pipeline] keys, then [generation] keys after a bar
    case $1/$2 in
    fast/greedy) echo 'strategy = greedy|do_sample = false' ;;
    fast/sample) echo 'strategy = sample|do_sample = true' ;;
    fast/beam) echo 'strategy = beam|do_sample = false;num_beams = 3' ;;
    fast/assisted) echo 'strategy = auto|do_sample = false' ;;
    fast/assisted_lookup) echo 'strategy = auto|do_sample = false;prompt_lookup_num_tokens = 4' ;;
    slow/sample) echo 'strategy = lua:obvious.lua|do_sample = true' ;;
    slow/*) echo 'strategy = lua:obvious.lua|do_sample = false' ;;
    esac
}
processor_keys() {
    case $1 in
    none) echo '|' ;;
    sparse) echo '|repetition_penalty = 3.0;no_repeat_ngram_size = 2;bad_words_ids = [[845, 1535], [2447, 270], [856]]' ;;
    stateless) echo 'processors = test.stateless|' ;;
    stateful) echo 'processors = test.stateful|' ;;
    guided) echo '|guidance_scale = 1.6' ;;
    esac
}
stop_keys() {
    case $1 in
    length) echo '|' ;;
    strings) echo '|stop_strings = ["ing", "stream", "er "]' ;;
    rule) echo 'stopping = test.enough|' ;;
    esac
}

pipeline() { # fast or slow, mode, processor, stop: writes the ini and prints its name
    local name=$1-$2-$3-$4.ini all section
    all=("$(mode_keys "$1" "$2")" "$(processor_keys "$3")" "$(stop_keys "$4")" '|max_new_tokens = 18;seed = 7')
    {
        for section in pipeline generation; do
            echo "[$section]"
            for keys in "${all[@]}"; do
                if [ $section = pipeline ]; then echo "${keys%%|*}"; else tr ';' '\n' <<<"${keys#*|}"; fi
            done
        done
        [ "$1/$2" = slow/beam ] && printf '[lua:obvious.lua]\nwidth = 3\n'
    } >"$name"
    echo "$name"
}

assistant() { [ "$1" = fast/assisted ] && printf ', "assistant": {"model": "%s"}' "$draft"; }

for mode in "${modes[@]}"; do
    for processor in "${processors[@]}"; do
        for stop in "${stops[@]}"; do
            for way in fast slow; do
                ini=$(pipeline $way "$mode" "$processor" "$stop")
                for p in "${!prompts[@]}"; do
                    printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "${prompts[$p]}" "$ini" "$(assistant $way/"$mode")" >>$way.jsonl
                    echo "$mode x $processor x $stop, prompt $p" >>$way.names
                done
            done
            # All prompts as the rows of one request. Draws depend on the company by definition: not for sampling; drafts
            # are for one prompt.
            [[ $mode = greedy || $mode = beam ]] && printf '{"prompt_ids": [%s,%s,%s], "pipeline": "%s"%s}\n' "${prompts[@]}" \
                "fast-$mode-$processor-$stop.ini" "$(assistant fast/"$mode")" >>batch.jsonl
        done
    done
done

answers() { # in: requests; out: a line of new ids per row, pads at the end dropped
    cadenza run "$model" --plugin scripts.lua --input "$1" 2>>err |
        sed -E 's/^\{"error": (.*)\}$/\1/; s/.*"sequences": \[(\[[^]]*\](, \[[^]]*\])*)\].*/\1/; s/\], \[/\n/g; s/[][]//g' |
        sed -E 's/(, [04])+$//'
}
export PATH=$build/bin:$PATH
answers fast.jsonl >fast
answers slow.jsonl >slow
answers batch.jsonl >batch
grep -E '^(greedy|beam) x' fast.names >batch.names
grep -nE '^(greedy|beam) x' fast.names | cut -d: -f1 >rows
awk 'NR == FNR { want[$1]; next } FNR in want' rows slow >slow_for_batch

compare() { # what, file, file, names
    paste -d'|' "$2" "$3" "$4" | awk -F'|' -v what="$1" '
        $1 == $2 && $1 ~ /^[0-9, ]+$/ { good++; next }
        { printf "FAILED %s, %s:\n  %s\n  %s\n", $3, what, $1, $2; bad++ }
        END { print good + 0, bad + 0 > "/dev/stderr" }' 2>counts
    read -r good bad <counts
    passed=$((passed + good)) failed=$((failed + bad))
}
passed=0 failed=0
compare "in company" fast slow fast.names
compare "rows of one request" batch slow_for_batch batch.names
# A processor that changes nothing proves nothing: under every mode each must change some answer.
matters() {
    paste -d'|' fast fast.names | awk -F'|' '
        { split($2, at, " x "); pair = at[1] " x " at[2]; place = at[1] at[3]; seen[pair] = 1 }
        at[2] == "none" { plain[place] = $1; changed[pair] = 1 }
        $1 != plain[place] { changed[pair] = 1 }
        END { for (pair in seen) if (pair in changed) good++; else { print "FAILED " pair ": changes nothing"; bad++ }
              print good + 0, bad + 0 > "/dev/stderr" }' 2>counts
    read -r good bad <counts
    passed=$((passed + good)) failed=$((failed + bad))
}
matters
cat err >&2
echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 300 ]
