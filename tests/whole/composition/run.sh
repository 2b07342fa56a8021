#!/usr/bin/env bash
# Every pair of a way to decode, a processor and a stopping rule gives what the slow, obvious way gives: one row at a time,
# no cache reused, no drafts, no state. Then pairs that are refused.
# run.sh BUILD_FOLDER; ends with a line "COUNTED n passed, n failed, n skipped".
# CADENZA_STOPS: the stopping rules of the pairs, by default "length strings rule". With fewer, whether each pair changes what is
# said is not asked: an early end may hide it.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
build=$(realpath "$1")
export CADENZA_PLUGIN_DIR=${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}
model=$root/models/pocket-dictionary
draft=$root/models/pocket-dictionary-draft
foreign=$root/tests/golden/llama_gqa
foreign_draft=$root/tests/golden/llama_uad_draft
hybrid=$root/tests/golden/qwen3_next
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/tests/whole/composition/*.lua "$work"
cd "$work" || exit 1

# Modes of the dictionary, and one that needs two tokenizers. Those that write rows of one request as they write each alone are
# also asked that way; draws depend on the company by definition.
modes=(greedy sample beam beam_sample group constrained contrastive dola backtrack assisted assisted_lookup assisted_lua assisted_forced early_exit)
foreign_modes=(assisted_uad)
drawing=' sample beam_sample '
processors=(none sparse stateless stateful guided synthid phased grammar steered)
all_stops='length strings rule'
read -ra stops <<<"${CADENZA_STOPS:-$all_stops}"
for stop in "${stops[@]}"; do
    [[ " $all_stops " = *" $stop "* ]] || { echo "CADENZA_STOPS: found '$stop', expected some of $all_stops"; exit 1; }
done
asked=$((300 * ${#stops[@]})) # at least
# Two prompts of one length: river (noun): a | music (noun): a
prompts=('[360,336,292,305,299,261]' '[1037,512,292,305,299,261]')
foreign_prompts=('[368,301,270,261,81,264]' '[264,292,86,296,284,301]')
# Of a model with recurrent layers, whose state goes back and forth with the sequence. It has no tokenizer.
hybrid_modes=(greedy sample beam beam_sample group contrastive dola backtrack assisted_lookup assisted_lua early_exit)
hybrid_prompts=('[60,36,92,105,99,61]' '[37,12,92,205,99,161]')
drawing+=' hybrid_sample hybrid_beam_sample '

mode_keys() { # fast or slow, mode: [pipeline] keys, then [generation] keys after a bar
    case $1/$2 in
    fast/greedy) echo 'strategy = greedy|do_sample = false' ;;
    fast/sample) echo 'strategy = sample|do_sample = true' ;;
    fast/beam) echo 'strategy = beam|do_sample = false;num_beams = 3' ;;
    */beam_sample) echo 'strategy = beam|do_sample = true;num_beams = 3' ;;
    */group) echo 'strategy = auto|do_sample = false;num_beams = 4;num_beam_groups = 2;diversity_penalty = 0.8' ;;
    */constrained) echo 'strategy = auto|do_sample = false;num_beams = 3;force_words_ids = [[2371], [[773, 270], [845]]]' ;;
    fast/contrastive) echo 'strategy = auto|do_sample = false;penalty_alpha = 0.6;top_k = 4' ;;
    */dola) echo 'strategy = auto|do_sample = false;dola_layers = low' ;;
    */backtrack) echo 'strategy = lua:backtrack.lua|do_sample = false' ;;
    fast/assisted_lua) echo 'drafter = lua:pairs.lua|do_sample = false' ;;
    fast/assisted_forced) echo 'drafter = forced|do_sample = false' ;;
    fast/assisted*) echo 'strategy = auto|do_sample = false' ;;
    fast/early_exit) echo 'strategy = auto|do_sample = false;assistant_early_exit = 2' ;;
    slow/sample) echo 'strategy = lua:obvious.lua|do_sample = true' ;;
    slow/*) echo 'strategy = lua:obvious.lua|do_sample = false' ;;
    esac
    [ "$2" = assisted_lookup ] && [ "$1" = fast ] && echo '|prompt_lookup_num_tokens = 4'
}
# The slow way of a loop that obvious.lua does not spell out: the same loop without a cache, and what it runs without state.
forgets() { [[ $1 = slow && " beam_sample group constrained dola backtrack " = *" $2 "* ]]; }
forgetful() { forgets "$@" && echo '|use_cache = false'; }
processor_keys() {
    case $2/$3 in
    */none) ;;
    hybrid_dola/guided) echo '|guidance_scale = -4.0' ;;
    hybrid_*/sparse) echo '|repetition_penalty = 3.0;no_repeat_ngram_size = 2;bad_words_ids = [[137], [212]]' ;;
    assisted_uad/sparse) echo '|repetition_penalty = 3.0;no_repeat_ngram_size = 2;bad_words_ids = [[98], [349]]' ;;
    */sparse) echo '|repetition_penalty = 3.0;no_repeat_ngram_size = 2;bad_words_ids = [[845, 1535], [2447, 270], [856]]' ;;
    */stateless) echo 'processors = test.stateless|' ;;
    */steered) if [ "$1" = fast ] || forgets "$1" "${2#hybrid_}"; then echo 'processors = test.steered|'; fi ;;
    */stateful) if forgets "$1" "${2#hybrid_}"; then echo 'processors = test.counting|'; else echo 'processors = test.stateful|'; fi ;;
    */phased) [ "$1" = slow ] && echo 'processors = test.phased|' ;;
    dola/guided) echo '|guidance_scale = -4.0' ;; # its candidates are few, and far apart
    */guided) echo '|guidance_scale = 1.6' ;;
    */grammar) echo '|regex = ( ?[a-z]+){1,3}( of the [a-z]+){1,4}[.]' ;;
    */synthid) echo '|watermarking_config = {"type": "synthid", "ngram_len": 3, "keys": [654, 400, 836, 123, 340]}' ;;
    esac
}
stop_keys() {
    case $3 in
    length) ;;
    strings) echo '|stop_strings = ["ing", "stream", "er "]' ;;
    rule) if forgets "$1" "${2#hybrid_}"; then echo 'stopping = test.enough_by_ids|'; else echo 'stopping = test.enough|'; fi ;;
    esac
}
# Sections, against a script that knows no state and no sections.
phase_keys() {
    local mark=845
    [ "$2" = assisted_uad ] && mark=98
    case $1/$3 in
    fast/phased) printf '[phase:one]\nuntil = [%d]\nmax_tokens = 3\nprocessors = test.stateless\n[phase:two]\nprocessors = test.every_third\n' $mark ;;
    slow/phased) printf '[test.phased]\nmark = %d\nbudget = 3\n' $mark ;;
    esac
}
strategy_keys() {
    [ "$1" = slow ] && ! forgets "$1" "$2" || return
    echo '[lua:obvious.lua]'
    case $2 in
    beam) echo 'width = 3' ;;
    contrastive) printf 'alpha = 0.6\ntried = 4\n' ;;
    esac
    [ "$3" != steered ] || echo 'steered = true'
}

pipeline() { # fast or slow, mode, processor, stop: writes the ini and prints its name
    local name=$1-$2-$3-$4.ini all section
    mapfile -t all < <(mode_keys "$1" "${2#hybrid_}"; forgetful "$1" "${2#hybrid_}"; processor_keys "$1" "$2" "$3"; stop_keys "$1" "$2" "$4"
        echo '|max_new_tokens = 18;seed = 7')
    {
        for section in pipeline generation; do
            echo "[$section]"
            for keys in "${all[@]}"; do
                if [ $section = pipeline ]; then echo "${keys%%|*}"; else tr ';' '\n' <<<"${keys#*|}"; fi
            done
        done
        strategy_keys "$1" "${2#hybrid_}" "$3"
        phase_keys "$1" "$2" "$3"
    } >"$name"
    echo "$name"
}

assistant() { # fast or slow, mode
    case $1/$2 in
    fast/assisted) printf ', "assistant": {"model": "%s"}' "$draft" ;;
    fast/assisted_uad) printf ', "assistant": {"model": "%s", "generation_config": {"assistant_confidence_threshold": 0.0}}' "$foreign_draft" ;;
    esac
}

questions() { # prefix of files, mode, prompts...: every pair of processor and rule, both ways
    local to=$1 mode=$2 processor stop way ini p
    shift 2
    for processor in "${processors[@]}"; do
        [ "$mode/$processor" = dola/grammar ] && continue # its candidates may all be against the constraint; see below
        for stop in "${stops[@]}"; do
            for way in fast slow; do
                ini=$(pipeline $way "$mode" "$processor" "$stop")
                for p in "$@"; do
                    printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "$p" "$ini" "$(assistant $way "$mode")" >>"$to$way.jsonl"
                    echo "$mode x $processor x $stop, $p" >>"$to$way.names"
                done
            done
            [[ $drawing = *" $mode "* ]] || printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "$(IFS=,; echo "$*")" \
                "fast-$mode-$processor-$stop.ini" "$(assistant fast "$mode")" >>"${to}batch.jsonl"
        done
    done
}

answers() { # model, requests; out: a line of new ids per row, pads at the end dropped
    cadenza run "$1" --plugin scripts.lua --input "$2" 2>>err |
        sed -E 's/^\{"error": (.*)\}$/\1/; s/.*"error": (.*)\}$/\1/; s/.*"sequences": \[(\[[^]]*\](, \[[^]]*\])*)\].*/\1/; s/\], \[/\n/g; s/[][]//g' |
        sed -E 's/(, [024])+$//'
}
export PATH=$build/bin:$PATH
for mode in "${modes[@]}"; do questions "" "$mode" "${prompts[@]}"; done
for mode in "${foreign_modes[@]}"; do questions foreign_ "$mode" "${foreign_prompts[@]}"; done
processors=(none sparse stateless stateful guided steered)
mapfile -t stops < <(printf '%s\n' "${stops[@]}" | grep -vx strings)
for mode in "${hybrid_modes[@]}"; do questions hybrid_ "hybrid_$mode" "${hybrid_prompts[@]}"; done
for way in fast slow batch; do
    answers "$model" $way.jsonl >$way
    answers "$foreign" foreign_$way.jsonl >>$way
    answers "$hybrid" hybrid_$way.jsonl >>$way
done
cat foreign_fast.names hybrid_fast.names >>fast.names
grep -vE '^(hybrid_)?(sample|beam_sample) x' fast.names >batch.names
grep -nvE '^(hybrid_)?(sample|beam_sample) x' fast.names | cut -d: -f1 >rows
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
[ "${CADENZA_STOPS:-$all_stops}" != "$all_stops" ] || matters

# What does not go together is refused with a sentence.
refused() { # sentence, arguments of cadenza run...
    local sentence=$1 said
    shift
    if said=$(cadenza run "$@" 2>&1 </dev/null); then
        echo "FAILED: not refused: $*"
    elif [[ $said != *"$sentence"* ]]; then
        echo "FAILED: $*: $said"
    else
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
}
best=("$model" -p 'music is' -s do_sample=no)
refused 'does not draw' "$model" -p 'music is' -s do_sample=yes -s num_beams=4 -s num_beam_groups=2 -s diversity_penalty=1.0
refused 'does not draw' "$model" -p 'music is' -s do_sample=yes -s num_beams=3 -s 'force_words_ids=[[845]]'
refused 'needs num_beams above 1' "${best[@]}" -s 'force_words_ids=[[845]]'
refused 'does not divide' "${best[@]}" -s num_beams=4 -s num_beam_groups=3 -s diversity_penalty=1.0
refused 'drafts need the cache' "${best[@]}" -s prompt_lookup_num_tokens=3 -s use_cache=no
refused 'drafts need the cache' "${best[@]}" --assistant "$draft" -s use_cache=no
refused 'with different tokens both need a tokenizer.json' "${best[@]}" --assistant "$root/tests/golden/gpt2"
refused 'needs use_cache = true' "${best[@]}" -s prefill_chunk_size=2 -s use_cache=no
refused 'DoLa is for models without an encoder' "$root/tests/golden/t5_relu" --ids 5,6,1 -s do_sample=no -s dola_layers=high
refused 'low_memory' "${best[@]}" -s num_beams=2 -s low_memory=yes
refused 'masked by the decode loop' "${best[@]}" -s dola_layers=low --regex '[0-9]+'
cat err >&2
echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt $asked ]
