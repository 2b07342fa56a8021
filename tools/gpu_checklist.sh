#!/usr/bin/env bash
# gpu_checklist.sh - everything to be known of the CUDA backend on the card that is there, part by part, into a folder.
#
#   tools/gpu_checklist.sh [--long] [--parts LIST] [--again] [FOLDER]
#
#   FOLDER         the report: a log for each part, report.json, report.md; gpu-report without it
#   --parts LIST   these parts alone, separated by commas
#   --again        parts that are done are run again; without it a second call goes on where the first ended
#   --long         every shape, context and sanitizer, an hour; without it, under ten minutes
#
# Each part has its own time limit and fails or is left out alone; what fails last leaves the others' logs as they are.
# Needed: nvcc and a C compiler. For the parts `goldens` and `program` the whole program: built here where its packages are
# installed, or a build folder of another machine in CADENZA_BUILD. For `kernels` Nsight Compute (ncu).
set -uo pipefail
cd "$(dirname "$0")/.."

all_parts=(machine build check limits decode prefill goldens program memcheck kernels racecheck initcheck synccheck)
short_parts=(machine build check limits decode prefill goldens program memcheck kernels)
long=false again=false parts=() report=gpu-report

misuse() {
    echo "gpu_checklist: $*; see the head of $0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --long) long=true ;;
    --again) again=true ;;
    --parts)
        [ $# -gt 1 ] || misuse "--parts takes a list"
        IFS=, read -ra parts <<<"$2"
        shift
        ;;
    -h | --help)
        sed -n '2,15s/^# \{0,1\}//p' "$0"
        exit
        ;;
    -*) misuse "'$1' is not an option" ;;
    *) report=$1 ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || { $long && parts=("${all_parts[@]}") || parts=("${short_parts[@]}"); }
for part in "${parts[@]}"; do
    [[ " ${all_parts[*]} " == *" $part "* ]] || misuse "there is no part '$part': expected ${all_parts[*]}"
done
mkdir -p "$report" || exit 1
export PATH=$PATH:/usr/local/cuda/bin CUDA_BUILD=${CUDA_BUILD:-build-gpu}

not_run() {
    echo "not run: $*"
    exit 77
}

# The bytes a second that the card reads, once `limits` has run: shares are of it.
read_option() {
    local rate
    rate=$(sed -n 's/.*"work": "bandwidth".*"read": \([0-9]*\).*/\1/p' "$report/limits.log" 2>/dev/null | tail -1)
    [ -n "$rate" ] && printf '%s\n' --read "$rate"
}

bench() { # options of bench_cuda...
    local rate
    mapfile -t rate < <(read_option)
    tools/cuda/bare.sh bench --json "${rate[@]}" "$@"
}

# --- the parts: each runs in a shell of its own ---

part_machine() {
    command -v nvidia-smi >/dev/null || not_run "there is no nvidia-smi"
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap,clocks.max.sm,clocks.max.memory --format=csv || return 1
    nvcc --version | tail -2
    echo "processors: $(nproc), $(uname -m), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
    git log -1 --format='commit %h' 2>/dev/null || true
}

part_build() {
    tools/cuda/bare.sh build && tail -1 "$CUDA_BUILD/registers.txt"
}

part_check() { tools/cuda/bare.sh check; }
part_limits() { tools/cuda/bare.sh limits; }

part_decode() {
    if $long; then
        bench --shapes 0.5B,7B,8B --weights bf16,q8_0,q4_0,q4_k,mxfp4,fp8 --contexts 128,4096,32768 --batches 1,8,32,128 --prompts none --steps 64
        bench --shapes 8B --weights bf16,q8_0 --contexts 4096,32768 --batches 1,8 --prompts none --steps 64 --kv bf16
        bench --shapes 8B --weights q8_0 --contexts 4096,32768 --batches 1,8 --prompts none --steps 64 --kv q8_0
        bench --shapes 8B --weights q4_0 --contexts 4096,32768 --batches 1,8 --prompts none --steps 64 --kv q4_0
        bench --shapes 8B --weights bf16 --contexts 128 --batches 1,32 --prompts none --steps 32 --strict
    else
        bench --shapes 0.5B,8B --weights bf16,q8_0,q4_0,q4_k --contexts 128 --batches 1,8,32,128 --prompts none --steps 32 &&
            bench --shapes 8B --weights bf16 --contexts 4096,32768 --batches 1 --prompts none --steps 32 &&
            bench --shapes 8B --weights mxfp4,fp8 --contexts 128 --batches 1,8 --prompts none --steps 32
    fi
}

part_prefill() {
    local shapes=0.5B,8B
    $long && shapes=0.5B,7B,8B
    bench --shapes $shapes --weights bf16,q8_0 --contexts none --batches none --prompts 512,4096
}

# A folder with the whole program, or a sentence.
program() {
    local build=${CADENZA_BUILD:-build}
    nvidia-smi -L >/dev/null 2>&1 || not_run "nvidia-smi finds no NVIDIA device" >&2
    if [ -z "${CADENZA_BUILD:-}" ]; then
        command -v cmake >/dev/null && pkg-config --exists lua5.4 inih libutf8proc 2>/dev/null ||
            not_run "the program cannot be built here (cmake, lua5.4, inih and libutf8proc); CADENZA_BUILD names a build folder" >&2
        { cmake --preset gcc -DCADENZA_CUDA=ON -DCADENZA_CUDA_ARCHS=native && cmake --build --preset gcc; } >&2 || return 1
    fi
    "$build/bin/cadenza" version --verbose >&2 || not_run "$build/bin/cadenza does not run on this machine" >&2
    printf '%s\n' "$build"
}

part_goldens() {
    local build status=0
    build=$(program) || exit $?
    tests/cuda/goldens.sh "$build" || status=$?
    echo "== strict"
    "$build/bin/cadenza" parity --device cuda --precision f32 --determinism strict tests/golden/*/ | tail -1 || status=$?
    echo "== fast (rounded activations: how many cases keep their tokens)"
    "$build/bin/cadenza" parity --device cuda --precision auto tests/golden/*/ | tail -1
    return $status
}

part_program() {
    local build model=models/pocket-dictionary
    build=$(program) || exit $?
    for settings in "-s do_sample=no" "-s do_sample=yes --seed 1" "-s do_sample=yes --seed 1 -s repetition_penalty=1.2"; do
        echo "== $settings"
        # shellcheck disable=SC2086
        "$build/bin/cadenza" run $model --device cuda $settings -s min_new_tokens=100 -s max_new_tokens=100 -p 'music is' --profile ||
            return 1
    done
}

part_kernels() {
    local ncu
    ncu=$(command -v ncu) || not_run "there is no ncu (Nsight Compute)"
    tools/cuda/bare.sh build >/dev/null || return 1
    tools/cuda/bare.sh bench --shapes tiny --contexts 16 --batches 1 --prompts none --steps 1 >/dev/null || return 1
    for shape in 0.5B 8B; do
        echo "== $shape, bf16, one step of one row"
        "$ncu" --clock-control none --graph-profiling node --metrics gpu__time_duration.sum --csv --launch-skip 200 \
            --launch-count 600 "$CUDA_BUILD/bench_cuda" "$CUDA_BUILD/cuda.so" --shapes $shape --contexts 128 --batches 1 \
            --prompts none --steps 2 || return 1
    done
}

part_memcheck() { tools/cuda/bare.sh sanitize memcheck; }
part_racecheck() { tools/cuda/bare.sh sanitize racecheck; }
part_initcheck() { tools/cuda/bare.sh sanitize initcheck; }
part_synccheck() { tools/cuda/bare.sh sanitize synccheck; }

limit_of() { # part: seconds
    case $1 in
    machine) echo 20 ;;
    limits) echo 60 ;;
    build | check | prefill) echo 120 ;;
    decode) $long && echo 1500 || echo 150 ;;
    goldens) echo 300 ;;
    *) $long && echo 900 || echo 120 ;;
    esac
}

# --- running them ---

status_word() {
    case $1 in 0) echo ok ;; 77) echo "not run" ;; 124 | 137) echo "out of time" ;; *) echo "failed ($1)" ;; esac
}

run_part() {
    local part=$1 limit started status=0
    limit=$(limit_of "$part")
    if [ -e "$report/$part.status" ] && ! $again; then
        local before
        before=$(cut -d' ' -f1 "$report/$part.status")
        [ "$before" != 0 ] || { printf '%-10s done before\n' "$part"; return; }
    fi
    started=$(date +%s)
    # What a part starts is ended with it; its functions and settings come along.
    export -f "part_$part" not_run read_option bench program
    export report long CUDA_BUILD
    timeout --kill-after=10 "$limit" bash -c "set -uo pipefail; part_$part" >"$report/$part.log" 2>&1 </dev/null || status=$?
    echo "$status $(($(date +%s) - started)) $limit" >"$report/$part.status"
    printf '%-10s %s, %d s\n' "$part" "$(status_word $status)" $(($(date +%s) - started))
    [ $status -eq 0 ] || tail -3 "$report/$part.log" | sed 's/^/    /'
}

failed=0
for part in "${parts[@]}"; do
    run_part "$part"
    read -r status _ <"$report/$part.status"
    [ "$status" = 0 ] || [ "$status" = 77 ] || failed=1
done
if command -v python3 >/dev/null; then
    python3 tools/cuda/report.py "$report" || failed=1
else
    echo "no python3: the logs in $report stay as they are, without report.json and report.md"
fi
exit $failed
