#!/usr/bin/env bash
# ./dev bench: runs the benchmarks of a build folder, run.sh BUILD [NAME...] or run.sh BUILD NAME OPTIONS.
#
# Those beside other programs use the Python that has them: $PYTHON, or what `./dev bench peers` made, or python3.
set -euo pipefail
build=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ ! -x "$build/peers/bin/python" ] || python=$build/peers/bin/python

usage() {
    cat <<'END'
usage: ./dev bench [NAME...], or ./dev bench NAME OPTIONS

Beside llama.cpp, transformers and CTranslate2, on the same weights, in turns; `./dev bench decode --help` lists options:
  decode     new tokens of one sequence; --neighbours 0,1,2 also beside busy processes
  prefill    a prompt of 512 tokens
  batch      new tokens of several sequences together
  load       from starting the program to the first token
  memory     what it takes
  scaling    Cadenza alone against weights, context and batch, with SVG plots
  targets    the above that have a target, one after the other, and each ratio beside what was aimed at
  speculation  drafts beside plain greedy decoding (Cadenza alone)
  serve      the server beside llama-server, and what it costs by itself; --llama-server PROGRAM
  tokenizer  loading and encoding, beside the tokenizers library
  sampling   choosing a token, beside transformers and llama.cpp's samplers
  python     the Python package over the C call, and beside transformers and lm-eval's own model; needs cffi and numpy
Of Cadenza's own parts:
  families   new tokens of published shapes cut to a few layers: experts, latent attention, recurrent layers, several streams
  kernels    products and attention, beside the machine's limits
  cuda       passes of known shapes on a CUDA device, beside its copying, cuBLAS and transformers
  lua        processors in Lua, beside the same in C
  isolate    processors in a process of their own
  quantise   what each type of weights costs in quality
And:
  peers      makes a Python environment with the other programs in the build folder (some GB)
  list       the names, one a line
END
}

beside_others() { # name options...
    local name=$1 script=compare.py arguments=()
    shift
    case $name in scaling | targets | speculation) script=$name.py ;; *) arguments=("$name") ;; esac
    PYTHONDONTWRITEBYTECODE=1 "$python" "bench/harness/$script" "${arguments[@]}" --build "$build" "$@"
}

make_peers() {
    python3 -m venv "$build/peers"
    "$build/peers/bin/pip" install --quiet torch ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
    local package
    for package in transformers safetensors numpy cffi gguf llama-cpp-python ctranslate2 tokenizers; do
        "$build/peers/bin/pip" install --quiet "$package" || echo "bench: $package cannot be had here; it will not be measured" >&2
    done
}

needs() {
    [ -x "$1" ] || { echo "bench: $1 was not built" >&2; exit 1; }
}

sampling() { # the table, beside transformers and llama.cpp where Python has them; then every operation
    local model=()
    if "$python" -c 'import torch, safetensors' 2>/dev/null; then
        model=(--model "$build/bench/wide")
        [ -f "$build/bench/wide/config.json" ] || "$python" bench/make_model.py wide "$build/bench/wide" --dtype f32
    fi
    CADENZA_PLUGIN_DIR=$build/lib/cadenza "$python" bench/sampling/compare.py "$build/bench/bench_chains" \
        --cadenza "$build/bin/cadenza" "${model[@]}" --threads "${CADENZA_BENCH_THREADS:-1}" --json "$build/results/sampling.json"
    "$build/bench/bench_vec"
}

tokenizer() {
    local folder=${CADENZA_BENCH_TOKENIZER:-$build/bench/tokenizer}
    [ -f "$folder/text.txt" ] || bench/tokenizer/make_tokenizer.py "$folder"
    "$python" bench/tokenizer/compare.py "$build/bench/bench_tokenizer" "$folder" "$build/results/tokenizer.json"
}

python_package() { # from the source folder, with this build's library
    (cd python/cadenza && "$python" ../tools/declarations.py ../../sdk/include _abi.py >/dev/null)
    CADENZA_PLUGIN_DIR=$build/lib/cadenza CADENZA_LIBRARY=$build/lib/libcadenza.so PYTHONPATH=python "$python" bench/python/bench.py "$@"
}

families() { # the folders are made once
    local name folder
    for name in gpt-oss-20b qwen3-next deepseek-v2-lite granite-4-h-tiny lfm2-1.2b gemma-3n-e2b; do
        folder=$build/bench/families/$name
        [ -f "$folder/config.json" ] || "$python" bench/make_families.py "$name" "$folder"
        "$build/bin/cadenza" bench "$folder" --prompt-tokens 4 --new-tokens 12 --rounds 3 --json "$build/results/families-$name.json" "$@"
    done
}

bench() {
    echo "== $1"
    case $1 in
    kernels) needs "$build/bench/bench_kernels" && "$build/bench/bench_kernels" ;;
    lua) needs "$build/bench/bench_lua" && "$build/bench/bench_lua" && "$build/bench/bench_twins" ;;
    sampling) needs "$build/bench/bench_vec" && sampling ;;
    tokenizer) needs "$build/bench/bench_tokenizer" && tokenizer ;;
    isolate) needs "$build/bench/bench_isolate" && "$build/bench/bench_isolate" ;;
    python) python_package "${@:2}" ;;
    quantise) "$python" bench/quantise/quality.py --cadenza "$build/bin/cadenza" ;;
    families) mkdir -p "$build/results" && families "${@:2}" ;;
    serve) PYTHONDONTWRITEBYTECODE=1 "$python" bench/serve/paired.py "${@:2}" --build "$build" ;;
    decode | prefill | batch | load | memory | scaling | targets | speculation) beside_others "$@" ;;
    *)
        echo "bench: no benchmark '$1'; ./dev bench help lists them" >&2
        exit 2
        ;;
    esac
}

names=(decode prefill batch load memory scaling targets speculation serve tokenizer sampling python kernels lua isolate quantise families)
case ${1:-} in
'') for name in kernels sampling lua; do bench "$name"; done ;;
help | --help | -h) usage ;;
list) printf '%s\n' "${names[@]}" ;;
peers) make_peers ;;
*)
    if [ $# -gt 1 ] && [[ $2 == -* ]]; then
        bench "$@"
    else
        for name in "$@"; do bench "$name"; done
    fi
    ;;
esac
