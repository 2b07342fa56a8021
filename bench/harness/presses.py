#!/usr/bin/env python3
"""What presses cost and save: each beside no press, in turns.

    presses.py [PART...] [--presses knorm,...] [--type q8_0] [--shape SHAPE | --model FOLDER] [--rounds 5] [--threads 2] [--build build-bench]

Parts: prompt (reading one of --prompt-tokens), decode (new tokens --depth positions deep, --decode-ratio of them gone) and together
(requests of a server whose KV memory is that of --fit whole ones: how many run at a time, and how long all of them take). Ratios
are medians of the rounds' ratios, with the extremes. Writes BUILD/results/presses.json.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import time

import compare

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "serve"))
from paired import Server, free_port  # noqa: E402

PARTS = ["prompt", "decode", "together"]
PRESSES = "streaming_llm,think,simlayerkv,knorm,tova,keydiff,lagkv,snapkv,pyramidkv,snapkv+adakv,expected_attention,observed_attention"
BLOCK = 32  # positions of a block of KV memory
WITHOUT_RATIO = ["think", "simlayerkv"]
WINDOW = 8  # the first pass of `cadenza bench` has 16 positions, fewer than a window is without being told


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    ap.add_argument("--presses", default=PRESSES, help="of the part prompt; with + in a list of one pipeline")
    ap.add_argument("--type", default="q8_0", help="of the weights")
    ap.add_argument("--shape", default="qwen2.5-0.5b", help="of bench/make_model.py")
    ap.add_argument("--model", help="a folder to measure instead of a shape with random weights")
    ap.add_argument("--prompt-tokens", type=int, default=4096)
    ap.add_argument("--ratio", type=float, default=0.5, help="that goes of the prompt, in the part prompt")
    ap.add_argument("--depth", type=int, default=8192)
    ap.add_argument("--decode-ratio", type=float, default=0.75, help="in the parts decode and together")
    ap.add_argument("--fit", type=int, default=20)
    ap.add_argument("--requests", type=int, default=64)
    ap.add_argument("--long", type=int, default=1024, help="tokens of a prompt, in the part together")
    ap.add_argument("--new-tokens", type=int, default=32)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--activations", default="auto", help="auto, f32, int8, bf16, bf16x1 or bf16x3")
    ap.add_argument("--build", default="build-bench")
    ap.add_argument("--python", default=sys.executable, help="python that can import what makes a model")
    a = ap.parse_args()
    a.cadenza = os.path.join(a.build, "bin", "cadenza")
    wrong = [p for p in a.parts if p not in PARTS]
    if wrong:
        compare.fail(f"no part {wrong[0]!r}; there are {', '.join(PARTS)}")
    a.parts = a.parts or PARTS
    return a


def words_of(press, ratio):
    """Options of the program; of no press none."""
    if not press:
        return []
    own = [f"{name}.window_size={WINDOW}" for name in ("snapkv", "pyramidkv", "think") if name in press.split("+")]
    how = [] if press in WITHOUT_RATIO else ["--compression-ratio", ratio]
    return ["--press", press.replace("+", ", "), *how] + [w for s in own for w in ("-s", s)]


def bench(a, model, press, ratio, prompt, new, context):
    return compare.Cadenza(a, model).bench(prompt, new, context, 1, *words_of(press, ratio))


def in_turns(rounds, plain, pressed):
    """Ratios of both's numbers by round, pressed over plain; the first round warms up."""
    numbers = [(plain(), pressed()) for _ in range(rounds + 1)][1:]
    return {"plain": statistics.median(n[0] for n in numbers), "pressed": statistics.median(n[1] for n in numbers),
            "ratios": sorted(n[1] / n[0] for n in numbers)}


def show(name, row, unit):
    r = row["ratios"]
    print(f"| {name} | {row['plain']:.1f} | {row['pressed']:.1f} {unit} | {statistics.median(r):.3f} ({r[0]:.3f}-{r[-1]:.3f}) |", flush=True)


def prompt(a, model, rows):
    print(f"\nA prompt of {a.prompt_tokens} tokens, ratio {a.ratio}: no press, with it, the second over the first\n\n| press | none | with | ratio |\n|---|---:|---:|---:|")
    for press in a.presses.split(","):
        def ms(name):
            return bench(a, model, name, a.ratio, a.prompt_tokens, 2, 16)["prefill"]["ms"]["median"]
        row = in_turns(a.rounds, lambda: ms(None), lambda press=press: ms(press))
        show(press, row, "ms")
        rows.append({"part": "prompt", "press": press, **row})


def decode(a, model, rows):
    print(f"\nNew tokens {a.depth} positions deep, ratio {a.decode_ratio}\n\n| press | none | with | ratio |\n|---|---:|---:|---:|")

    def speed(name):
        return bench(a, model, name, a.decode_ratio, 1, 32, a.depth)["decode"]["tokens_per_s"]["median"]
    row = in_turns(a.rounds, lambda: speed(None), lambda: speed("knorm"))
    show("knorm", row, "tokens/s")
    rows.append({"part": "decode", "press": "knorm", **row})


# --- requests together ---------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def serving(a, model, kv_bytes):
    """A server with the pipelines `whole` and `knorm`."""
    with tempfile.TemporaryDirectory() as name, open(pathlib.Path(a.build) / "results" / "presses.log", "w") as log:
        folder, port = pathlib.Path(name), free_port()
        (folder / "whole.ini").write_text("[generation]\ndo_sample = false\n")
        (folder / "knorm.ini").write_text(f"[pipeline]\npress = knorm\n[generation]\ndo_sample = false\ncompression_ratio = {a.decode_ratio}\n")
        words = [a.cadenza, "serve", model, "--port", port, "--kv-memory", kv_bytes, "--threads", a.threads, "--scheduler", "prefill_first",
                 "--pipelines", folder]
        server = Server("cadenza", words, port, log, prompt=[1])
        try:
            with server:
                yield server
        finally:
            server.process.kill()


def count(server, name):
    return int(float(re.search(rf"^cadenza:{name}{{.*}} (\S+)$", server.get("/metrics")[1], re.M).group(1)))


def crowd(a, server, pipeline):
    """Seconds of all requests, the most that ran at a time, and how often blocks were taken back."""
    most, over = 0, threading.Event()

    def ask(k):
        ids = [(i * 7 + k * 13) % 20000 + 100 for i in range(a.long)]
        server.ask({"prompt": ids, "max_tokens": a.new_tokens, "ignore_eos": True, "cadenza": {"pipeline": pipeline}})

    def watch():
        nonlocal most
        over.wait(2)  # until then some are neither known to wait nor to run
        while not over.wait(0.2):
            most = max(most, count(server, "num_requests_running"))
    watcher = threading.Thread(target=watch)
    watcher.start()
    began, before = time.perf_counter(), count(server, "num_preemptions_total")
    try:
        with concurrent.futures.ThreadPoolExecutor(a.requests) as all_of:
            list(all_of.map(ask, range(a.requests)))
    finally:
        over.set()
        watcher.join()
    return time.perf_counter() - began, most, count(server, "num_preemptions_total") - before


def together(a, model, rows):
    position = bench(a, model, None, 0, 1, 2, 16)["model"]["kv_bytes_per_position"]
    kv_bytes = a.fit * -(-(a.long + a.new_tokens) // BLOCK) * BLOCK * position
    print(f"\n{a.requests} requests of {a.long} and {a.new_tokens} tokens, KV memory of {kv_bytes >> 20} MiB, ratio {a.decode_ratio}\n\n"
          "| press | at a time | blocks taken back | seconds |\n|---|---:|---:|---:|")
    with serving(a, model, kv_bytes) as server:
        for pipeline in ("whole", "knorm"):
            seconds, most, taken = crowd(a, server, pipeline)
            print(f"| {'none' if pipeline == 'whole' else pipeline} | {most or 'ended too soon'} | {taken} | {seconds:.1f} |", flush=True)
            rows.append({"part": "together", "press": pipeline, "seconds": seconds, "at_a_time": most, "preemptions": taken})


def main():
    a = options()
    machine, rows = compare.machine(a), []
    models = compare.Models(a)
    model = models.gguf(a.type)
    print(f"presses on {models.name}, {a.type}, {a.threads} threads of {machine['cpu']}, {machine['variant']} kernels")
    out = pathlib.Path(a.build) / "results" / "presses.json"
    out.parent.mkdir(exist_ok=True)
    for part in a.parts:
        {"prompt": prompt, "decode": decode, "together": together}[part](a, model, rows)
    out.write_text(json.dumps({"schema": "cadenza.presses/1", "machine": machine, "model": models.name, "type": a.type, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
