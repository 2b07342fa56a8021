#!/usr/bin/env python3
"""Drafts beside plain greedy decoding: the same model, the same tokens, in turns.

    speculation.py [--shape SHAPE] [--draft-layers 4] [--threads 2] [--rounds 5] [--new-tokens 128] [--build build-bench]

Two texts: a pair of bench/make_model.py whose draft model is often right, and a prompt that is written again with one token
of 32 changed (copying.lua), which prompt lookup copies. The model pays for every token of either. Prints a table and writes
BUILD/results/speculation-SHAPE.json, schema cadenza.compare/1, rows with `draft_length`, `rounds`, `proposed`, `accepted`
and `times`, the median of the rounds' ratios to plain decoding. Tokens that differ from the plain ones end it.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

from compare import HERE, REST_S, Models, fail, machine, run, say, spread
from peers import ids

OWN, COPY = "the model's own", "a copy, 1 of 32 changed"
TARGETS = {(OWN, "draft model, bf16", "adaptive"): 1.5, (OWN, "draft model, q8_0", "adaptive"): 1.5,
           (COPY, "prompt lookup", "adaptive"): 2.0}
FIXED = ["-s", "pipeline.drafting=fixed"]


class Pair(Models):
    """A model whose upper layers add little, and its first layers as a model of its own."""

    def __init__(self, a):
        super().__init__(a)
        self.at = self.at.with_name(f"{a.shape}-pair{a.draft_layers}")
        self.at.mkdir(parents=True, exist_ok=True)

    def folder(self):
        out = self.at / "hf"
        if not (out / "config.json").exists():
            say(f"making a pair of the shape {self.a.shape} in {self.at}")
            run(self.a.python, HERE.parent / "make_model.py", self.a.shape, out, "--draft", self.at / "draft",
                "--draft-layers", self.a.draft_layers)
        return out

    def draft(self, kind):
        self.folder()
        out = self.at / f"draft-{kind}.gguf"
        if kind == "bf16":
            return self.at / "draft"
        if not out.exists():
            plain = self.at / "draft-bf16.gguf"
            if not plain.exists():
                run(self.a.cadenza, "model", "convert", self.at / "draft", plain, "--no-tokenizer")
            run(self.a.cadenza, "model", "quantize", plain, out, "--type", kind)
        return out


def ways(a, pair):
    """(text, drafts, draft length, arguments); the first of a text is what the others are compared with."""
    often = ["-s", "assistant_confidence_threshold=0"]
    copying = ["-s", f"pipeline.processors=lua:{HERE / 'copying.lua'}"]
    lookup = [*copying, "-s", "prompt_lookup_num_tokens=10"]
    found = [(OWN, "none", "", [])]
    for kind in ("bf16", "q8_0"):
        drafts = [*often, "--assistant", str(pair.draft(kind))]
        found.append((OWN, f"draft model, {kind}", "adaptive", drafts))
        for n in (3, 5):
            found.append((OWN, f"draft model, {kind}", str(n), [*drafts, *FIXED, "-s", f"num_assistant_tokens={n}"]))
    found.append((OWN, "prompt lookup", "adaptive", ["-s", "prompt_lookup_num_tokens=10"]))
    return found + [(COPY, "none", "", copying),
                    (COPY, "prompt lookup", "adaptive", lookup),
                    (COPY, "prompt lookup", "10", [*lookup, *FIXED])]


def decode(a, folder, arguments):
    prompt = ",".join(map(str, ids(a.prompt_tokens, 100000)))
    answer = json.loads(run(a.cadenza, "run", folder, "--ids", prompt, "--json", "--threads", a.threads, "-s", "do_sample=no",
                            "-s", "eos_token_id=none", "-s", f"max_new_tokens={a.new_tokens}", *arguments))
    rounds = answer.get("rounds", [])
    return {"ids": answer["ids"], "seconds": answer["timings"]["decode_ms"] / 1e3, "rounds": len(rounds),
            "proposed": sum(r[0] for r in rounds), "accepted": sum(r[1] for r in rounds)}


def measure(a, pair):
    """What each way did, by round."""
    all_ways, folder, plain = ways(a, pair), pair.folder(), {}
    seen = [[] for _ in all_ways]
    for r in range(a.rounds + 1):  # the first brings the files into memory
        for (text, drafts, length, arguments), answers in zip(all_ways, seen):
            say(f"round {r}: {text}, {drafts} {length}")
            time.sleep(REST_S)
            answer = decode(a, folder, arguments)
            if answer["ids"] != plain.setdefault(text, answer["ids"]):
                fail(f"{text}, {drafts} {length}: other tokens than without drafts")
            if r:
                answers.append(answer)
    return all_ways, seen


def rows_of(a, all_ways, seen):
    rows = []
    for (text, drafts, length, _), answers in zip(all_ways, seen):
        plain = seen[[w[0] for w in all_ways].index(text)]
        last, least = answers[-1], TARGETS.get((text, drafts, length))
        target = {"work": f"{drafts}, {text}", "target": least} if least else {}
        rows.append({**target, "text": text, "drafts": drafts, "draft_length": length, "program": "cadenza", "unit": "tokens/s",
                     **spread([(a.new_tokens - 1) / x["seconds"] for x in answers]),
                     "times": statistics.median(p["seconds"] / x["seconds"] for p, x in zip(plain, answers)),
                     **{k: last[k] for k in ("rounds", "proposed", "accepted")}})
    return rows


def table(rows):
    lines = ["| text | drafts | tokens of a draft | rounds | proposed | accepted | tokens/s, median | lowest | highest | times plain |",
             "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        share = f"{100 * r['accepted'] / r['proposed']:.0f} %" if r["proposed"] else ""
        lines.append(f"| {r['text']} | {r['drafts']} | {r['draft_length']} | {r['rounds'] or ''} | {r['proposed'] or ''} | {share} | "
                     f"{r['median']:.1f} | {r['low']:.1f} | {r['high']:.1f} | {r['times']:.2f} |")
    return "\n".join(lines)


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--shape", default="qwen2.5-0.5b", help="a shape of make_model.py")
    ap.add_argument("--draft-layers", type=int, default=4)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--prompt-tokens", type=int, default=160)
    ap.add_argument("--new-tokens", type=int, default=128)
    ap.add_argument("--build", default="build-bench")
    ap.add_argument("--cadenza", help="the program; default: the build's")
    ap.add_argument("--python", default=sys.executable, help="that has torch, to make the models")
    a = ap.parse_args()
    a.cadenza, a.model = a.cadenza or os.path.join(a.build, "bin", "cadenza"), None
    return a


def main():
    a = options()
    pair = Pair(a)
    found = machine(a)
    all_ways, seen = measure(a, pair)
    settings = {k: getattr(a, k) for k in ("threads", "rounds", "prompt_tokens", "new_tokens", "draft_layers")}
    result = {"schema": "cadenza.compare/1", "bench": "speculation", "model": a.shape, "machine": found,
              "settings": settings, "rows": rows_of(a, all_ways, seen), "not_measured": []}
    out = pathlib.Path(a.build) / "results"
    out.mkdir(exist_ok=True)
    (out / f"speculation-{a.shape}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"speculation, {a.shape}, {a.threads} threads of {found['cpu']}, load average {found['load_average']:.1f} before\n")
    print(table(result["rows"]))
    print(f"\nwritten: {out / f'speculation-{a.shape}.json'}")


if __name__ == "__main__":
    main()
