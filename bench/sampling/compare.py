#!/usr/bin/env python3
"""What choosing a token costs at a vocabulary of 151,936: a sampled step of Cadenza beside one of transformers.

    compare.py BENCH_VEC [--cadenza build/bin/cadenza --model FOLDER] [--threads 2] [--rounds 7]

A step is temperature 0.8, top-k 50, softmax and the draw, on one row of random scores: in Cadenza the row operations that the
plugins call (bench_vec), in transformers its own processors, softmax and torch.multinomial. With a model (bench/make_model.py
wide FOLDER --dtype f32) also the whole decode loop: what a sampled token costs more than the model and a greedy choice.
The programs take turns; the table has medians and extremes. Without transformers its rows are left out by name.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

V, TOKENS = 151936, 400


def row_operations(program):
    def once():
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        line = next(x for x in out.splitlines() if x.startswith("step: t 0.8, top-k 50  "))
        return float(line.split()[-2])  # the flat row
    return once


def per_token(a, *settings):
    out = subprocess.run(
        [a.cadenza, "run", a.model, "--ids", "1,2,3", "--json", "--threads", str(a.threads), "-s", f"max_new_tokens={TOKENS}",
         "-s", "eos_token_id=none", *settings], check=True, capture_output=True, text=True).stdout
    timings = json.loads(out)["timings"]
    return timings["decode_ms"] * 1e3 / (timings["new_tokens"] - 1)


def decode_loop(a):
    sampled = ("-s", "do_sample=yes", "-s", "temperature=0.8", "-s", "top_k=50", "-s", "seed=1")
    return lambda: per_token(a, *sampled) - per_token(a, "-s", "do_sample=no")


def transformers(a):
    import torch
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    ids, logits = torch.tensor([[1, 2, 3]]), 2 * torch.randn(1, V)
    chain = LogitsProcessorList([TemperatureLogitsWarper(0.8), TopKLogitsWarper(50)])

    @torch.inference_mode()
    def once():
        start = time.perf_counter()
        for _ in range(50):
            scores = chain(ids, logits.to(copy=True, dtype=torch.float32))
            torch.multinomial(torch.nn.functional.softmax(scores, dim=-1), num_samples=1)
        return (time.perf_counter() - start) / 50 * 1e6
    return once


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("bench_vec")
    ap.add_argument("--cadenza", default="build/bin/cadenza")
    ap.add_argument("--model")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=7)
    a = ap.parse_args()
    runs = {"cadenza, row operations": row_operations(a.bench_vec)}
    if a.model:
        runs["cadenza, decode loop"] = decode_loop(a)
    try:
        runs["transformers"] = transformers(a)
    except ImportError as e:
        print(f"transformers: left out, {e}", file=sys.stderr)
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(a.rounds):
        for name, run in runs.items():
            times[name].append(run())
    base = statistics.median(next(iter(times.values())))
    print(f"{'a step at top-k 50':26} {'us':>8} {'low':>8} {'high':>8} {'times':>7}")
    for name, t in times.items():
        print(f"{name:26} {statistics.median(t):8.0f} {min(t):8.0f} {max(t):8.0f} {statistics.median(t) / base:7.2f}")


if __name__ == "__main__":
    main()
