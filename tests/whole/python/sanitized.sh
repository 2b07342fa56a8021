#!/usr/bin/env bash
# The Python package over a library that was built with the address sanitizer: its tests, callbacks and bad input above all.
#   sanitized.sh BUILD CC
# Leaks are not looked for: an interpreter leaves memory at its end. Nor is memory counted, of which the sanitizer keeps what is freed.
set -euo pipefail
source=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
. "$source/tests/whole/python/environment.sh"

asan=$("$2" -print-file-name=libasan.so)
[ -e "$asan" ] || skip "$2 has no shared libasan that an interpreter could load"
cp -r "$source/python/cadenza" "$work/cadenza"
CC=$2 "$bin/python" "$source/python/tools/declarations.py" "$source/sdk/include" "$work/cadenza/_abi.py"
cd "$work"
export CADENZA_LIBRARY="$build/lib/libcadenza.so" CADENZA_PLUGIN_DIR="$build/lib/cadenza" PYTHONPATH="$work" PYTHONDONTWRITEBYTECODE=1
export CADENZA_PYTHON_CALLS=${CADENZA_PYTHON_CALLS:-200} CADENZA_PYTHON_EXAMPLES=${CADENZA_PYTHON_EXAMPLES:-20} PYTHONMALLOC=malloc
tests=("$source"/python/tests/test_{abi,kept_scores,package,raises,sweeps,watchers,watermarks}.py)
LD_PRELOAD=$asan ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    "$bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$source/python/tests" -k "not leave_nothing_behind and not memory_of" "${tests[@]}"
