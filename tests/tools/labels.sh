#!/usr/bin/env bash
# The labels engine and threads of the unit tests say what the programs have: labels.sh BUILD. A pass of `./dev test all` that
# chooses by them leaves nothing out that it is about, and runs nothing that it is not.
#
# A program has an engine when it is linked with cdz_engine_create, and threads when it is linked with pthread_create. What
# runs the program `cadenza` has the label program and both others.
set -uo pipefail
build=$(cd "$1" && pwd)
command -v nm >/dev/null && command -v python3 >/dev/null || { echo "skipped labels: there is no nm, or no python3"; exit 77; }
# From a folder of its own: ctest writes a log where it starts, and the build's is being written.
beside=$(mktemp -d)
trap 'rm -rf "$beside"' EXIT
printf 'subdirs("%s")\n' "$build" >"$beside/CTestTestfile.cmake"
ctest --test-dir "$beside" --show-only=json-v1 | python3 -c '
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

def labels_of(test):
    values = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
    return set(values[0]) if values else set()

def has(path, symbol):
    return symbol in symbols[path]

def read(path):
    lines = subprocess.run(["nm", path], capture_output=True, text=True).stdout.splitlines()
    return path, {line.split()[-1].split("@")[0] for line in lines if line}

tests = [t for t in json.load(sys.stdin)["tests"] if "unit" in labels_of(t) and "cuda" not in labels_of(t)]
with ThreadPoolExecutor(4) as pool:
    symbols = dict(pool.map(read, {t["command"][0] for t in tests}))
wrong = 0
for test in tests:
    labels, path = labels_of(test), test["command"][0]
    if labels & {"program", "far"}:
        continue
    for label, symbol in ("engine", "cdz_engine_create"), ("threads", "pthread_create"):
        if (label in labels) != has(path, symbol):
            print("FAILED:", test["name"], "is" if has(path, symbol) else "is not", "linked with", symbol,
                  "and has" if label in labels else "and lacks", "the label", label)
            wrong += 1
print("COUNTED", 2 * len(tests) - wrong, "passed,", wrong, "failed, 0 skipped")
sys.exit(wrong > 0 or len(tests) < 100)
'
