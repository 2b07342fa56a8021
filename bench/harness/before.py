#!/usr/bin/env python3
"""Cadenza beside itself as it was at a revision, on the same weights, in turns: is anything slower?

    before.py [--revision HEAD] [--worse 2] [--shape SHAPE | --model FOLDER] [--types bf16,q8_0,q4_0,q4_k] [--threads 2]
              [--rounds 9] [--neighbours 0] [--build build-bench] [--python PROGRAM]

The revision is built in BUILD/before, once; a program that was built elsewhere may be named in its place. Measured are new
tokens of one sequence and of several, and prompts. Prints a table and writes BUILD/results/before-MODEL.json, schema
cadenza.compare/1, where the program `before` has `cadenza_is`: how many times as fast Cadenza is now, the median of the
rounds' ratios. A row below 1 by more than `--worse` percent is named, and the status is 1.
"""
import argparse
import copy
import json
import os
import pathlib
import subprocess

from compare import (SETTINGS, Cadenza, Models, Neighbours, add_turns, add_usual, fail, machine, parse, rows_of, run, say, table,
                     turns)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def program_of(a):
    """The program of the revision."""
    if os.path.isfile(a.revision):
        return a.revision
    commit = run("git", "-C", ROOT, "rev-parse", "--verify", f"{a.revision}^{{commit}}").strip()
    source = pathlib.Path(a.build).resolve() / "before" / commit
    program = source / "build-bench" / "bin" / "cadenza"
    if not program.exists():
        say(f"building {commit[:12]} in {source}")
        source.mkdir(parents=True, exist_ok=True)
        files = subprocess.run(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(source)], input=files, check=True)
        run("cmake", "--preset", "bench", cwd=source)
        run("cmake", "--build", "--preset", "bench", "--target", "cadenza", "cadenza_plugins", cwd=source)
    return str(program)


def plan_of(a):
    """(what, order, units of one turn, unit)"""
    for batch in a.sizes:
        yield ({"sequences": batch}, {"do": "decode", "context": a.context, "n": a.new_tokens, "batch": batch}, batch,
               "new tokens/s")
    yield {"prompt": a.prompt_tokens}, {"do": "prefill", "n": a.prompt_tokens}, a.prompt_tokens, "prompt tokens/s"


def beside(a, before, models, missing):
    rows = []
    for kind in a.types:
        found = {"cadenza": Cadenza(a, models.gguf(kind)), "before": Cadenza(before, models.gguf(kind))}
        for n in a.neighbours:
            for what, order, per_turn, unit in plan_of(a):
                what = {"weights": kind, "neighbours": n, **what}
                say(", ".join(f"{k} {v}" for k, v in what.items()))
                with Neighbours(n):
                    seconds, fractions = turns(a, found, order, missing, what)
                rows += rows_of(seconds, fractions, per_turn, unit, what)
    return rows


def slower(rows, percent):
    """The rows whose ratio says that Cadenza is slower now, each as a sentence."""
    return [f"slower than before: {', '.join(f'{k} {r[k]}' for k in ('weights', 'neighbours', 'sequences', 'prompt') if k in r)}: "
            f"{r['cadenza_is']:.3f}x" for r in rows if r["program"] == "before" and r["cadenza_is"] < 1 - percent / 100]


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--revision", default="HEAD", help="a commit, a tag or a program; without it: what is committed")
    ap.add_argument("--worse", type=float, default=2, help="percent that a row may be slower")
    add_usual(ap, rounds=9, python="that can make models")
    add_turns(ap, "1,8")
    return parse(ap)


def main():
    a = options()
    missing, models, before = [], Models(a), copy.copy(a)
    before.cadenza = program_of(a)
    result = {"schema": "cadenza.compare/1", "bench": "before", "model": models.name, "revision": a.revision, "machine": machine(a),
              "settings": {k: getattr(a, k) for k in SETTINGS}, "rows": beside(a, before, models, missing)}
    out = pathlib.Path(a.build) / "results"
    out.mkdir(exist_ok=True)
    out = out / f"before-{models.name}.json"
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"now, beside {a.revision}, {models.name}, {a.threads} threads; load average {result['machine']['load_average']:.1f} before\n")
    print(table(result["rows"]))
    print(f"\nwritten: {out}")
    said = slower(result["rows"], a.worse)
    if said:
        fail("\n".join(said))


if __name__ == "__main__":
    main()
