#!/usr/bin/env python3
"""What Cadenza set itself, beside what was measured: runs the benchmarks that answer it, one after the other, and prints a
table of ratios; reached or not, all are in it.

    targets.py [--shapes qwen2.5-0.5b,llama3.2-1b] [--threads 2] [--rounds 5] [--build build-bench] [--read]

--read runs nothing and takes the figures that earlier runs wrote to BUILD/results.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from compare import ONE_THREAD

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ("bf16", "q8_0", "q4_0", "q4_k")
LIMIT, LLAMA = "its read limit", "llama.cpp"


def runs(a):
    """(bench, shape, options), in the order of their worth when time is short."""
    first = a.shapes[0]
    for shape in a.shapes:
        yield "decode", shape, ["--neighbours", "0,1,2" if shape == first else "0"]
    for shape in a.shapes:
        yield "prefill", shape, []
    yield "batch", first, ["--sizes", "8,32", "--rounds", 3]
    yield "load", first, []
    yield "speculation", first, []


def measure(a):
    for bench, shape, options in runs(a):
        known = {"--rounds": a.rounds, "--threads": a.threads, "--build": a.build, "--python": sys.executable}
        known.update(zip(options[::2], options[1::2]))
        if bench == "speculation":
            command = [HERE / "speculation.py", "--shape", shape]
            known.pop("--rounds")
        else:
            command = [HERE / "compare.py", bench, "--shape", shape]
        command += [x for pair in known.items() for x in pair]
        print("==", bench, shape, file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL).returncode:
            print(f"bench: {bench} of {shape} failed; its targets are not measured", file=sys.stderr)


# --- what a target asks --------------------------------------------------------------------------------------------------

class Results:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def rows(self, bench, shape):
        file = self.folder / f"{bench}-{shape}.json"
        return json.loads(file.read_text())["rows"] if file.exists() else []

    def one(self, bench, shape, **what):
        for row in self.rows(bench, shape):
            if all(row.get(k, 0 if k == "neighbours" else None) == v for k, v in what.items()):
                return row
        return None

    def times(self, bench, shape, program, **what):
        row = self.one(bench, shape, program=program, **what)
        return row and row["cadenza_is"]

    def of_limit(self, bench, shape, **what):
        row = self.one(bench, shape, program="cadenza", **what)
        return row and row.get("fraction_of_limit", {}).get("median")


def fair_share(results, shape, kind, threads, cores, n):
    """Of the quiet speed what is ours when n others are busy, each thread having the same right to a core."""
    quiet = results.one("decode", shape, program="cadenza", weights=kind, neighbours=0)
    busy = results.one("decode", shape, program="cadenza", weights=kind, neighbours=n)
    if not quiet or not busy:
        return None
    share = min(1, cores / (threads + n))
    return busy["median"] / quiet["median"] / share


def targets(a, results):
    """(work, against, at least, what was measured or None)"""
    first, cores = a.shapes[0], os.cpu_count()
    for shape in a.shapes:
        for kind, limit, llama in zip(TYPES, (0.93, 0.93, 0.90, 0.85), (1.3, 1.5, 2.0, 1.5)):
            work = f"decode, {shape}, {kind}"
            yield work, LIMIT, limit, results.of_limit("decode", shape, weights=kind, neighbours=0)
            yield work, LLAMA, llama, results.times("decode", shape, LLAMA, weights=kind, neighbours=0)
        for kind, llama in zip(TYPES, (1.4, 1.6, 1.7, 1.4)):
            yield f"prefill 512, {shape}, {kind}", LLAMA, llama, results.times("prefill", shape, LLAMA, weights=kind)
        yield f"prefill 512, {shape}, bf16", "its multiply-add peak", 0.80, results.of_limit("prefill", shape, weights="bf16")
    for n in (8, 32):
        for kind in TYPES:
            yield f"decode of {n} sequences, {first}, {kind}", LLAMA, 1.5, \
                results.times("batch", first, LLAMA, weights=kind, sequences=n)
    yield f"decode, {first}, bf16", "transformers", 3, results.times("decode", first, "transformers", weights="bf16", neighbours=0)
    yield f"decode, {first}, q8_0", "CTranslate2, int8", 2, \
        results.times("decode", first, "CTranslate2", weights="q8_0", neighbours=0)
    yield f"prefill 512, {first}, q8_0", "CTranslate2, int8", 1, results.times("prefill", first, "CTranslate2", weights="q8_0")
    openvino = "OpenVINO, int8"
    yield f"prefill 512, {first}, q8_0", openvino, 1.3, results.times("prefill", first, "OpenVINO", weights="q8_0")
    for n in (8, 32):
        yield f"decode of {n} sequences, {first}, q8_0", openvino, 1.3, \
            results.times("batch", first, "OpenVINO", weights="q8_0", sequences=n)
    for kind in TYPES:
        yield f"time to a first token, {first}, {kind}", LLAMA, 4, results.times("load", first, LLAMA, weights=kind)
    for n in (1, 2):
        for kind in TYPES:
            work = f"decode beside {n} busy, {first}, {kind}"
            if n == 1:
                yield work, "its fair share", 0.85, fair_share(results, first, kind, a.threads, cores, n)
                yield work, LLAMA, 2.5, results.times("decode", first, LLAMA, weights=kind, neighbours=n)
            yield work, "its own single thread", 1.0, results.times("decode", first, ONE_THREAD, weights=kind, neighbours=n)
    for row in results.rows("speculation", first):
        if "target" in row:
            yield row["work"], "plain greedy", row["target"], row["times"]


def table(found):
    lines = ["| work | against | at least | measured | |", "|---|---|---:|---:|---|"]
    for work, against, least, got in found:
        verdict = "not measured" if got is None else "reached" if got >= least else "missed"
        lines.append(f"| {work} | {against} | {least} | {'' if got is None else f'{got:.2f}'} | {verdict} |")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--shapes", default="qwen2.5-0.5b,llama3.2-1b", help="of make_model.py; the first answers most")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--build", default="build-bench")
    ap.add_argument("--read", action="store_true", help="measure nothing, take what is in BUILD/results")
    a = ap.parse_args()
    a.shapes = a.shapes.split(",")
    if not a.read:
        measure(a)
    print(table(targets(a, Results(pathlib.Path(a.build) / "results"))))


if __name__ == "__main__":
    main()
