#!/usr/bin/env python3
"""What choosing a token costs, by chain and vocabulary: Cadenza stage by stage, fused and in Lua, transformers, llama.cpp.

    compare.py BENCH_CHAINS [--cadenza build/bin/cadenza --model FOLDER] [--threads 1] [--rounds 5]
               [--json FILE]

BENCH_CHAINS (bench_chains.c) times Cadenza's row operations, the fused walk and a Lua script, each with its draw. transformers
is its own processors, softmax and torch.multinomial (or argmax); llama.cpp is its sampler chain through llama-cpp-python: filling
the array of candidates, which its sampling does for every token, is counted as one copy of such an array. The programs take
turns; figures are medians in microseconds. "times" is the faster of the two others over the fused chain (over the stages where
nothing is fused). With a model (bench/make_model.py wide FOLDER --dtype f32) also the whole decode loop: what a sampled token
costs more than the model and a greedy choice. Peers that Python cannot import are left out by name.
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import results  # noqa: E402

PENALTY, FULL, TOP_K, TOP_P, MIN_P, TEMPERATURE = "penalty, argmax", "penalty, temperature, top-k, top-p, min-p, draw", \
    "temperature, top-k, draw", "temperature, top-p, draw", "temperature, min-p, draw", "temperature, draw"
SIZES, KINDS, CHAINS = (32000, 128256, 151936), ("bell", "peaked"), (FULL, TOP_K, TOP_P, MIN_P, TEMPERATURE, PENALTY)
HISTORY, TOKENS = 500, 400


def history(n):
    return [(i * i * 31 + 7) % n for i in range(HISTORY)]


def cadenza(program):
    def once():
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        times, how = {}, {}
        for line in out.splitlines():
            n, kind, chain, unfused, fused, lua, verdict = line.split("\t")
            times["stages", int(n), kind, chain] = float(unfused)
            times["Lua", int(n), kind, chain] = float(lua)
            if fused != "-":
                times["fused", int(n), kind, chain] = float(fused)
            how[int(n), kind, chain] = verdict
        return times, how
    return once


def make_row(rng, n, kind):
    import numpy
    row = ((2 if kind == "bell" else 1.5) * rng.standard_normal(n)).astype("float32")
    if kind == "peaked":
        for rank in range(1, 61):
            row[rank * 7919 % n] = 18 - 1.6 * math.log(rank)
    return numpy.ascontiguousarray(row)


def transformers(threads):
    import numpy
    import torch
    from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                              TopKLogitsWarper, TopPLogitsWarper)
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    rng = numpy.random.default_rng(1)
    cool = TemperatureLogitsWarper(0.8)
    lists = {FULL: [RepetitionPenaltyLogitsProcessor(1.1), cool, TopKLogitsWarper(50), TopPLogitsWarper(0.95), MinPLogitsWarper(0.05)],
             TOP_K: [cool, TopKLogitsWarper(50)], TOP_P: [cool, TopPLogitsWarper(0.9)], MIN_P: [cool, MinPLogitsWarper(0.05)],
             TEMPERATURE: [cool], PENALTY: [RepetitionPenaltyLogitsProcessor(1.1)]}
    rows = {(n, kind): torch.from_numpy(make_row(rng, n, kind)).unsqueeze(0) for n in SIZES for kind in KINDS}

    @torch.inference_mode()
    def once():
        times = {}
        for (n, kind), logits in rows.items():
            ids = torch.tensor([history(n)])
            for chain, processors in lists.items():
                run = LogitsProcessorList(processors)
                us = []
                for _ in range(5):
                    start = time.perf_counter()
                    scores = run(ids, logits.to(copy=True, dtype=torch.float32))
                    if chain == PENALTY:
                        torch.argmax(scores, dim=-1)
                    else:
                        torch.multinomial(torch.nn.functional.softmax(scores, dim=-1), num_samples=1)
                    us.append((time.perf_counter() - start) * 1e6)
                times["transformers", n, kind, chain] = statistics.median(us)
        return times
    return once


def llama_cpp():
    import llama_cpp as L
    import numpy
    rng = numpy.random.default_rng(1)
    candidate = numpy.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])

    def penalties(n):
        more = (n,) if len(L.llama_sampler_init_penalties.argtypes) == 5 else ()
        return L.llama_sampler_init_penalties(*more, HISTORY, 1.1, 0.0, 0.0)
    makers = {FULL: [penalties, lambda n: L.llama_sampler_init_temp(0.8), lambda n: L.llama_sampler_init_top_k(50),
                     lambda n: L.llama_sampler_init_top_p(0.95, 1), lambda n: L.llama_sampler_init_min_p(0.05, 1)],
              TOP_K: [lambda n: L.llama_sampler_init_temp(0.8), lambda n: L.llama_sampler_init_top_k(50)],
              TOP_P: [lambda n: L.llama_sampler_init_temp(0.8), lambda n: L.llama_sampler_init_top_p(0.9, 1)],
              MIN_P: [lambda n: L.llama_sampler_init_temp(0.8), lambda n: L.llama_sampler_init_min_p(0.05, 1)],
              TEMPERATURE: [lambda n: L.llama_sampler_init_temp(0.8)], PENALTY: [penalties]}

    def build(chain, n):
        settings = L.llama_sampler_chain_default_params()
        settings.no_perf = True
        sampler = L.llama_sampler_chain_init(settings)
        for make in makers[chain]:
            L.llama_sampler_chain_add(sampler, make(n))
        L.llama_sampler_chain_add(sampler, L.llama_sampler_init_greedy() if chain == PENALTY else L.llama_sampler_init_dist(1))
        for token in history(n):
            L.llama_sampler_accept(sampler, token)
        return sampler

    filled = {}
    for n in SIZES:
        for kind in KINDS:
            filled[n, kind] = numpy.zeros(n, candidate)
            filled[n, kind]["id"] = numpy.arange(n)
            filled[n, kind]["logit"] = make_row(rng, n, kind)

    def once():
        times = {}
        for (n, kind), source in filled.items():
            work = numpy.empty_like(source)
            data = ctypes.cast(work.ctypes.data, ctypes.POINTER(L.llama_token_data))
            for chain in CHAINS:
                sampler, us = build(chain, n), []
                for _ in range(7):
                    array = L.llama_token_data_array(data=data, size=n, selected=-1, sorted=False)
                    start = time.perf_counter()
                    ctypes.memmove(work.ctypes.data, source.ctypes.data, source.nbytes)
                    L.llama_sampler_apply(sampler, ctypes.byref(array))
                    us.append((time.perf_counter() - start) * 1e6)
                times["llama.cpp", n, kind, chain] = statistics.median(us)
                L.llama_sampler_free(sampler)
        return times
    return once


def per_token(a, plan, *settings):
    out = subprocess.run(
        [a.cadenza, "run", a.model, "--ids", "1,2,3", "--json", "--threads", str(a.threads), "-s", f"max_new_tokens={TOKENS}",
         "-s", "eos_token_id=none", *settings], check=True, capture_output=True, text=True,
        env={**os.environ, "CADENZA_PLAN": plan}).stdout
    timings = json.loads(out)["timings"]
    return timings["decode_ms"] * 1e3 / (timings["new_tokens"] - 1)


def decode_loop(a):
    sampled = ("-s", "do_sample=yes", "-s", "temperature=0.8", "-s", "top_k=50", "-s", "seed=1")

    def once():
        greedy = per_token(a, "on", "-s", "do_sample=no")
        return {("loop", plan): per_token(a, plan, *sampled) - greedy for plan in ("on", "off")}
    return once


def print_table(median, how):
    columns = ("stages", "fused", "Lua", "transformers", "llama.cpp")
    print("| scores | rows | chain | " + " | ".join(columns) + " | times |\n|---:|---|---|" + "---:|" * (len(columns) + 1))
    for n in SIZES:
        for kind in KINDS:
            for chain in CHAINS:
                cells = [median.get((c, n, kind, chain)) for c in columns]
                others = [x for x in cells[3:] if x]
                own = cells[1] or cells[0]
                text = ["-" if x is None else f"{x:,.0f}" for x in cells]
                if cells[1] and how[n, kind, chain] != "fused":
                    text[1] += f" ({how[n, kind, chain]})"
                times = f"{min(others) / own:.1f}" if others else "-"
                print(f"| {n:,} | {kind} | {chain} | " + " | ".join(text) + f" | {times} |")


def rows_of(seen, how):
    """A row for each program, size and chain; cadenza_is: how many times as fast the fused chain is, or the stages."""
    rows = []
    for key, us in seen.items():
        if key[0] == "loop":
            rows.append({"program": "cadenza", "work": "sampling in the decode loop", "plan": key[1], "scores": SIZES[-1],
                         "unit": "us", **results.spread(us)})
            continue
        name, n, kind, chain = key
        own = seen.get(("fused", n, kind, chain)) or seen["stages", n, kind, chain]
        cadenza_way = name in ("stages", "fused", "Lua")
        row = {"program": "cadenza" if cadenza_way else name, "scores": n, "rows": kind, "chain": chain, "unit": "us",
               **results.spread(us), "cadenza_is": statistics.median(x / y for x, y in zip(us, own))}
        if cadenza_way:
            row.update(way=name, fusing=how[n, kind, chain] if name == "fused" else None)
        rows.append(row)
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("bench_chains")
    ap.add_argument("--cadenza", default="build/bin/cadenza")
    ap.add_argument("--model")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--json", help="write figures here too")
    a = ap.parse_args()
    own, runs, missing = cadenza(a.bench_chains), [], []
    if a.model:
        runs.append(decode_loop(a))
    for name, make in (("transformers", lambda: transformers(a.threads)), ("llama.cpp", llama_cpp)):
        try:
            runs.append(make())
        except ImportError as e:
            print(f"{name}: left out, {e}", file=sys.stderr)
            missing.append((name, e))
    seen = {}
    for _ in range(a.rounds):
        times, how = own()
        for run in runs:
            times.update(run())
        for key, us in times.items():
            seen.setdefault(key, []).append(us)
    median = {key: statistics.median(us) for key, us in seen.items()}
    print_table(median, how)
    if a.model:
        print(f"\nIn the decode loop, temperature 0.8 and top-k 50 over {SIZES[-1]:,} scores: {median['loop', 'on']:.0f} us, "
              f"with CADENZA_PLAN=off {median['loop', 'off']:.0f} us")
    if a.json:
        results.write(a.json, "sampling", {"threads": a.threads, "rounds": a.rounds}, rows_of(seen, how), missing)


if __name__ == "__main__":
    main()
