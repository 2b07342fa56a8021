#!/usr/bin/env bash
# What tools/gpu_checklist.sh does where there is no device, and what report.py makes of logs, those of the benchmark on the
# emulated device among them. checklist.sh BUILD
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED: $*"
}
check() { # name, command...
    local name=$1
    shift
    if "$@" >"$work/said" 2>&1; then good; else bad "$name: $(tail -5 "$work/said")"; fi
}
if ! command -v python3 >/dev/null; then
    echo "skipped report: there is no python3"
    echo "COUNTED 0 passed, 0 failed, 1 skipped"
    exit 0
fi

# --- no device: every part says so, and that is no failure
mkdir "$work/bin"
printf '#!/bin/sh\nexit 9\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
parts=check,limits,decode,prefill,goldens,program,memcheck
check "without a device nothing fails" env PATH="$work/bin:$PATH" CUDA_BUILD="$work/gpu" \
    "$root/tools/gpu_checklist.sh" --parts $parts "$work/none"
check "all parts say that they were not run" test "$(grep -c '^77 ' "$work"/none/*.status | grep -c ':1$')" = 7
check "the report says so" grep -q '^| decode | not run |' "$work/none/report.md"
"$root/tools/gpu_checklist.sh" --parts dekode "$work/none" >"$work/said" 2>&1
if [ $? = 2 ] && grep -q "there is no part 'dekode'" "$work/said"; then good; else bad "a part that is none: $(cat "$work/said")"; fi

# --- the benchmark on the emulated device, every weight type; its rows are the report's
cc -std=c17 -O1 -D_GNU_SOURCE -DCDZ_BACKEND_BUILD="\"$2\"" -I"$root/kernels" "$root/kernels/dtype.c" \
    "$root/bench/cuda/bench_cuda.c" -o "$work/bench_cuda" -lm -ldl || bad "bench_cuda does not compile"
mkdir "$work/some"
bench=("$work/bench_cuda" "$build/tests/backends/cuda.so" --shapes tiny --steps 1)
check "decoding is measured" "${bench[@]}" --weights bf16,q8_0,q4_0,mxfp4,fp8 --contexts 16 --batches 1,3 --prompts none --json
cp "$work/said" "$work/some/decode.log"
check "prompts are measured" "${bench[@]}" --contexts none --batches none --prompts 32 --read 1000000 --json
cp "$work/said" "$work/some/prefill.log"
check "a weight type whose blocks do not fit is left out" "${bench[@]}" --weights q4_k --contexts 16 --batches 1 --prompts none
cp "$work/said" "$work/left"
check "and it is said why" grep -q 'left out: its rows are no whole blocks' "$work/left"
for wrong in "--weights q5" "--contexts 0" "--contexts 5," "--batches 129" "--kv f32,f16" "--steps 0" "--nonsense" "--read x"; do
    # shellcheck disable=SC2086
    "${bench[@]}" $wrong >"$work/said" 2>&1
    if [ $? = 2 ] && grep -q '^usage: bench_cuda' "$work/said"; then good; else bad "$wrong: $(tail -2 "$work/said")"; fi
done

# --- a report of whole and broken logs
cat >"$work/some/limits.log" <<'END'
{"work": "card", "name": "A Card", "capability": "9.0", "multiprocessors": 132, "bytes": 150000000000, "l2": 60000000}
{"work": "bandwidth", "bytes": 4294967296, "copy": 4300000000000, "read": 4400000000000}
{"work": "cublas", "shape": "tiny", "length": 32, "ms": 0.001, "flops": 1e12}
{"work": "broken
END
cat >"$work/some/kernels.log" <<'END'
== 8B, bf16, one step of one row
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","gemv(int)","gpu__time_duration.sum","nsecond","1,500"
"1","gemv(int)","gpu__time_duration.sum","nsecond","500"
"2","norm(int)","gpu__time_duration.sum","usecond","2"
END
echo "a sentence about a race" >"$work/some/racecheck.log"
for part in decode prefill limits kernels; do echo "0 3 60" >"$work/some/$part.status"; done
echo "9 4 120" >"$work/some/racecheck.status"
check "a report is made" python3 "$root/tools/cuda/report.py" "$work/some"
for line in '^# CUDA on A Card$' 'a plain read 4400 GB/s' '^| tiny | q8_0 | f32 | 16 | 3 |' '^| tiny | bf16 | 32 |' \
    '^| gemv | 2.0 | 0.500 |' '^| racecheck | failed | 4 | 120 |' '^a sentence about a race$'; do
    check "the report has $line" grep -q -- "$line" "$work/some/report.md"
done
check "and JSON" python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert len([row for row in report["rows"] if row["work"] == "decode"]) == 10, report
assert report["kernels_us"]["8B"]["gemv"] == 2.0, report' "$work/some/report.json"

echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
