#!/usr/bin/env python3
"""New tokens of published shapes cut to a few layers (bench/make_families.py), Cadenza beside llama.cpp on the same GGUF file, in turns.

    families.py --llama-cpp SOURCE [--names lfm2-1.2b,...] [--types bf16,q8_0,q4_0,q4_k] [--rounds 5] [--threads 2] [--build build-bench] [--python PROGRAM]

SOURCE is llama.cpp's source folder, whose converter makes the files (bench/make_gguf.py); llama-cpp-python runs them. Prints a table
and writes BUILD/results/families-beside.json.
"""
import argparse
import json
import os
import pathlib
import sys

import compare

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from make_families import SHAPES  # noqa: E402
from make_gguf import source_folder  # noqa: E402


class File:
    """A shape's folder and its file, each made when it is first asked for."""

    def __init__(self, a, name):
        self.a, self.name = a, name
        self.at = pathlib.Path(a.build) / "bench" / "families"

    def folder(self):
        out = self.at / self.name
        if not (out / "config.json").exists():
            compare.say(f"making {out}")
            compare.run(self.a.python, HERE.parent / "make_families.py", self.name, out)
        return out

    def gguf(self, kind):
        out = self.at / f"{self.name}.{kind}.gguf"
        if out.exists():
            return out
        source, how = (self.folder(), ("--llama-cpp", self.a.llama_cpp)) if kind == "bf16" else (self.gguf("bf16"), ("--type", kind))
        compare.say(f"making {out}")
        compare.run(self.a.python, HERE.parent / "make_gguf.py", source, out, *how)
        return out


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--llama-cpp", type=source_folder, required=True, metavar="SOURCE", help="llama.cpp's source folder")
    ap.add_argument("--names", default=",".join(SHAPES), help="of make_families.py; each takes some GB of disk")
    ap.add_argument("--types", default="bf16,q8_0", help="of weights; where llama.cpp keeps others, as experts in MXFP4, they stay")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--context", type=int, default=16, help="tokens before the new ones")
    ap.add_argument("--new-tokens", type=int, default=32)
    ap.add_argument("--activations", default="auto", help="Cadenza's: auto, f32, int8, bf16, bf16x1 or bf16x3")
    ap.add_argument("--build", default="build-bench")
    ap.add_argument("--python", default=sys.executable, help="python that can import llama_cpp and torch")
    a = ap.parse_args()
    a.cadenza, a.peers = os.path.join(a.build, "bin", "cadenza"), ["llama.cpp"]
    return a


def main():
    a = options()
    rows, missing = [], []
    order = {"do": "decode", "context": a.context, "n": a.new_tokens, "batch": 1}
    machine = compare.machine(a)
    for name, kind in ((n, k) for n in a.names.split(",") for k in a.types.split(",")):
        compare.say(name, kind)
        what = {"weights": f"{name}, {kind}"}
        found = compare.programs(a, File(a, name), kind, missing, one_thread=False)
        seconds, fractions = compare.turns(a, found, order, missing, what)
        rows += compare.rows_of(seconds, fractions, 1, "tokens/s", what)
        for program in found.values():
            program.close()
    out = pathlib.Path(a.build) / "results" / "families-beside.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"schema": "cadenza.compare/1", "bench": "families", "machine": machine, "rows": rows, "not_measured": missing}, indent=1) + "\n")
    print(f"families, {machine['threads']} threads of {machine['cpu']}, {machine['variant']} kernels; load average {machine['load_average']:.1f} before\n")
    print(compare.table(rows))
    for gone in missing:
        print(f"\nnot measured: {gone['program']}, {gone.get('weights', '')}: {gone['why']}")


if __name__ == "__main__":
    main()
