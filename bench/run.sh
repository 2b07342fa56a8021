#!/usr/bin/env bash
# ./dev bench [NAME...]: runs the benchmarks of a build folder. sampling and decode compare with peers where PYTHON has them.
set -euo pipefail
build=$1
shift
cd "$(dirname "$0")/.."
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(kernels sampling lua)
for name in "${names[@]}"; do
    case $name in
    kernels | lua | isolate) program=$build/bench/bench_$name ;;
    sampling) program=$build/bench/bench_vec ;;
    tokenizer)
        folder=${CADENZA_BENCH_TOKENIZER:-$build/bench/tokenizer}
        [ -f "$folder/text.txt" ] || bench/tokenizer/make_tokenizer.py "$folder"
        echo "== tokenizer"
        "${PYTHON:-python3}" bench/tokenizer/compare.py "$build/bench/bench_tokenizer" "$folder"
        continue
        ;;
    decode)
        if [ -z "${CADENZA_BENCH_MODEL:-}" ]; then
            echo "bench: decode needs a model folder: make one with bench/make_model.py qwen2.5-0.5b FOLDER, then" >&2
            echo "  CADENZA_BENCH_MODEL=FOLDER CADENZA_BENCH_GGUF=FILE ./dev bench decode" >&2
            exit 2
        fi
        ${PYTHON:-python3} bench/decode/compare.py "$CADENZA_BENCH_MODEL" ${CADENZA_BENCH_GGUF:+--gguf "$CADENZA_BENCH_GGUF"} \
            --cadenza "$build/bin/cadenza"
        continue
        ;;
    quantise)
        echo "== quantise"
        "${PYTHON:-python3}" bench/quantise/quality.py --cadenza "$build/bin/cadenza"
        continue
        ;;
    *)
        echo "bench: no benchmark '$name'; there are kernels, sampling, lua, isolate, tokenizer, decode and quantise" >&2
        exit 2
        ;;
    esac
    [ -x "$program" ] || { echo "bench: $program was not built" >&2; exit 1; }
    echo "== $name"
    # sampling: the table, beside transformers and llama.cpp where PYTHON has them.
    if [ "$name" = sampling ]; then
        python=${PYTHON:-python3} model=()
        if "$python" -c 'import torch, safetensors' 2>/dev/null; then
            model=(--model "$build/bench/wide")
            [ -f "$build/bench/wide/config.json" ] || "$python" bench/make_model.py wide "$build/bench/wide" --dtype f32
        fi
        CADENZA_PLUGIN_DIR=$(realpath "$build/lib/cadenza") "$python" bench/sampling/compare.py "$build/bench/bench_chains" \
            --cadenza "$build/bin/cadenza" "${model[@]}" --threads "${CADENZA_BENCH_THREADS:-1}"
    fi
    "$program"
    [ "$name" != lua ] || "$build/bench/bench_twins"
done
