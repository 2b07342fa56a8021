#!/usr/bin/env bash
# The zoo as a user meets it. Every processor under greedy decoding, sampling, beams, drafts and in company gives what the slow,
# obvious way gives (composition/obvious.lua: one row, no cache, no drafts, states told anew), and changes something. Every
# package's story.ini runs, and is the one its README shows; docs/zoo.md lists every package.
# run.sh BUILD_FOLDER; ends with a line "COUNTED n passed, n failed, n skipped".
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
build=$(realpath "$1")
export CADENZA_PLUGIN_DIR=${CADENZA_PLUGIN_DIR:-$build/lib/cadenza} PATH=$build/bin:$PATH
model=$root/models/pocket-dictionary
draft=$root/models/pocket-dictionary-draft
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root/tests/whole/composition/obvious.lua" "$work"
cd "$work" || exit 1
passed=0 failed=0

ok() { passed=$((passed + 1)); }
bad() {
    echo "FAILED $*"
    failed=$((failed + 1))
}

# Settings under which each processor changes answers of the shipped model; eager ones, so that a mistake shows.
processors=(dry xtc dynamic_temperature entropy_temperature top_n_sigma tail_free top_a smoothing frequency_penalty
    presence_penalty logit_bias keyword think_answer)
settings() {
    case $1 in
    dry) echo 'multiplier = 6;allowed_length = 1;base = 2' ;;
    xtc) echo 'probability = 1;threshold = 0.02' ;; # a die falls by row, and beams are rows
    dynamic_temperature) echo 'low = 0.3;high = 4' ;;
    entropy_temperature) echo 'temperature = 3;theta = 0.5' ;;
    top_n_sigma) echo 'top_n_sigma = 0.3' ;;
    tail_free) echo 'tfs_z = 0.4' ;;
    top_a) echo 'top_a = 1' ;;
    smoothing) echo 'smoothing_factor = 0.1;smoothing_curve = 2' ;;
    frequency_penalty) echo 'frequency_penalty = 5' ;;
    presence_penalty) echo 'presence_penalty = 6' ;;
    logit_bias) echo 'texts = [" large", " stream of"];biases = [-30, 4]' ;;
    keyword) echo 'words = [" red", " animal"];boost = 5' ;;
    think_answer) echo 'thinking = yes;close = " Example:";think_budget = 4;answer_budget = 7' ;;
    esac
}
# Those that keep the order of the tokens matter where tokens are drawn, and only there.
modes_of() {
    case $1 in
    dynamic_temperature | entropy_temperature | top_n_sigma | tail_free | top_a | smoothing) echo 'sample' ;;
    *) echo 'greedy sample beam lookup assisted company' ;;
    esac
}

# What lowers repetitions needs room for some: these go on past the end of an entry, as "free" does, which has no processor.
free=' dry frequency_penalty presence_penalty free '

pipeline() { # fast or slow, mode, processor or none or free: writes the ini and prints its name
    local name=$1-$2-$3.ini strategy=auto
    [ "$1" = slow ] && strategy=lua:obvious.lua
    {
        printf '[pipeline]\nstrategy = %s\n' $strategy
        [[ $3 = none || $3 = free ]] || printf 'processors = %s\n' "$3"
        printf '[generation]\nseed = 7\n'
        [[ $free = *" $3 "* ]] && printf 'max_new_tokens = 40\neos_token_id = none\n' || printf 'max_new_tokens = 18\n'
        [ "$2" = sample ] && printf 'do_sample = true\ntemperature = 1.5\n' || printf 'do_sample = false\n'
        [ "$1$2" = fastbeam ] && printf 'num_beams = 3\n'
        [ "$1$2" = fastlookup ] && printf 'prompt_lookup_num_tokens = 4\n'
        [[ $3 = none || $3 = free ]] || { printf '[%s]\n' "$3" && settings "$3" | tr ';' '\n'; }
        [ "$1$2" = slowbeam ] && printf '[lua:obvious.lua]\nwidth = 3\n'
    } >"$name"
    echo "$name"
}

ask() { # fast or slow, mode, processor
    local ini prompt
    ini=$(pipeline "$@")
    for prompt in '[360,336,292,305,299,261]' '[1037,512,292,305,299,261]'; do
        [ "$1$2" = fastcompany ] && prompt='[360,336,292,305,299,261], [1037,512,292,305,299,261]'
        printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "$prompt" "$ini" \
            "$([ "$1$2" = fastassisted ] && printf ', "assistant": {"model": "%s"}' "$draft")" >>"$1.jsonl"
        [ "$1$2" = fastcompany ] && break
    done
}

for p in none free "${processors[@]}"; do
    for mode in $([[ $p = none || $p = free ]] && echo greedy sample beam lookup assisted company || modes_of $p); do
        for way in fast slow; do ask $way $mode $p; done
        printf '%s under %s\n%s under %s\n' $p $mode $p $mode >>names
    done
done
answers() { # requests; out: a line of ids per row, pads at the end dropped
    cadenza run "$model" --input "$1" 2>>err |
        sed -E 's/^\{"error": (.*)\}$/\1/; s/.*"error": (.*)\}$/\1/; s/.*"sequences": \[(\[[^]]*\](, \[[^]]*\])*)\].*/\1/; s/\], \[/\n/g; s/[][]//g' |
        sed -E 's/(, [04])+$//'
}
for way in fast slow; do answers $way.jsonl >$way; done
paste -d'|' fast slow names | awk -F'|' -v free="$free" '
    $1 == $2 && $1 ~ /^[0-9, ]+$/ { good++ }
    $1 != $2 || $1 !~ /^[0-9, ]+$/ { printf "FAILED %s:\n  %s\n  %s\n", $3, $1, $2; bad++ }
    { split($3, at, " under ") ; place = (index(free, " " at[1] " ") > 0) "," at[2] "," ++nth[$3]
      if (at[1] == "none" || at[1] == "free") plain[place] = $1
      else { seen[$3] = 1; if ($1 != plain[place]) changed[$3] = 1 } }
    END { for (k in seen) if (k in changed) good++; else { print "FAILED " k ": changes nothing"; bad++ }
          print good + 0, bad + 0 > "/dev/stderr" }' 2>counts
read -r good worse <counts
passed=$((passed + good)) failed=$((failed + worse))

# --- the loops, with processors that have state: without a cache the same; two prompts in company as each alone ----------
loops=(mirostat mirostat_v2 best_of_n self_consistency mbr cot_decoding entropy_branching banned_strings multiple_choice
    contrastive_decoding args tree_of_thought soft_prompt)
drawing=' mirostat mirostat_v2 best_of_n self_consistency mbr tree_of_thought ' # a second row draws after the first, or with a seed of its own
loop_settings() {
    case $1 in
    mirostat*) echo 'tau = 3' ;;
    self_consistency) echo 'n = 4;pattern = kind of ([%a ]+)' ;;
    cot_decoding) echo 'k = 3' ;;
    entropy_branching) echo 'threshold = 0.7;width = 3;branches = 7' ;;
    banned_strings) echo 'banned = ["stream", "water", "animal", "kind", "st"]' ;;
    args) echo 'k = 3;w = 0.5' ;;
    tree_of_thought) echo 'thoughts = 2;depth = 2;most = 6' ;;
    multiple_choice) echo 'choices = [" natural stream", " red", " animal", " an artistic form"]' ;;
    esac
}
loop_pipeline() { # loop, cache yes or no, processors
    local name="$1-$2-${3// /}.ini" p
    {
        printf '[pipeline]\nstrategy = %s\nprocessors = %s\ndrafter = none\n[generation]\nuse_cache = %s\n' "$1" "$3" "$2"
        printf 'max_new_tokens = 20\nseed = 5\n'
        [[ $drawing = *" $1 "* ]] || printf 'do_sample = false\n'
        printf '[%s]\n' "$1" && loop_settings "$1" | tr ';' '\n'
        for p in ${3//,/ }; do printf '[%s]\n' "$p" && settings "$p" | tr ';' '\n'; done
    } >"$name"
    echo "$name"
}
one='[360,336,292,305,299,261]' other='[1037,512,292,305,299,261]'
for loop in "${loops[@]}"; do
    for with in 'dry, keyword' 'frequency_penalty, think_answer'; do
        second=''
        [ $loop = contrastive_decoding ] && second=", \"assistant\": {\"model\": \"$draft\"}"
        cached=$(loop_pipeline $loop yes "$with") bare=$(loop_pipeline $loop no "$with")
        for p in "$one" "$other"; do
            printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "$p" "$cached" "$second" >>alone.jsonl
            printf '{"prompt_ids": [%s], "pipeline": "%s"%s}\n' "$p" "$bare" "$second" >>bare.jsonl
            printf '%s with %s\n' $loop "$with" >>loop_names
        done
        printf '{"prompt_ids": [%s, %s], "pipeline": "%s"%s}\n' "$one" "$other" "$cached" "$second" >>both.jsonl
    done
done
for which in alone bare both; do answers $which.jsonl >$which; done
paste -d'|' alone bare both loop_names >loops_said
[ "$(wc -l <loops_said)" -eq $((4 * ${#loops[@]})) ] || bad "loops: $(cat loops_said)"
while IFS='|' read -r a b c name; do
    [[ $a =~ ^[0-9,\ ]+$ && $a = "$b" ]] && ok || bad "$name, without a cache: $a / $b"
    [[ $drawing = *" ${name%% *} "* || $a = "$c" ]] && ok || bad "$name, in company: $a / $c"
done <loops_said

# --- the packages as folders ------------------------------------------------------------------------------------------
for story in "$root"/plugins/*/story.ini; do
    name=$(basename "$(dirname "$story")")
    second=() # contrastive decoding needs two models, proxy tuning three
    [ "$name" = contrastive_decoding ] && second=(--assistant "$draft")
    [ "$name" = proxy_tuning ] && second=(--with expert="$draft" --with antiexpert="$draft")
    said=$(cadenza run "$model" "${second[@]}" --pipeline "$CADENZA_PLUGIN_DIR/$name/story.ini" -p 'river (noun):' 2>&1 </dev/null) &&
        [ -n "$said" ] && ok || bad "$name/story.ini: $said"
    diff "$story" <(awk '/^```ini story.ini$/ { on = 1; next } /^```$/ { on = 0 } on' "$root/plugins/$name/README.md") && ok ||
        bad "$name: the README shows another story.ini"
    grep -q "(../plugins/$name/README.md)" "$root/docs/zoo.md" && ok || bad "$name is not in docs/zoo.md"
    cadenza plugin list | grep -qE "^ +$name " && ok || bad "$name is not listed"
done

# --- a soft prompt whose vectors are those of words says what the words say, from a file in either type -----------------------
for type in BF16 F32; do
    cp -r "$CADENZA_PLUGIN_DIR/soft_prompt" words-$type
    sed -i 's/^id = .*/id = org.example.words/' words-$type/plugin.ini
    sed -i 's/id = "soft_prompt"/id = "org.example.words"/' words-$type/soft_prompt.lua
    python3 - "$model/model.safetensors" words-$type/soft_prompt.safetensors $type <<'END' || bad "no soft prompt of words"
import json, struct, sys
bytes_ = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", bytes_[:8])[0]
entry = json.loads(bytes_[8:8 + size])["model.embed_tokens.weight"]
width, start = entry["shape"][1], 8 + size + entry["data_offsets"][0]
rows = b"".join(bytes_[start + 2 * width * i:start + 2 * width * (i + 1)] for i in (360, 336, 292, 305))
if sys.argv[3] == "F32":
    rows = b"".join(b"\0\0" + rows[i:i + 2] for i in range(0, len(rows), 2))
header = json.dumps({"__metadata__": {"format": "pt"}, "prompt_embeddings":
                     {"dtype": sys.argv[3], "shape": [4, width], "data_offsets": [0, len(rows)]}}).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(header)) + header + rows)
END
    whole=$(cadenza run "$model" -s do_sample=no -s max_new_tokens=30 -p 'river (noun): a')
    soft=$(cadenza run "$model" --plugin words-$type -s strategy=org.example.words -s do_sample=no -s max_new_tokens=30 -p '): a')
    [ -n "$whole" ] && [ "$soft" = "$whole" ] && ok || bad "a soft prompt of words, $type: $soft / $whole"
done
cat err >&2
echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 330 ]
