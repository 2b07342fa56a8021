#!/usr/bin/env python3
"""Cadenza's server beside llama-server on the same weights, in turns, and what the server itself costs.

    paired.py [PART...] [--short] [--shape SHAPE | --gguf FILE] [--type q8_0] [--threads 2] [--rounds N]
              [--llama-server PROGRAM] [--build build-bench] [--python PROGRAM]

Parts: streams (1, 8, 32 and 64 of them, prompts of 16 tokens, 32 new ones), cost (the server against `cadenza run`), prefix
(a warm prompt's first token against a cold one's), arrivals (time between tokens while long prompts come), busy (beside a busy
program) and memory (growth over many short requests). Without a name all of them; --short leaves memory out and repeats less,
which takes some minutes. Both servers run all the time, and one is asked right after the other, so that a drift of the machine
meets both; the one that nobody asks sleeps. Tables are in Markdown, medians with (least-most); ratios are medians of the rounds'
ratios, each of two neighbours in time. The last table has what was aimed at. The load comes from `cadenza bench serve`, on the
same machine: leave it a quiet one. $LLAMA_SERVER or the PATH has llama-server; without it Cadenza is measured alone.
"""
import argparse
import concurrent.futures
import contextlib
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
PATIENCE_S = 3600  # for an answer: many long prompts may be before it


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
    """A program that serves the model, for one turn. prompt: that it is asked for first."""

    def __init__(self, name, words, port, log, prompt="a"):
        self.prompt = prompt
        self.name, self.port, self.url, self.log = name, port, f"http://127.0.0.1:{port}", log
        self.process = subprocess.Popen([str(w) for w in words], stdout=log, stderr=log)
        STARTED.append(self.process)

    def __enter__(self):
        for _ in range(3000):
            if self.process.poll() is not None:
                fail(f"{self.name} ended by itself with status {self.process.returncode}; {self.log.name} has what it said")
            try:
                if self.get("/health")[0] == 200:
                    self.ask({"prompt": self.prompt, "max_tokens": 2})
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        fail(f"{self.name} did not become ready; {self.log.name} has what it said")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read().decode()

    def ask(self, body):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read()
        if r.status != 200:
            fail(f"{self.name}: {r.status} {text[:300]}")
        return json.loads(text)

    def first_token(self, prompt, new=2):
        """Seconds to the first event with text."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        began = time.perf_counter()
        c.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": new, "temperature": 0, "stream": True}),
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
        self.seed, self.tokens_per_word, self.found = 1000000, None, []

    def cadenza(self, *more):
        port = free_port()
        return Server("cadenza", [self.a.cadenza, "serve", self.model, "--port", port, "--threads", self.a.threads, *more], port, self.log)

    def peer(self):
        """A slot for each stream, which its continuous batching fills; a page and a store of prompts that nobody asks for are left out."""
        port, n, slots = free_port(), self.a.threads, max(self.a.streams)
        return Server("llama-server", [self.a.llama_server, "-m", self.model, "--port", port, "-t", n, "-tb", n, "-np", slots, "-c",
                                       slots * 256, *self.a.llama_options.split()], port, self.log)

    @contextlib.contextmanager
    def all(self):
        with contextlib.ExitStack() as started:
            yield [started.enter_context(make()) for make in [self.cadenza] + ([self.peer] if self.a.llama_server else [])]

    def words(self, server, streams, requests, words, new, seed):
        return json.loads(run(self.a.cadenza, "bench", "serve", server.url, "--streams", streams, "--requests", requests,
                              "--prompt-tokens", words, "--new-tokens", new, "--seed", seed, "--json", "-"))

    def load(self, server, streams, requests, prompt=16, new=32, seed=None):
        """Of one server no two loads have a prompt in common, so that no cache helps; of two servers those of a seed are the same."""
        if not self.tokens_per_word:
            self.tokens_per_word = self.words(server, 1, 1, 40, 1, 0)["prompt_tokens"] / 40
        self.seed += 1
        return self.words(server, streams, requests, max(1, round(prompt / self.tokens_per_word)), new, seed or self.seed)

    def rounds(self, least=0):
        return range(max(self.a.rounds, least))

    def aim(self, what, values, wanted, at_least=True, unit="", digits=2):
        """A line of the last table: what was asked for, and whether the median has it."""
        asked = f"{'at least' if at_least else 'at most'} {wanted:g}{unit}"
        if not values:
            self.found.append([what, asked, "not measured", ""])
            return
        value = statistics.median(values)
        kept = value >= wanted if at_least else value <= wanted
        self.found.append([what, asked, shown(values, digits) + unit, "reached" if kept else "missed"])


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

AIMS = {1: 1.5, 8: 2.5, 32: 2.5, 64: 3}  # times llama-server


def streams(f):
    rate, whole = {}, {}
    with f.all() as servers:
        for turn in f.rounds():
            for n in f.a.streams:
                for server in servers if turn % 2 == 0 else servers[::-1]:
                    got = f.load(server, n, max(f.a.least_requests, n), seed=1000 * (turn + 1) + n)
                    say(f"round {turn + 1}, {server.name}, {n} streams: {got['new_tokens_per_s']:.1f} tokens/s, prompts of "
                        f"{got['prompt_tokens'] / got['answered']:.1f} tokens")
                    rate.setdefault((server.name, n), []).append(got["new_tokens_per_s"])
                    whole.setdefault((server.name, n), []).append(got["request_ms"]["p50"] / 1e3)
    times = {n: ratios(rate["cadenza", n], rate.get(("llama-server", n), [])) for n in f.a.streams}
    table(["streams", "cadenza, tokens/s", "llama-server, tokens/s", "times", "cadenza, p50 of a request, s", "llama-server, s"],
          [[n, shown(rate["cadenza", n]), shown(rate.get(("llama-server", n))), shown(times[n], 2), shown(whole["cadenza", n], 2),
            shown(whole.get(("llama-server", n)), 2)] for n in f.a.streams])
    for n in f.a.streams:
        if n in AIMS:
            f.aim(f"{n} stream{'s' * (n > 1)}: tokens/s, times llama-server", times[n], AIMS[n])


class Alone:
    """`cadenza run` without a server, asked line by line: it stays, and is as warm as a server."""

    def __init__(self, f):
        words = [f.a.cadenza, "run", f.model, "--input", "-", "--threads", f.a.threads, "--prefix-cache", "off"]
        self.log = f.log
        self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f.log, text=True)
        STARTED.append(self.process)

    def __enter__(self):
        self.ask([300], 2)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, ids, new):
        """Seconds until the answer was there, and the engine's own milliseconds a token."""
        line = json.dumps({"prompt_ids": [ids], "kwargs": {"do_sample": False, "max_new_tokens": new, "min_new_tokens": new}})
        began = time.perf_counter()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        took = time.perf_counter() - began
        if not answer:
            fail(f"`cadenza run --input -` ended by itself; {self.log.name} has what it said")
        return took, json.loads(answer)["timings"]["decode_ms"] / max(new - 1, 1)


def cost(f):
    """The same prompt and length by the engine without the server and with it, in turn."""
    found = {k: [] for k in ("run step", "serve step", "run first", "serve first")}
    ids = list(range(300, 316))
    with f.cadenza("--prefix-cache", "off") as server, Alone(f) as alone:
        before = alone.ask(ids, 64)[1]
        for _ in f.rounds(9):
            found["serve step"].append(f.load(server, 1, 1, len(ids), 64)["inter_token_ms"]["mean"])
            after = alone.ask(ids, 64)[1]
            found["run step"].append((before + after) / 2)
            before = after
            firsts = [(1e3 * alone.ask(ids, 1)[0], 1e3 * server.first_token(ids, 1)) for _ in range(9)]
            found["run first"].append(statistics.median(r for r, _ in firsts))
            found["serve first"].append(statistics.median(s for _, s in firsts))
    more = [100 * (s / r - 1) for s, r in zip(found["serve step"], found["run step"])]
    later = [s - r for s, r in zip(found["serve first"], found["run first"])]
    table(["1 stream", "without the server, ms", "cadenza serve, ms", "the server's own"],
          [["a token", shown(found["run step"], 2), shown(found["serve step"], 2), shown(more) + " %"],
           ["the first token", shown(found["run first"], 2), shown(found["serve first"], 2), shown(later, 2) + " ms"]])
    f.aim("a token's time over `cadenza run`, 1 stream", more, 3, False, " %", 1)
    f.aim("the first token's over `cadenza run`", later, 1, False, " ms")


def prefix(f):
    cold, warm = [], []
    with f.cadenza() as server:
        for i in f.rounds(3):
            ids = [300 + (7 * k + i) % 1000 for k in range(f.a.long)]  # no two begin alike
            cold.append(1e3 * server.first_token(ids))
            warm.append(statistics.median(1e3 * server.first_token(ids) for _ in range(3)))
    of_cold = [100 * w / c for w, c in zip(warm, cold)]
    table(["a long prompt's first token", "ms"], [["cold", shown(cold)], ["warm", shown(warm)], ["warm, % of cold", shown(of_cold)]])
    f.aim("a warm long prompt's first token, of a cold one's", of_cold, 5, False, " %", 1)


def arrivals(f):
    rows = {}
    with f.cadenza() as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        for _ in f.rounds():
            quiet = f.load(server, 4, 4, 16, 64)["inter_token_ms"]
            running = pool.submit(f.load, server, 4, 8, 16, 128)
            while not running.done():
                f.load(server, 1, 1, f.a.long, 1)
            got = running.result()["inter_token_ms"]
            for name, value in (("p50 alone", quiet["p50"]), ("p50", got["p50"]), ("p99", got["p99"]), ("p99 / p50", got["p99"] / got["p50"])):
                rows.setdefault(name, []).append(value)
    table([f"between tokens of 4 streams while prompts of {f.a.long} tokens come", "ms"], [[k, shown(v, 2)] for k, v in rows.items()])
    f.aim("between tokens while long prompts come, p99 / p50", rows["p99 / p50"], 3, False)


@contextlib.contextmanager
def neighbour():
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    STARTED.append(process)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def busy(f):
    """One program that computes all the time: the scheduler of the system gives a thread of three on two cores two thirds of a core."""
    found = {}
    with f.all() as servers:
        for turn in f.rounds():
            for server in servers if turn % 2 == 0 else servers[::-1]:
                apart = f.load(server, 1, 2)["new_tokens_per_s"]
                with neighbour():
                    beside = f.load(server, 1, 2)["new_tokens_per_s"]
                say(f"round {turn + 1}, {server.name}: {apart:.1f} alone, {beside:.1f} tokens/s beside a busy program")
                found.setdefault(server.name, []).append((apart, beside, beside / apart / f.a.share))
    table(["beside a busy program", "alone, tokens/s", "beside, tokens/s", f"of its fair share ({f.a.share:.2f})"],
          [[name, shown([v[0] for v in all_]), shown([v[1] for v in all_]), shown([v[2] for v in all_], 2)] for name, all_ in found.items()])
    f.aim("beside one busy program, of the fair share", [v[2] for v in found["cadenza"]], 0.8)


def memory(f):
    """Growth after the first tenth, which fills pools and caches."""
    step = max(1, f.a.memory_requests // 10)
    rows, first = [], None
    with f.cadenza("--kv-memory", "64M") as server:
        for i in range(10):
            f.load(server, 16, step, 4, 2)
            now = server.resident()
            first = now if first is None else first
            rows.append([(i + 1) * step, f"{now / 2**20:.2f}", f"{(now - first) / 2**20:+.2f}"])
            say(*rows[-1])
    table(["short requests", "resident, MiB", "since the first row"], rows)
    f.aim("growth over short requests after the first tenth", [(now - first) / 2**20], 2, False, " MiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART")
    p.add_argument("--short", action="store_true")
    p.add_argument("--shape", default="qwen2.5-0.5b")
    p.add_argument("--gguf", help="in place of a shape: a file with its tokenizer")
    p.add_argument("--type", default="q8_0")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, help="default: 7, with --short 3")
    p.add_argument("--streams", type=lambda s: [int(n) for n in s.split(",")], default=[1, 8, 32, 64])
    p.add_argument("--least-requests", type=int, default=4)
    p.add_argument("--long", type=int, default=2000, help="tokens of a long prompt")
    p.add_argument("--memory-requests", type=int, default=100000)
    p.add_argument("--llama-server", default=os.environ.get("LLAMA_SERVER") or shutil.which("llama-server"), metavar="PROGRAM")
    p.add_argument("--llama-options", default="--no-webui --cache-ram 0", metavar="WORDS", help="that it is started with too")
    p.add_argument("--build", default="build-bench")
    p.add_argument("--cadenza")
    p.add_argument("--python", default=sys.executable)
    a = p.parse_args()
    unknown = [part for part in a.parts if part not in PARTS]
    if unknown:
        p.error(f"no part '{unknown[0]}'; expected {', '.join(PARTS)}")
    if a.rounds is None:
        a.rounds = 3 if a.short else 7
    a.cadenza = a.cadenza or str(pathlib.Path(a.build) / "bin" / "cadenza")
    cores = len(os.sched_getaffinity(0))
    a.share = (cores - cores / (a.threads + 1)) / min(a.threads, cores)
    if not a.llama_server:
        say("skipped llama-server: it is not here; $LLAMA_SERVER or --llama-server names one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that what was started ends
    field = Field(a)
    try:
        for part in a.parts or [part for part in PARTS if not a.short or part != "memory"]:
            globals()[part](field)
        table(["aimed at", "", "measured", ""], field.found)
    finally:
        for process in STARTED:
            if process.poll() is None:
                process.kill()


if __name__ == "__main__":
    main()
