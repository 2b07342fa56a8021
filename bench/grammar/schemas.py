#!/usr/bin/env python3
"""Asks `cadenza grammar check` about a folder of schemas with instances, as jsonschemabench's maskbench has them: a file
{"schema", "tests": [{"valid", "data"}]} each. Says how many schemas were refused and why, how many invalid instances were
accepted, and how many valid ones were not. With --cases, some of the valid instances are written as cases of bench_grammar.

python3 bench/grammar/schemas.py build/bin/cadenza maskbench/data --cases cases.jsonl --tokenizer VOCABULARY.gguf
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import tempfile


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            row = json.load(f)
        return row if isinstance(row, dict) and "schema" in row else None
    except ValueError:
        return None


def ask(cadenza, path):
    """The row, its answers in the order of its tests, and why it was refused."""
    row = read(path)
    if row is None:
        return None, [], "no JSON of a schema and its tests"
    lines = "".join(json.dumps({"text": json.dumps(t["data"], ensure_ascii=False)}) + "\n" for t in row.get("tests", []))
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as schema:
        json.dump(row["schema"], schema)
        schema.flush()
        done = subprocess.run([cadenza, "grammar", "check", "--json-schema", schema.name, "--jsonl"],
                              input=lines, capture_output=True, text=True, timeout=120)
        said = done.stderr.strip().split("\n")[-1].replace(schema.name + ": ", "")
    if done.returncode:
        return row, [], re.sub(r"\d+:\d+", "LINE:COLUMN", said)
    return row, [json.loads(line)["accepts"] for line in done.stdout.splitlines()], None


def tokens_of(cadenza, tokenizer, texts):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    done = subprocess.run([cadenza, "tokenize", tokenizer, "--no-special", "--jsonl"], input=lines, capture_output=True,
                          text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_cases(wanted, accepted):
    random.Random(0).shuffle(accepted)
    some = accepted[:wanted.number]
    with open(wanted.cases, "w", encoding="utf-8") as out:
        for (name, schema, _), ids in zip(some, tokens_of(wanted.cadenza, wanted.tokenizer, [t for _, _, t in some])):
            out.write(json.dumps({"name": "real-" + name, "constraint": schema, "ids": ids}) + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cadenza")
    ap.add_argument("folder")
    ap.add_argument("--cases", help="file for cases of bench_grammar")
    ap.add_argument("--tokenizer", help="whose ids they are in")
    ap.add_argument("--number", type=int, default=400, help="how many cases (400)")
    ap.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time (one a processor)")
    wanted = ap.parse_args()
    if wanted.cases and not wanted.tokenizer:
        ap.error("--cases needs --tokenizer")
    if not shutil.which(wanted.cadenza):
        ap.error(f"{wanted.cadenza} is no program")
    if not os.path.isdir(wanted.folder):
        ap.error(f"{wanted.folder} is no folder")
    names = sorted(n for n in os.listdir(wanted.folder) if n.endswith(".json"))
    refused, wrong, rejected, accepted, asked = collections.Counter(), [], [], [], 0
    with concurrent.futures.ThreadPoolExecutor(wanted.jobs) as pool:
        answers = pool.map(lambda n: ask(wanted.cadenza, os.path.join(wanted.folder, n)), names)
        for name, (row, said, why) in zip(names, answers):
            if why:
                refused[why] += 1
                continue
            for test, accepts in zip(row.get("tests", []), said):
                asked += 1
                if accepts != test["valid"]:
                    (wrong if accepts else rejected).append(name)
            first = next((t for t, a in zip(row.get("tests", []), said) if a and t["valid"]), None)
            if first:
                accepted.append((name, row["schema"], json.dumps(first["data"], ensure_ascii=False)))
    print(f"{len(names)} schemas, {sum(refused.values())} refused, {asked} instances asked about")
    print(f"{len(wrong)} invalid instances accepted, {len(rejected)} valid ones not accepted")
    for name in wrong:
        print(f"  accepted: {name}")
    for why, n in refused.most_common():
        print(f"  refused: {n} {why}")
    if wanted.cases:
        write_cases(wanted, accepted)


main()
