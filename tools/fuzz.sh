#!/usr/bin/env bash
# Runs every libFuzzer target of a build folder for some seconds, starting from the corpus in the tree.
set -euo pipefail
build=$1 seconds=$2
cd "$(dirname "$0")/.."
for target in "$build"/fuzz/fuzz_*; do
    [ -x "$target" ] || continue
    name=$(basename "$target")
    seeds=tests/fuzz/corpus/${name#fuzz_}
    work=$build/corpus/$name
    mkdir -p "$work"
    echo "fuzz: $name for $seconds s"
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0 \
        -artifact_prefix="$build/$name-" "$work" $([ -d "$seeds" ] && echo "$seeds")
done
