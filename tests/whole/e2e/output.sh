#!/usr/bin/env bash
# Standard output of every command that prints: a full device is a failure in one sentence, a reader that went away ends
# the program quietly. output.sh BUILD. The commands come from the program's own help: one without a row here fails.
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
model=$root/models/pocket-dictionary
quiet() { sed -i "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d" "$1"; }

# --- what is run: COMMAND [VERB] | arguments | standard input; a row's files are made anew each time by `prepare`
rows='
run||-p a -s max_new_tokens=3|
run||-p a -s max_new_tokens=3 --json|
run||--input lines.jsonl|
chat||-s max_new_tokens=3|hello
lua||-e 1+1|
explain||hf|
explain||--schema|
plugin|list||
plugin|list|-v|
plugin|info|greedy|
plugin|page|greedy|
plugin|schema|greedy|
plugin|new|fresh --lang lua|
plugin|add|package --yes|
plugin|remove|org.example.added|
plugin|test|package|
model|info||
model|info|--json|
model|check||
model|convert|MODEL made.gguf|
model|quantize|MODEL made.gguf --type q8_0|
tokenize||-p hello|
tokenize||--jsonl|"a"
template|render|--context context.json|
template|render|--jsonl|{"messages": []}
grammar|check|--regex a+ -p aa|
grammar|sample|--regex a+ 3|
grammar|show|--regex a+|
grammar|convert|--regex a+|
config|show|MODEL|
config|validate|MODEL|
config|save|-s temperature=0.5 -s do_sample=yes -o made.json|
detect||-p hello -w {"greenlist_ratio":0.5}|
score||--text hello|
bench||--prompt-tokens 4 --new-tokens 2 --context 2 --rounds 1|
parity||PARITY|
steer|make|lines.jsonl context.json MODEL -o made.gguf|
version|||
model|list||
list|||
list||--json|
pull||org/small --offline|
completion|bash||
completion|fish||
completion|zsh||
manual||run|
'
prepare() {
    rm -rf fresh made* package
    printf '{"prompt": "a", "kwargs": {"max_new_tokens": 2}}\n' >lines.jsonl
    printf '{"messages": [{"role": "user", "content": "a"}]}\n' >context.json
    cp -r new_package package
    case "$1 $2" in
    "plugin add") cadenza plugin remove org.example.package >/dev/null 2>&1 ;;
    "plugin remove") cadenza plugin add added --yes >/dev/null ;;
    esac
}
cadenza plugin new new_package --lang lua >/dev/null
sed -i 's/org.example.new-package/org.example.package/' new_package/plugin.ini new_package/*.lua
cadenza plugin new added --lang lua >/dev/null

mkdir -p "$HOME/.cache/huggingface/hub/models--org--small/snapshots"
cp -rL "$model" "$HOME/.cache/huggingface/hub/models--org--small/snapshots/abc"

# Puts the words of a row into words[].
words_of() {
    read -ra words <<<"$3"
    for i in "${!words[@]}"; do
        [ "${words[i]}" != MODEL ] || words[i]=$model
        [ "${words[i]}" != PARITY ] || words[i]=$root/tests/golden/gpt2
    done
    [ -z "$2" ] || words=("$2" ${words[@]+"${words[@]}"})
    words=("$1" ${words[@]+"${words[@]}"})
}

told() { [ "$(wc -l <err)" = 1 ] && grep -q '^cadenza: standard output: ' err; }

# full NAME STDIN WORDS...: prints into a full device, which must fail and be told; what prints nothing is told by name
full() {
    local name=$1 input=$2 status
    shift 2
    cadenza "$@" >out 2>err <<<"$input"
    status=$?
    [ $status = 0 ] || bad "$name: does not even run here: $(cat err)"
    if [ ! -s out ]; then
        silent="$silent, $name"
        return
    fi
    prepare "$1" "${2-}"
    cadenza "$@" >/dev/full 2>err <<<"$input"
    status=$?
    quiet err
    if [ $status != 1 ]; then bad "$name: status $status with a full standard output"
    elif ! grep -q '^cadenza: standard output: ' err; then bad "$name: a full standard output is not told: $(cat err)"
    elif [ "$(grep -c 'standard output' err)" != 1 ]; then bad "$name: told more than once: $(cat err)"
    else good; fi
    prepare "$1" "${2-}"
    # Starts when nobody reads any more, with the signal ignored, as some programs start others.
    rm -f closed
    (
        trap '' PIPE
        {
            while [ ! -e closed ]; do :; done
            exec cadenza "$@" 2>err <<<"$input"
        } | {
            exec 0<&-
            : >closed
        }
        exit "${PIPESTATUS[0]}"
    )
    status=$?
    quiet err
    if [ $status != 141 ]; then bad "$name: status $status when nobody reads, expected 141"
    elif grep -q 'standard output' err; then bad "$name: a reader that went away is told: $(cat err)"
    else good; fi
}

silent=
while IFS='|' read -r command verb args input; do
    [ -n "$command" ] || continue
    prepare "$command" "$verb"
    words_of "$command" "$verb" "$args"
    full "$command${verb:+ $verb}${args:+ $args}" "$input" "${words[@]}"
done <<<"$rows"

# --- every command and every verb that the help names has a row, and its help is checked too
covered() { grep -q "^$1|$2|" <<<"$rows"; }
commands=$(cadenza --help | sed -n '/^usage:/,/^.cadenza COMMAND/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 14 ] && good || bad "the help lists too few commands: $commands"
for command in $commands; do
    # It runs until it is stopped, and says what it says on standard error: tests/unit/serve/life.py.
    [ "$command" != serve ] || continue
    prepare "$command" ""
    full "$command --help" "" "$command" --help
    usage=$(cadenza "$command" --help | sed -n '/^$/q;p')
    verbs=$(grep -oE "cadenza $command [a-z][a-z|]*" <<<"$usage" | awk '{print $3}' | tr '|' '\n' | sort -u)
    [ -n "$verbs" ] || grep -q "^$command|" <<<"$rows" || bad "no row for cadenza $command"
    for verb in $verbs; do
        [ "$command $verb" != "bench serve" ] || continue # it needs a server: tests/unit/serve/bench.py
        covered "$command" "$verb" && good || bad "no row for cadenza $command $verb"
    done
done
prepare "" ""
full "--help" "" --help
full "help temperature" "" help temperature

# --- standard output that is closed is no place either, and no file gets its number
cadenza version >&- 2>err && bad "a closed standard output: status 0" || good
told && good || bad "a closed standard output: $(cat err)"
cadenza run -p a -s max_new_tokens=2 -s output_scores=yes --outputs made.safetensors >&- 2>err && bad "closed, with a file: status 0" || good
cadenza score --outputs made.safetensors >/dev/null 2>err && good || bad "a file that took the number of standard output: $(cat err)"

[ -z "$silent" ] || printf 'nothing printed, nothing to check:%s\n' "${silent#,}"
printf 'COUNTED %d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
