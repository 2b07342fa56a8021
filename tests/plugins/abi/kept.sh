#!/usr/bin/env bash
# Plugins built for an earlier ABI of this major, kept as binaries: each must load, pass the conformance kit and say just
# what today's build of its source says. kept.sh BUILD
#
#   kept.sh BUILD --record FILE.c     write kept/plugin-MAJOR.MINOR-ARCH.so from it: once, when an ABI is released
#
# What is in kept/ is never built anew and never removed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
build=$(cd "$1" && pwd)
cc=${CC:-cc}
arch=$(uname -m)
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
model=$root/models/pocket-dictionary
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

compile() { # source, object
    "$cc" -std=c17 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -I"$root/sdk/include" "$1" -o "$2"
}

if [ "${2:-}" = --record ]; then
    version=$(printf '#include "cadenza/plugin.h"\nCDZ_ABI_MAJOR.CDZ_ABI_MINOR\n' |
        "$cc" -E -P -I"$root/sdk/include" -xc - | tail -1 | tr -d ' ')
    out=$here/kept/plugin-$version-$arch.so
    [ ! -e "$out" ] || { echo "$out exists; what is kept is never built anew"; exit 1; }
    compile "$3" "$work/new.so" && strip "$work/new.so" && cp "$work/new.so" "$out" && echo "wrote $out"
    exit
fi

judge() { # name, whether it went well, what to show when it did not
    if "$2"; then passed=$((passed + 1)); else
        echo "FAILED $1: ${3:0:600}"
        failed=$((failed + 1))
    fi
}
verdict() { [ "$1" = "$2" ] && [ -n "$1" ] && echo true || echo false; }

pipeline() { # head lines
    cat <<EOF
[pipeline]
$1
processors = kept.parameters, kept.counting, kept.owning, kept.cooling, kept.guiding, kept:$work/some.kept
stopping = kept.enough
observers = kept.watch
[generation]
max_new_tokens = 24
seed = 5
[kept.parameters]
wholes = [1, 2, 3]
reals = [0.5, 2]
texts = ["a", "bc"]
lists = [[1, 2], [3]]
weighted = [[[5, 6], 0.5]]
pair = [3, 1.5]
choices = [[1, 2], [[3], [4, 5]]]
word = high
flag_or_word = always
word_or_ints = none
opt_flag = false
opt_whole = 4
opt_real = 0.25
[kept.enough]
tokens = 14
EOF
}

printf '343 3\n18 2\n' > "$work/some.kept"

# The answer and the log of a run, without its times.
answer() { # object, further arguments
    local object=$1
    shift
    cadenza run "$model" --plugin "$object" --pipeline "$work/p.ini" --log info --json "$@" 2>&1 |
        sed -E 's/"timings": \{.*//'
}

# The pipeline file, then what varies on the command line.
cases() {
    cat <<'EOF'
strategy = kept.search|-p|music is
strategy = kept.sample|-p|music is|-s|num_return_sequences=3
strategy = kept.verbs|-p|A cat is a cat is a
strategy = kept.pair|-p|music is|-s|num_beams=3|-s|num_return_sequences=2|-s|output_scores=true
drafter = kept.again|-p|A cat is a cat is a
strategy = auto|-p|music is|-s|num_beams=4|-s|do_sample=false
strategy = auto|-p|music is|-s|do_sample=true|-s|top_k=20
EOF
}

for kept in "$here"/kept/plugin-*-"$arch".so; do
    [ -e "$kept" ] || continue
    name=$(basename "$kept" "-$arch.so")
    source=$here/kept/${name#plugin-}.c
    compile "$source" "$work/today.so" 2> "$work/err"
    judge "$name: its source compiles with today's headers" "$(verdict "$?" 0)" "$(cat "$work/err")"
    cadenza plugin test "$kept" > "$work/kit" 2>&1
    judge "$name passes the conformance kit" "$(verdict "$?" 0)" "$(grep -E 'FAILED|again' "$work/kit")"
    while IFS='|' read -r head a b rest; do
        IFS='|' read -ra more <<< "$rest"
        pipeline "$head" > "$work/p.ini"
        then=$(answer "$kept" "$a" "$b" "${more[@]}")
        now=$(answer "$work/today.so" "$a" "$b" "${more[@]}")
        judge "$name: $head $rest" "$(verdict "$then" "$now")" "$(diff <(echo "$then") <(echo "$now"))"
        grep -q '"ids": \[' <<< "$then"
        judge "$name: $head $rest answers" "$(verdict "$?" 0)" "$then"
    done < <(cases)
done

skipped=0
if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
    echo "SKIPPED abi_kept: no binary is kept for $arch"
    skipped=1
fi
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
