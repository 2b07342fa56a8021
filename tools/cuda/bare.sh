#!/usr/bin/env bash
# bare.sh - the CUDA backend on a machine that has nvcc and a C compiler and perhaps nothing else: builds the backend for the
# device that is there, its tests and its benchmark into a folder, and runs what is asked for.
#
#   tools/cuda/bare.sh build        the backend, for the device that is there
#   tools/cuda/bare.sh test         the kernel tests on the device, then under compute-sanitizer where there is one
#   tools/cuda/bare.sh check        the kernel tests alone
#   tools/cuda/bare.sh sanitize T.. the kernel tests under these tools of compute-sanitizer: memcheck, racecheck, ...
#   tools/cuda/bare.sh limits       what the card itself gives: copies, reads, cuBLAS
#   tools/cuda/bare.sh bench [...]  the table of docs/performance.md; bench_cuda's options
#   tools/cuda/bare.sh peer         the same shapes in transformers, where Python has it
#
# CUDA_BUILD names the folder (build-gpu), CUDA_ARCHS what to compile for (native; or 90, 100, ...).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${CUDA_BUILD:-build-gpu}
archs=${CUDA_ARCHS:-native}
cc=${CC:-cc}
PATH=$PATH:/usr/local/cuda/bin

say() { printf '%s\n' "$*"; }
not_run() {
    say "not run: $*"
    exit 77
}

flags=(-std=c++17 -O3 --fmad=false --prec-div=true --prec-sqrt=true --ftz=false -Werror all-warnings -lineinfo
    -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off -Xptxas=-v -Ikernels -Ikernels/cuda)
cflags=(-std=c17 -O2 -g -D_GNU_SOURCE -fPIC -ffp-contract=off -Ikernels -Itests/cuda)

codes() {
    local arch
    for arch in ${archs//[;,]/ }; do
        case $arch in
        native) printf '%s\n' -arch=native ;;
        *) printf '%s\n' "-gencode=arch=compute_$arch,code=sm_$arch" ;;
        esac
    done
}

# Objects of the backend, as many at once as there are processors; those older than any source are made again.
compile_backend() {
    command -v nvcc >/dev/null || not_run "there is no nvcc"
    [ "$archs" != native ] || nvidia-smi -L >/dev/null 2>&1 ||
        not_run "nvidia-smi finds no NVIDIA device (CUDA_ARCHS=90 compiles all the same)"
    mkdir -p "$out"
    local newest=$out/cuda.so source name
    [ -e "$newest" ] && [ -z "$(find kernels -newer "$newest" -type f | head -1)" ] && return
    mapfile -t code < <(codes)
    printf '%s\n' kernels/cuda/*.cu | xargs -P "$(nproc)" -I{} sh -c '
        name=$(basename "$1" .cu) && shift
        tools/cuda/compile.sh "$0/$name.o.registers" "$@" -c "kernels/cuda/$name.cu" -o "$0/$name.o"' \
        "$out" {} nvcc "${flags[@]}" "${code[@]}"
    "$cc" "${cflags[@]}" -fvisibility=hidden -c kernels/dtype.c -o "$out/dtype.o"
    local objects=()
    for source in kernels/cuda/*.cu; do
        name=$(basename "$source" .cu)
        objects+=("$out/$name.o")
    done
    tools/cuda/registers.sh "$out/registers.txt" "$out"/*.o.registers
    nvcc -shared -cudart static "${objects[@]}" "$out/dtype.o" -Xlinker=--as-needed,--exclude-libs,ALL -o "$out/cuda.so"
    say "built $out/cuda.so for $archs"
}

# The definition that the tests compare with: the CPU's scalar set and what its backend takes. No other set is compiled.
compile_tests() {
    local source sources=(kernels/dtype.c kernels/ref/*.c)
    for source in kernels/cpu/*.c; do
        case $source in */avx*) ;; *) sources+=("$source") ;; esac
    done
    "$cc" "${cflags[@]}" "${sources[@]}" "tests/cuda/$1.c" -o "$out/$1" -lm -lpthread -ldl
}

tests=(test_cuda_kernels test_cuda_experts test_cuda_attention test_cuda_recurrent)

check() {
    local test status=0
    compile_backend
    for test in "${tests[@]}"; do
        compile_tests "$test"
        "$out/$test" "$out/cuda.so" || status=$?
        [ $status -eq 77 ] && exit 77
        [ $status -eq 0 ] || exit $status
    done
}

sanitize() { # tools...
    local test tool sanitizer
    compile_backend
    sanitizer=$(command -v compute-sanitizer || true)
    [ -n "$sanitizer" ] || not_run "there is no compute-sanitizer"
    for tool in "$@"; do
        say "== compute-sanitizer $tool"
        for test in "${tests[@]}"; do
            [ -x "$out/$test" ] || compile_tests "$test"
            "$sanitizer" --tool "$tool" --error-exitcode 9 "$out/$test" "$out/cuda.so" | tail -5
        done
    done
}

run_tests() {
    check
    command -v compute-sanitizer >/dev/null || { say "not run: there is no compute-sanitizer"; return; }
    sanitize memcheck racecheck initcheck synccheck
}

run_limits() {
    command -v nvcc >/dev/null || not_run "there is no nvcc"
    [ "$archs" != native ] || nvidia-smi -L >/dev/null 2>&1 || not_run "nvidia-smi finds no NVIDIA device"
    mkdir -p "$out"
    mapfile -t code < <(codes)
    nvcc -std=c++17 -O3 -Werror all-warnings "${code[@]}" bench/cuda/limits.cu -lcublas -o "$out/limits"
    "$out/limits"
}

run_bench() {
    compile_backend
    "$cc" "${cflags[@]}" kernels/dtype.c bench/cuda/bench_cuda.c -o "$out/bench_cuda" -lm -ldl
    "$out/bench_cuda" "$out/cuda.so" "$@"
}

run_peer() {
    local python=${PYTHON:-python3}
    "$python" -c 'import torch, transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
        not_run "$python has no transformers with a CUDA device"
    "$python" bench/cuda/transformers_decode.py "$@"
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
build) compile_backend ;;
test) run_tests ;;
check) check ;;
sanitize) sanitize "$@" ;;
limits) run_limits ;;
bench) run_bench "$@" ;;
peer) run_peer "$@" ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
