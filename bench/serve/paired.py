#!/usr/bin/env python3
"""Cadenza's server beside llama-server on the same weights, in turns, and what the server itself costs.

    paired.py [PART...] [--shape SHAPE | --gguf FILE] [--type q8_0] [--threads 2] [--rounds 3] [--llama-server PROGRAM]
              [--build build-bench] [--python PROGRAM]

Parts: streams (1, 8, 32 and 64 of them, prompts of 16 tokens, 32 new ones), cost (the server against `cadenza run`), prefix
(a warm prompt's first token against a cold one's), arrivals (time between tokens while long prompts come), busy (beside a busy
program) and memory (growth over many short requests). All of them without a name. Each program is started for its turn and
asked once per round, so that a drift of the machine meets all; tables are in Markdown, medians with (least-most), ratios are
medians of the rounds' ratios. The load comes from `cadenza bench serve`, on the same machine: leave it a quiet one.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from compare import fail, run, say  # noqa: E402

PARTS = ["streams", "cost", "prefix", "arrivals", "busy", "memory"]
STARTED = []


# --- the model -----------------------------------------------------------------------------------------------------------

def gguf_of(a):
    """The file of weights of the shape, with a tokenizer, since both servers read texts."""
    if a.gguf:
        return pathlib.Path(a.gguf)
    at = pathlib.Path(a.build) / "models" / f"{a.shape}-serve"
    out, folder, words = at / f"{a.type}.gguf", at / "hf", at / "tokenizer"
    if out.exists():
        return out
    at.mkdir(parents=True, exist_ok=True)
    say(f"making {out}")
    if not (words / "tokenizer.json").exists():
        run(a.python, HERE.parent / "tokenizer" / "make_tokenizer.py", words)
    if not (folder / "config.json").exists():
        run(a.python, HERE.parent / "make_model.py", a.shape, folder, "--tokenizer", words)
    whole, part = at / "bf16.gguf", out.with_suffix(".part")
    run(a.cadenza, "model", "convert", folder, whole)
    run(a.cadenza, "model", "quantize", whole, part, "--type", a.type)
    part.rename(out)
    return out


# --- servers -------------------------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A program that serves the model, for one turn."""

    def __init__(self, name, words, port, log):
        self.name, self.port, self.url = name, port, f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([str(w) for w in words], stdout=log, stderr=log)
        STARTED.append(self.process)

    def __enter__(self):
        for _ in range(3000):
            if self.process.poll() is not None:
                fail(f"{self.name} ended by itself with status {self.process.returncode}")
            try:
                if self.get("/health")[0] == 200:
                    self.ask({"prompt": "a", "max_tokens": 2})
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        fail(f"{self.name} did not become ready")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read().decode()

    def ask(self, body):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read()
        if r.status != 200:
            fail(f"{self.name}: {r.status} {text[:300]}")
        return json.loads(text)

    def first_token(self, prompt):
        """Seconds to the first event with text."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        began = time.perf_counter()
        c.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 2, "temperature": 0, "stream": True}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        r.readline()
        took = time.perf_counter() - began
        r.read()
        return took

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


class Field:
    """What takes part, and how it is started."""

    def __init__(self, a):
        self.a, self.model, self.log = a, gguf_of(a), open(pathlib.Path(tempfile.gettempdir()) / f"paired-{os.getpid()}.log", "w")

    def cadenza(self, *more):
        port = free_port()
        return Server("cadenza", [self.a.cadenza, "serve", self.model, "--port", port, "--threads", self.a.threads, *more], port, self.log)

    def peer(self):
        port, n, slots = free_port(), self.a.threads, max(self.a.streams)
        return Server("llama-server", [self.a.llama_server, "-m", self.model, "--port", port, "-t", n, "-tb", n, "-np", slots, "-c",
                                       slots * 256, "--no-webui"], port, self.log)

    def load(self, server, streams, requests, prompt=16, new=32, *more):
        return json.loads(run(self.a.cadenza, "bench", "serve", server.url, "--streams", streams, "--requests", requests,
                              "--prompt-tokens", prompt, "--new-tokens", new, "--json", "-", *more))

    def both(self, turn):
        """Starts each for its turn; the order changes from round to round."""
        makes = [self.cadenza] + ([self.peer] if self.a.llama_server else [])
        return makes if turn % 2 == 0 else makes[::-1]


# --- figures -------------------------------------------------------------------------------------------------------------

def shown(values, digits=1):
    if not values:
        return "not measured"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def table(head, rows):
    print("\n| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def ratios(mine, theirs):
    return [m / t for m, t in zip(mine, theirs) if t]


# --- parts ---------------------------------------------------------------------------------------------------------------

def streams(f):
    rate, whole = {}, {}
    for turn in range(f.a.rounds):
        for make in f.both(turn):
            with make() as server:
                for n in f.a.streams:
                    got = f.load(server, n, max(f.a.least_requests, 2 * n))
                    say(f"round {turn + 1}, {server.name}, {n} streams: {got['new_tokens_per_s']:.1f} tokens/s")
                    rate.setdefault((server.name, n), []).append(got["new_tokens_per_s"])
                    whole.setdefault((server.name, n), []).append(got["request_ms"]["p50"] / 1e3)
    table(["streams", "cadenza, tokens/s", "llama-server, tokens/s", "times", "cadenza, p50 of a request, s", "llama-server, s"],
          [[n, shown(rate["cadenza", n]), shown(rate.get(("llama-server", n))),
            shown(ratios(rate["cadenza", n], rate.get(("llama-server", n), [])), 2), shown(whole["cadenza", n], 2),
            shown(whole.get(("llama-server", n)), 2)] for n in f.a.streams])


def cost(f):
    """The same prompt and length by `cadenza run`: its own clock begins when the engine has the request."""
    found = {k: [] for k in ("run step", "serve step", "run first", "serve first")}
    words = "a b c d e f g h i j k l m n o p"
    for _ in range(f.a.rounds):
        alone = json.loads(run(f.a.cadenza, "run", f.model, "--json", "--threads", f.a.threads, "-p", words, "-s", "do_sample=no", "-s",
                               "max_new_tokens=64", "-s", "min_new_tokens=64"))["timings"]
        found["run step"].append(alone["decode_ms"] / (alone["new_tokens"] - 1))
        found["run first"].append(alone["queued_ms"] + alone["prefill_ms"])
        with f.cadenza("--prefix-cache", "off") as server:
            got = f.load(server, 1, 8, 16, 64)
            found["serve step"].append(got["inter_token_ms"]["mean"])
            found["serve first"].append(statistics.median(1e3 * server.first_token(words) for _ in range(9)))
    more = [100 * (s / r - 1) for s, r in zip(found["serve step"], found["run step"])]
    later = [s - r for s, r in zip(found["serve first"], found["run first"])]
    table(["", "cadenza run, ms", "cadenza serve, ms", "the server's own"],
          [["a token", shown(found["run step"], 2), shown(found["serve step"], 2), shown(more) + " %"],
           ["the first token", shown(found["run first"], 2), shown(found["serve first"], 2), shown(later, 2) + " ms"]])


def prefix(f):
    cold, warm = [], []
    for _ in range(f.a.rounds):
        with f.cadenza() as server:
            for i in range(3):
                words = " ".join(f"w{i}x{k}" for k in range(f.a.long // 4))
                cold.append(1e3 * server.first_token(words))
                warm.append(1e3 * server.first_token(words))
    table(["a long prompt's first token", "ms"], [["cold", shown(cold)], ["warm", shown(warm)],
                                                  ["warm, % of cold", shown([100 * w / c for w, c in zip(warm, cold)])]])


def arrivals(f):
    rows = {}
    for turn in range(f.a.rounds):
        with f.cadenza() as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
            quiet = f.load(server, 4, 8, 16, 128)["inter_token_ms"]
            running = pool.submit(f.load, server, 4, 8, 16, 128)
            seed = 1000 * turn
            while not running.done():
                seed += 1  # no two prompts begin alike
                f.load(server, 1, 1, f.a.long, 1, "--seed", seed)
            got = running.result()["inter_token_ms"]
        for name, value in (("p50 alone", quiet["p50"]), ("p50", got["p50"]), ("p99", got["p99"]), ("p99 / p50", got["p99"] / got["p50"])):
            rows.setdefault(name, []).append(value)
    table([f"between tokens of 4 streams while prompts of {f.a.long} tokens come", "ms"], [[k, shown(v, 2)] for k, v in rows.items()])


def busy(f):
    """One program that computes all the time: of n threads' cores it leaves n - 1/2."""
    found = {}
    for turn in range(f.a.rounds):
        for make in f.both(turn):
            with make() as server:
                alone = f.load(server, 1, f.a.least_requests)["new_tokens_per_s"]
                neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                STARTED.append(neighbour)
                try:
                    beside = f.load(server, 1, f.a.least_requests)["new_tokens_per_s"]
                finally:
                    neighbour.kill()
                    neighbour.wait()
                found.setdefault(server.name, []).append((alone, beside, beside / alone / f.a.share))
    table(["beside a busy program", "alone, tokens/s", "beside, tokens/s", f"of its fair share ({f.a.share:.2f})"],
          [[name, shown([v[0] for v in all_]), shown([v[1] for v in all_]), shown([v[2] for v in all_], 2)] for name, all_ in found.items()])


def memory(f):
    """Growth after the first tenth, which fills pools and caches."""
    step = max(1, f.a.memory_requests // 10)
    rows, first = [], None
    with f.cadenza("--kv-memory", "64M") as server:
        for i in range(10):
            f.load(server, 16, step, 4, 2, "--seed", i + 1)
            now = server.resident()
            first = now if first is None else first
            rows.append([(i + 1) * step, f"{now / 2**20:.2f}", f"{(now - first) / 2**20:+.2f}"])
            say(*rows[-1])
    table(["short requests", "resident, MiB", "since the first row"], rows)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART")
    p.add_argument("--shape", default="qwen2.5-0.5b")
    p.add_argument("--gguf", help="in place of a shape: a file with its tokenizer")
    p.add_argument("--type", default="q8_0")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--streams", type=lambda s: [int(n) for n in s.split(",")], default=[1, 8, 32, 64])
    p.add_argument("--least-requests", type=int, default=4)
    p.add_argument("--long", type=int, default=2000, help="tokens of a long prompt")
    p.add_argument("--memory-requests", type=int, default=100000)
    p.add_argument("--llama-server", default=shutil.which("llama-server"))
    p.add_argument("--build", default="build-bench")
    p.add_argument("--cadenza")
    p.add_argument("--python", default=sys.executable)
    a = p.parse_args()
    unknown = [part for part in a.parts if part not in PARTS]
    if unknown:
        p.error(f"no part '{unknown[0]}'; expected {', '.join(PARTS)}")
    a.cadenza = a.cadenza or str(pathlib.Path(a.build) / "bin" / "cadenza")
    cores = len(os.sched_getaffinity(0))
    a.share = (cores - cores / (a.threads + 1)) / min(a.threads, cores)
    if not a.llama_server:
        say("llama-server is not here (--llama-server names one): it will not be measured")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that what was started ends
    field = Field(a)
    try:
        for part in a.parts or PARTS:
            globals()[part](field)
    finally:
        for process in STARTED:
            if process.poll() is None:
                process.kill()


if __name__ == "__main__":
    main()
