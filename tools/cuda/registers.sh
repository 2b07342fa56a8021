#!/usr/bin/env bash
# registers.sh OUT REPORT... - a table of what each kernel takes: device, registers, bytes of stack, spilled bytes, name.
# Fails when a kernel that decoding runs spills registers to memory.
set -euo pipefail
out=$1
shift
cat "$@" | awk '
    /Compiling entry function/ { match($0, /\047[^\047]*\047/); name = substr($0, RSTART + 1, RLENGTH - 2); device = $NF; gsub(/\047/, "", device) }
    /bytes stack frame/ && name != "" { stack = $1; spilled = $5 + $9 }
    /Used [0-9]+ registers/ && name != "" {
        for (i = 1; i < NF; i++) if ($i == "Used") printf "%s %3d %4d %4d %s\n", device, $(i + 1), stack, spilled, name
        name = ""
    }' | { command -v c++filt >/dev/null && c++filt || cat; } | sort -k5 -k1 >"$out.new"
mv "$out.new" "$out"
if awk '$4 > 0 && /products|attend|merge_spans|rmsnorm|rotate|convolve|recur|each_element|kv_store|experts|route_rows|lead_|best_of/' "$out" | grep .; then
    echo "registers.sh: these kernels spill registers (device, registers, stack, spilled bytes, name)" >&2
    exit 1
fi
