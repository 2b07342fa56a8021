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

Beside llama.cpp, transformers, CTranslate2 and OpenVINO, on the same weights, in turns; `./dev bench decode --help` lists options:
  decode     new tokens of one sequence; --neighbours 0,1,2 also beside busy processes
  prefill    a prompt of 512 tokens
  batch      new tokens of several sequences together
  load       from starting the program to the first token
  memory     what it takes
  scaling    Cadenza alone against weights, context and batch, with SVG plots
  targets    the above that have a target, one after the other, and each ratio beside what was aimed at
  speculation  drafts beside plain greedy decoding (Cadenza alone)
  before     Cadenza beside itself at --revision REV: is anything slower? Status 1 if so
  serve      the server beside llama-server ($LLAMA_SERVER, or on the PATH), and what it costs by itself; --short takes some minutes
  tokenizer  loading and encoding, beside the tokenizers library
  sampling   choosing a token, beside transformers and llama.cpp's samplers
  python     the Python package over the C call, and beside transformers and lm-eval's own model; needs cffi and numpy
Of Cadenza's own parts:
  families   new tokens of published shapes cut to a few layers: experts, latent attention, recurrent layers, several streams; with
             $LLAMA_CPP_SOURCE, llama.cpp's source folder, beside it on files that its converter makes
  kernels    products and attention, beside the machine's limits
  cuda       passes of known shapes on a CUDA device, beside its copying, cuBLAS and transformers
  lua        processors in Lua, beside the same in C
  isolate    processors in a process of their own
  quantise   what each type of weights costs in quality
  presses    what presses cost a prompt, and what they save new tokens and memory
And:
  peers      makes a Python environment with the other programs in the build folder (some GB)
  report [NAME...]  all of them, or those, one after the other, into one page with what machine it was: BUILD/results/report.md. It takes
             hours, makes the peers first, goes on where it was stopped (--again: from the beginning), and names what could not be measured
  list       the names, one a line
END
}

beside_others() { # name options...
    local name=$1 script=compare.py arguments=()
    shift
    case $name in scaling | targets | speculation | before) script=$name.py ;; *) arguments=("$name") ;; esac
    PYTHONDONTWRITEBYTECODE=1 "$python" "bench/harness/$script" "${arguments[@]}" --build "$build" "$@"
}

make_peers() {
    python3 -m venv "$build/peers"
    "$build/peers/bin/pip" install --quiet torch ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
    local package
    for package in transformers safetensors numpy cffi gguf llama-cpp-python ctranslate2 openvino-genai nncf tokenizers; do
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

families() { # the folders are made once; beside llama.cpp where its source folder is known
    local name folder
    if [ -n "${LLAMA_CPP_SOURCE:-}" ]; then
        PYTHONDONTWRITEBYTECODE=1 "$python" bench/harness/families.py --llama-cpp "$LLAMA_CPP_SOURCE" --build "$build" "$@"
        return
    fi
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
    presses) PYTHONDONTWRITEBYTECODE=1 "$python" bench/harness/presses.py "${@:2}" --build "$build" --python "$python" ;;
    families) mkdir -p "$build/results" && families "${@:2}" ;;
    serve) PYTHONDONTWRITEBYTECODE=1 "$python" bench/serve/paired.py "${@:2}" --build "$build" ;;
    decode | prefill | batch | load | memory | scaling | targets | speculation | before) beside_others "$@" ;;
    *) no_name "$1" ;;
    esac
}

no_name() {
    echo "bench: no benchmark '$1'; ./dev bench help lists them" >&2
    exit 2
}

is_name() {
    printf '%s\n' "${names[@]}" | grep -qxF -e "$1"
}

# Words that are no names go to it: `./dev bench serve cost`.
has_parts() {
    [ "$1" = serve ] || [ "$1" = presses ]
}

# Do words that follow the first one go to it?
is_one() {
    [ $# -gt 1 ] && { [[ $2 == -* ]] || { has_parts "$1" && ! is_name "$2"; }; }
}

check_names() { # [NAME...], or NAME OPTIONS
    local name
    if is_one "$@"; then set -- "$1"; fi
    for name in "$@"; do is_name "$name" || no_name "$name"; done
}

machine() { # what the figures of a page were measured on
    echo "# Measured on $(date -u +%Y-%m-%d)"
    echo
    echo "$(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors, $(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo), $(uname -sr); load average $(cut -d' ' -f1-3 /proc/loadavg) when this began."
    echo
    printf '```text\n%s\n```\n' "$("$build/bin/cadenza" version --verbose)"
}

# A part of the page: tables as they are, other output as text.
part() { # name file
    printf '\n## %s\n\n' "$1"
    if grep -q '^|' "$2"; then sed 1d "$2"; else printf '```text\n%s\n```\n' "$(sed 1d "$2")"; fi
}

check_parts() { # [--again] names...
    for name in "$@"; do
        [ "$name" = --again ] || printf '%s\n' "${reported[@]}" | grep -qxF -e "$name" || { echo "bench: no part '$name' of a report: expected ${reported[*]}" >&2; exit 2; }
    done
}

# One after the other, each once; what a part printed waits in a file of its own until the page is written.
report() { # [--again] names...
    local parts=$build/results/report page=$build/results/report.md name
    if [ "${1:-}" = --again ]; then rm -rf "$parts" && shift; fi
    [ $# -gt 0 ] || set -- "${reported[@]}"
    check_parts "$@"
    mkdir -p "$parts"
    [ -e "$parts/machine" ] || machine >"$parts/machine"
    for name in "$@"; do
        if [ -e "$parts/$name" ]; then echo "bench: $name was measured before; report --again measures all anew" >&2; continue; fi
        local options=()
        [ "$name" != targets ] || options=(--read) # of what the others have found
        if bench/run.sh "$build" "$name" "${options[@]}" >"$parts/$name.part"; then mv "$parts/$name.part" "$parts/$name"; fi
    done
    {
        cat "$parts/machine"
        for name in "$@"; do
            if [ -e "$parts/$name" ]; then part "$name" "$parts/$name"; else printf '\n## %s\n\nNot measured: it ended with an error.\n' "$name"; fi
        done
    } >"$page"
    echo "bench: $page" >&2
}

names=(decode prefill batch load memory scaling targets speculation before serve tokenizer sampling python kernels lua isolate quantise presses families)
reported=(decode prefill batch load memory targets scaling speculation serve tokenizer sampling python kernels lua isolate quantise presses families)
case ${1:-} in
'') for name in kernels sampling lua; do bench "$name"; done ;;
help | --help | -h) usage ;;
list) printf '%s\n' "${names[@]}" ;;
peers) make_peers ;;
check-parts) shift && check_parts "$@" ;; # ./dev asks before it builds
check-names) shift && check_names "$@" ;;
report)
    [ -n "${PYTHON:-}" ] || [ -x "$build/peers/bin/python" ] || make_peers || echo "bench: the peers cannot be had here" >&2
    [ -n "${PYTHON:-}" ] || [ ! -x "$build/peers/bin/python" ] || python=$build/peers/bin/python
    shift
    report "$@"
    ;;
*)
    check_names "$@"
    if is_one "$@"; then
        bench "$@"
    else
        for name in "$@"; do bench "$name"; done
    fi
    ;;
esac
