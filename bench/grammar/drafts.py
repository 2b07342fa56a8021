#!/usr/bin/env python3
"""drafts.py - what the drafter `forced` is worth: answers that keep to a schema, written without and with it, in turns.

usage: drafts.py CADENZA MODEL CASES.jsonl [--threads N] [--rounds N] [--names A,B,...]
A case is {"name", "constraint", "ids"}. Any model of the ids' tokenizer does: a processor makes it write the recorded answers, at its own
cost. One process has all turns, one request at a time. Of each case: the passes of the model, milliseconds of the clock and of the
processor for the whole answer, medians of the rounds, and the median of the rounds' ratios with their extremes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SIDES = ("none", "forced")
WRITE = """local answer = {%s}
return cadenza.processor {
  id = "org.cadenza.bench-writing", version = "1.0.0", needs_ids = true,
  apply = function(_, ids, row, ctx) row[answer[#ids - ctx.prompt_len + 1]] = 1e9 end,
}
"""


class Engine:
    """A program that answers line by line."""

    def __init__(self, a, folder):
        self.folder = folder
        self.run = subprocess.Popen([a.cadenza, "run", a.model, "--input", "-", "--threads", str(a.threads)], cwd=folder,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def processor_s(self):
        fields = pathlib.Path(f"/proc/{self.run.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def write(self, case, drafter):
        n, before = len(case["ids"]), self.processor_s()
        request = {"prompt_ids": [100], "pipeline": f"{case['name']}-{drafter}.ini",
                   "kwargs": {"json_schema": case["constraint"], "do_sample": False, "max_new_tokens": n, "eos_token_id": case["end"]}}
        print(json.dumps(request), file=self.run.stdin, flush=True)
        answer = json.loads(self.run.stdout.readline() or '{"error": "the program ended"}')
        if answer.get("ids") != case["ids"]:
            sys.exit(f"drafts.py: {case['name']}, {drafter}: {answer.get('error', 'other tokens than the recorded')}")
        return {"clock": answer["timings"]["decode_ms"], "processor": 1000 * (self.processor_s() - before),
                "passes": len(answer.get("rounds", [])) or n, "proposed": sum(r[0] for r in answer.get("rounds", [])),
                "right": sum(r[1] for r in answer.get("rounds", []))}


def prepare(folder, case):
    name = case["name"]
    (folder / f"{name}.lua").write_text(WRITE % ",".join(map(str, case["ids"])))
    for drafter in SIDES:
        (folder / f"{name}-{drafter}.ini").write_text(f"[pipeline]\ndrafter = {drafter}\nprocessors = lua:{name}.lua\n")


def ratio(seen, unit):
    """Plain over drafted, by rounds."""
    return sorted(p[unit] / d[unit] for p, d in zip(seen["none"], seen["forced"]))


def line(name, n, seen):
    last, cells = seen["forced"][-1], []
    for unit in ("clock", "processor"):
        times, of = ratio(seen, unit), [statistics.median(x[unit] for x in seen[s]) for s in SIDES]
        cells.append(f"{of[0]:.0f} / {of[1]:.0f} | {statistics.median(times):.2f} ({times[0]:.2f} to {times[-1]:.2f})")
    return (f"| {name} | {n} | {last['passes']} | {last['proposed']} | {last['right']} | {100 * last['right'] / n:.0f} % | "
            + " | ".join(cells) + " |")


def summed(cases, seen):
    """All cases of a round as one."""
    rounds = range(len(seen[cases[0]["name"]]["none"]))
    return {s: [{k: sum(seen[c["name"]][s][r][k] for c in cases) for k in seen[cases[0]["name"]][s][r]} for r in rounds] for s in SIDES}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("cadenza", "model", "cases"):
        ap.add_argument(name)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--names", default="", help="of cases; default: all")
    ap.add_argument("--end", type=int, default=151643, help="the id that ends a text")
    a = ap.parse_args()
    a.cadenza, a.model = os.path.abspath(a.cadenza), os.path.abspath(a.model)
    names = [n for n in a.names.split(",") if n]
    rows = [json.loads(text) | {"end": a.end} for text in pathlib.Path(a.cases).read_text().splitlines()]
    cases = [c for c in rows if not names or c["name"] in names]
    with tempfile.TemporaryDirectory() as folder:
        engine, seen = Engine(a, folder), {c["name"]: {s: [] for s in SIDES} for c in cases}
        for r in range(a.rounds + 1):  # the first brings the model into memory
            for case in cases:
                if r == 0:
                    prepare(pathlib.Path(folder), case)
                for side in SIDES if r % 2 else SIDES[::-1]:
                    turn = engine.write(case, side)
                    if r:
                        seen[case["name"]][side].append(turn)
        engine.run.stdin.close()
        engine.run.wait()
    print("| schema | tokens | passes | proposed | right | by drafts | clock, ms | times | processor, ms | times |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for case in cases:
        print(line(case["name"], len(case["ids"]), seen[case["name"]]))
    print(line("together", sum(len(c["ids"]) for c in cases), summed(cases, seen)))


if __name__ == "__main__":
    main()
