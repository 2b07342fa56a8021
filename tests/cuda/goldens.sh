#!/usr/bin/env bash
# The recorded cases on a CUDA device, in float32: goldens.sh BUILD [BACKENDS [MODEL...]]. BACKENDS is a folder to open the backend
# from instead of the build's own: the emulated one. Then a device that fails is tried too. With models, the cases of these alone.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) || exit 1
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
[ -z "${2:-}" ] || { CADENZA_BACKENDS=$(cd "$2" && pwd) || exit 1; export CADENZA_BACKENDS; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
model=$root/tests/golden/llama_gqa

check() { # name, command...
    local name=$1
    shift
    if "$@" >"$work/said" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -5 "$work/said"
    fi
}

# A refusal or a failure: status not 0 and the sentence.
says() { # sentence, command...
    local sentence=$1 said
    shift
    said=$("$@" 2>&1) && { echo "$* succeeded"; return 1; }
    grep -q "$sentence" <<<"$said" || { echo "expected: $sentence"; echo "$said"; return 1; }
}

# replay NAME BATCH FOLDER...: of the recorded cases
replay() {
    local name=$1 batch=$2 p f u
    shift 2
    cadenza parity --device cuda --precision f32 --batch "$batch" "$@" >"$work/goldens" 2>&1
    read -r p f u _ < <(awk '$1 == "all" { print $2, $3, $4 }' "$work/goldens") || { p=0 f=1 u=0; tail -5 "$work/goldens"; }
    echo "goldens, $name: $p passed, $f failed, $u not supported"
    [ "$((f + u))" -eq 0 ] || grep -iE "fail|unsupported" "$work/goldens" | head
    passed=$((passed + p)) failed=$((failed + f + u))
}

if [ $# -gt 2 ]; then
    cd "$root/tests/golden" || exit 1
    replay "alone" one "${@:3}"
    replay "together" all "${@:3}"
    echo "COUNTED $passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
    exit
fi

# On a device all of them but the families that it refuses; on the emulation, which is slow, families that differ.
cd "$root/tests/golden" || exit 1
if [ -n "${2:-}" ]; then
    replay "alone" one gpt2 apertus bart bloom cohere2 deepseek_v2 deepseek_v3 gemma2 gemma3 glm4_moe gpt_oss gpt_oss_mxfp4 lfm2 llama4 llama_bf16 llama_draft mamba2 mistral_sw mixtral phi3_longrope qwen3 qwen3_next stablelm t5_relu
    replay "together" all falcon_h1 llama_f16 qwen3_5_moe qwen3_moe
else
    mapfile -t all < <(ls -d -- */cases.json | sed 's,/cases.json$,,' | grep -vxFf unsupported.txt | grep -vxFf cpu_only.txt)
    replay "alone" one "${all[@]}"
    replay "together" all "${all[@]}"
fi

refuses() { # model, what it needs
    says "needs $2, which cuda does not have" cadenza run "$1" --device cuda --ids 5,6
}
check "a family with several streams is refused" refuses gemma3n "rows of several streams"

# The same text and ids as on the CPU, drawn ones too.
answer() { # arguments of run...
    cadenza run "$@" --json | grep -o '^{"text": .*, "finish_reason"'
}
same_answer() { # arguments of run... -- options of the device...
    local run=()
    while [ "$1" != -- ]; do run+=("$1") && shift; done
    shift
    answer "${run[@]}" >"$work/cpu" || return 1
    answer "${run[@]}" "$@" >"$work/device" 2>"$work/profile" || { cat "$work/profile"; return 1; }
    cmp "$work/cpu" "$work/device"
}
draw=("$model" -p "the cat" -s do_sample=true -s seed=7 -s max_new_tokens=24)
check "draws are the CPU's" same_answer "${draw[@]}" --kv-cache f32 -- --device cuda
check "draws are the CPU's, strictly" same_answer "${draw[@]}" --kv-cache f32 -- --device cuda --determinism strict
penalised() { # options of the device...
    local fixed=(-p "the cat" -s seed=7 -s max_new_tokens=24 -s repetition_penalty=1.4 -s repetition_penalty.prompt_ignore_length=1
        -s no_repeat_ngram_size=2 -s min_new_tokens=9) sample
    for sample in do_sample=false do_sample=true; do
        same_answer "$model" "${fixed[@]}" -s $sample -- "$@" --profile || return 1
        grep -q "stayed on the device, and 0 of them" "$work/profile" || { cat "$work/profile"; return 1; }
    done
}
check "penalties are the CPU's" penalised --device cuda
# Of a vocabulary that is longer than a list of leaders, some thousand tokens allowed, a few, or one.
constrained() { # options of the device...
    local shipped=$root/models/pocket-dictionary way ways=("do_sample=false" "do_sample=false -s repetition_penalty=1.3 -s no_repeat_ngram_size=2"
        "do_sample=true -s temperature=0.7 -s top_k=40" "do_sample=true -s temperature=0.4 -s top_k=0 -s top_p=0.8 -s repetition_penalty=1.2"
        "do_sample=true -s min_p=0.1 -s top_k=0 -s num_return_sequences=3")
    for way in "${ways[@]}"; do
        for regex in ' [a-z]+( [a-z]+){20}' ' (an|the) [A-Z][a-z]{3,}: [0-9]{20}'; do
            # shellcheck disable=SC2086
            same_answer "$shipped" -p 'river (noun): a' -s seed=7 -s max_new_tokens=8 -s min_new_tokens=4 -s "regex=$regex" -s $way -- "$@" --profile || return 1
            grep -q "stayed on the device, and 0 of them" "$work/profile" || { cat "$work/profile"; return 1; }
        done
    done
}
check "constraints are the CPU's" constrained --device cuda --precision f32
check "draws are the CPU's, keys and values in f16" same_answer "${draw[@]}" --kv-cache f16 -- --device cuda
check "draws are the CPU's, keys and values in bf16" same_answer "${draw[@]}" --kv-cache bf16 -- --device cuda
check "draws are the CPU's, keys and values in q8_0" same_answer "$root/models/pocket-dictionary" "${draw[@]:1}" --kv-cache q8_0 -- --device cuda
check "draws are the CPU's, keys and values in q4_0" same_answer "$root/models/pocket-dictionary" "${draw[@]:1}" --kv-cache q4_0 -- --device cuda
# Recurrent layers, without attention beside them: what a device says of a text has the CPU's bits.
recurrent() { # options of the device...
    local text=("$root/tests/golden/mamba2" --ids "$(seq -s, 5 3 200)" --json)
    cadenza score "${text[@]}" >"$work/cpu" && cadenza score "${text[@]}" "$@" >"$work/device" && cmp "$work/cpu" "$work/device"
}
check "states are the CPU's, strictly" recurrent --device cuda --determinism strict
walked() { # options of the device...
    local one
    for one in lfm2 falcon_h1 qwen3_next; do
        same_answer "$root/tests/golden/$one" --ids "$(seq -s, 5 3 99)" -s do_sample=true -s seed=7 -s num_return_sequences=3 \
            -s min_new_tokens=24 -s max_new_tokens=24 -- "$@" || return 1
    done
}
check "draws over recurrent layers are the CPU's, strictly" walked --device cuda --determinism strict
# Float8, in blocks and one factor a row, in rows that end within a block, and of experts.
packed() { # options of the device...
    local one
    for one in blocks rows ragged; do
        same_answer "$root/tests/fp8/$one" --ids 5,6,7,40,41 -s do_sample=no -s min_new_tokens=24 -s max_new_tokens=24 -- "$@" || return 1
    done
}
check "float8 checkpoints answer as on the CPU" packed --device cuda --precision f32
check "float8 checkpoints answer as on the CPU, strictly" packed --device cuda --determinism strict
# A device has no kernel for experts whose matrices differ in type: the host chooses, and waits.
if command -v python3 >/dev/null; then
    greedy=("$work/mixed" --ids "5,6,7" -s do_sample=no -s min_new_tokens=20 -s max_new_tokens=20)
    check "a mixture of differing types is made" python3 "$root/tests/cuda/mixed_experts.py" mixtral "$work/mixed"
    check "experts of differing types are the CPU's" same_answer "${greedy[@]}" -- --device cuda --precision f32
    check "experts of differing types are the CPU's, strictly" \
        same_answer "${greedy[@]}" -- --device cuda --precision f32 --determinism strict
else
    echo "skipped experts of differing types: there is no python3"
    skipped=$((skipped + 3))
fi
# With experts, and with recurrent states: sixteen steps more are sixteen waits more, and as many batches of launches: nothing between a step's ids and the next
# ones hangs on what the host knows.
steps_wait_once() { # options...
    local one n waits batches waits_later batches_later counts=()
    for one in mixtral qwen3_moe gpt_oss_mxfp4 mamba2; do
        for n in 10 26; do
            CADENZA_EMULATED_COUNTS=$work/counts cadenza run "$root/tests/golden/$one" --device cuda --ids 5,6,7 \
                -s min_new_tokens=$n -s max_new_tokens=$n "$@" || return 1
            counts+=("$(sed 's/[a-z,]//g' "$work/counts")")
        done
        read -r waits batches waits_later batches_later <<<"${counts[*]}"
        echo "$one: from $waits to $waits_later waits, from $batches to $batches_later batches"
        [ $((waits_later - waits)) -eq 16 ] && [ $((batches_later - batches)) -eq 16 ] || return 1
        counts=()
    done
}
if [ -n "${2:-}" ]; then
    check "a step waits once" steps_wait_once
    check "a step waits once, strictly" steps_wait_once --determinism strict
    check "a step of four rows waits once" steps_wait_once -s do_sample=true -s seed=3 -s num_return_sequences=4
    check "a device that fails ends the request" env CADENZA_EMULATED_FAULT=40 bash -c "$(declare -f says)
        says 'the device has failed: kernel .*: the fault that was asked for' cadenza run '$model' --device cuda -p 'the cat'"
    check "a device that fails while rows come ends the request" env CADENZA_EMULATED_FAULT=400 bash -c "$(declare -f says)
        says 'the device has failed: kernel .*: the fault that was asked for' cadenza run '$model' --device cuda -p 'the cat' \
            -s do_sample=true -s seed=3 -s typical_p=0.5 -s min_new_tokens=60 -s max_new_tokens=60"
    check "no device is a sentence" env CADENZA_EMULATED_DEVICES=0 bash -c "$(declare -f says)
        says 'told to have no device' cadenza run '$model' --device cuda -p 'the cat'"
fi
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
