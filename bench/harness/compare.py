#!/usr/bin/env python3
"""Cadenza beside its peers, on the same weights, threads and prompt, in turns.

    compare.py decode|prefill|batch|load|memory [--shape SHAPE | --model FOLDER] [--types bf16,q8_0,q4_0,q4_k]
               [--threads 2] [--rounds 5] [--neighbours 0,1,2] [--build build-bench] [--python PROGRAM]

Prints a table and writes BUILD/results/NAME.json (docs/performance.md says what is in it). Each program runs in a process of
its own and is asked once per round, so that a drift of the machine meets all; figures are medians with the extremes,
ratios are medians of the rounds' ratios. What a machine has at best is measured by `cadenza bench` in the same rounds.
A program that is not there is listed as not measured, with why.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from peers import Worker, ids, memory

HERE = pathlib.Path(__file__).resolve().parent
ONE_THREAD = "cadenza, 1 thread"
REST_S = 0.4  # between two turns: threads of the one before stop spinning


def say(*text):
    print(*text, file=sys.stderr, flush=True)


def fail(text):
    sys.exit(f"bench: {text}")


def run(*command, **how):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **how)
    if done.returncode:
        fail(f"{' '.join(map(str, command))[:300]}: {done.stderr.strip()[-500:]}")
    return done.stdout


# --- models --------------------------------------------------------------------------------------------------------------

class Models:
    """A folder of one shape and the GGUF files made of it, each when it is first asked for."""

    def __init__(self, a):
        self.a = a
        self.at = pathlib.Path(a.build) / "models" / (a.shape if not a.model else pathlib.Path(a.model).name)
        self.at.mkdir(parents=True, exist_ok=True)
        self.name = str(self.at.name)

    def folder(self):
        if self.a.model:
            return pathlib.Path(self.a.model)
        out = self.at / "hf"
        if not (out / "config.json").exists():
            say(f"making a model of the shape {self.a.shape} in {out}")
            run(self.a.python, HERE.parent / "make_model.py", self.a.shape, out)
        return out

    def gguf(self, kind):
        """kind: bf16 (the folder's own type) or a type of blocks."""
        out = self.at / f"{kind}.gguf"
        if out.exists():
            return out
        part = out.with_suffix(".part")
        say(f"making {out}")
        if kind == "bf16":
            run(self.a.cadenza, "model", "convert", self.folder(), part, "--no-tokenizer")
        else:
            run(self.a.cadenza, "model", "quantize", self.gguf("bf16"), part, "--type", kind)
        part.rename(out)
        return out

    def ct2(self):
        out = self.at / "ct2"
        if not out.exists():
            say(f"making {out}")
            run(self.a.python, HERE / "make_ct2.py", self.folder(), out)
        return out

    def openvino(self, kind):
        out = self.at / f"openvino-{kind}"
        if not out.exists():
            say(f"making {out}")
            run(self.a.python, HERE / "make_openvino.py", self.folder(), out, kind, "--cadenza", self.a.cadenza)
        return out / "openvino_model.xml"


# --- programs ------------------------------------------------------------------------------------------------------------

class Cadenza:
    """The program itself, a process for each turn: `cadenza bench`, one round of it."""
    missing = None

    def __init__(self, a, model, threads=None):
        self.a, self.model, self.threads, self.seen = a, model, threads or a.threads, []

    def bench(self, prompt, new, context, batch, *more):
        found = json.loads(run(self.a.cadenza, "bench", self.model, "--rounds", 1, "--format", "json", "--threads",
                               self.threads, "--prompt-tokens", prompt, "--new-tokens", new, "--context", context,
                               "--batch", batch, "--activations", self.a.activations, "-s", "do_sample=no", *more))
        self.seen.append(found)
        return found

    def order(self, do, n=0, context=16, batch=1):
        if do == "prefill":
            found = self.bench(n, 2, 1, 1)["prefill"]
            return {"seconds": found["ms"]["median"] / 1e3, **limits(found)}
        found = self.bench(1, n, context, batch)["decode"]
        return {"seconds": found["ms_per_step"]["median"] / 1e3, **limits(found)}

    def close(self):
        pass


STEADY = 0.1  # of its median, between a limit's extremes


def limits(found):
    limit = next((found[name] for name in ("limit_gb_s", "limit_gmac_s") if found.get(name)), None)
    return {"limit": limit["median"], "fraction": found["fraction"]["median"]} if limit and found["fraction"] else {}


def holds(limits):
    """Whether a share of the machine's limit says something: it moved little from turn to turn."""
    return bool(limits) and max(limits) - min(limits) <= STEADY * statistics.median(limits)


def spec_of(a, models, kind):
    return {"gguf": str(models.gguf(kind)), "folder": str(models.folder()), "threads": a.threads, "context": a.context}


# Those that do not read the GGUF file, and what they have in place of its types; OpenVINO's int8 and int4 are its own.
OTHERS = {"transformers": ["bf16"], "CTranslate2": ["q8_0"], "OpenVINO": ["bf16", "q8_0", "q4_0"]}


def programs(a, models, kind, missing, one_thread):
    """By name, those that are there; why the others are not goes to missing."""
    found = {"cadenza": Cadenza(a, models.gguf(kind))}
    if one_thread:
        found[ONE_THREAD] = Cadenza(a, models.gguf(kind), 1)
    wanted = ["llama.cpp"] + [name for name, types in OTHERS.items() if kind in types]
    for name in wanted:
        if name not in a.peers:
            missing.append({"program": name, "weights": kind, "why": "not asked for"})
            continue
        spec = spec_of(a, models, kind)
        needs = {"CTranslate2": "ctranslate2", "OpenVINO": "openvino_genai, nncf"}.get(name)
        if needs and subprocess.run([a.python, "-c", f"import {needs}"], capture_output=True).returncode:
            missing.append({"program": name, "weights": kind, "why": f"{a.python} cannot import {needs}"})
            continue
        if name == "CTranslate2":
            spec.update(ct2=str(models.ct2()), vocab=vocab_of(models))
        elif name == "OpenVINO":
            spec.update(openvino=str(models.openvino(kind)), vocab=vocab_of(models))
        worker = Worker(a.python, name, spec)
        if worker.missing:
            missing.append({"program": name, "weights": kind, "why": worker.missing})
            worker.close()
        else:
            found[name] = worker
    return found


def vocab_of(models):
    return json.loads((models.folder() / "config.json").read_text())["vocab_size"]


class Neighbours:
    """Processes that keep cores busy with nothing."""

    def __init__(self, n):
        self.all = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
        if n:
            time.sleep(0.3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.all:
            p.kill()
            p.wait()


# --- turns ---------------------------------------------------------------------------------------------------------------

def turns(a, found, order, missing, what):
    """Seconds of each program, by round; a program that fails is dropped. And shares of the machine's limit, where it held."""
    seconds, fractions, limits = {name: [] for name in found}, [], []
    for r in range(a.rounds + 1):  # the first warms up
        for name, program in found.items():
            if program.missing:
                continue
            time.sleep(REST_S)
            answer = program.order(**order)
            if answer is None:
                missing.append({"program": name, **what, "why": program.missing})
                seconds[name] = []
            elif r:
                seconds[name].append(answer["seconds"])
                if name == "cadenza" and "fraction" in answer:
                    fractions.append(answer["fraction"])
                    limits.append(answer["limit"])
    return {name: s for name, s in seconds.items() if s}, fractions if holds(limits) else []


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def rows_of(seconds, fractions, per_turn, unit, what):
    """A row for each program; per_turn: units of one turn's second."""
    own, rows = seconds["cadenza"], []
    for name, s in seconds.items():
        row = dict(what, program=name, unit=unit, **spread([per_turn / x for x in s]))
        row["cadenza_is"] = statistics.median(x / y for x, y in zip(s, own))
        if name == "cadenza" and fractions:
            row["fraction_of_limit"] = spread(fractions)
        rows.append(row)
    return rows


def compare(a, models, missing, plan, one_thread=False):
    """plan: (what, order, units of one turn, unit) of each comparison within one type of weights. one_thread: Cadenza's own
    takes turns too."""
    rows = []
    for kind in a.types:
        found = programs(a, models, kind, missing, one_thread)
        for n in a.neighbours:
            for what, order, per_turn, unit in plan:
                what = {"weights": kind, "neighbours": n, **what}
                say(", ".join(f"{k} {v}" for k, v in what.items()))
                with Neighbours(n):
                    seconds, fractions = turns(a, found, order, missing, what)
                rows += rows_of(seconds, fractions, per_turn, unit, what)
        for program in found.values():
            program.close()
    return rows


def bench_decode(a, models, missing):
    order = {"do": "decode", "context": a.context, "n": a.new_tokens, "batch": 1}
    return compare(a, models, missing, [({}, order, 1, "tokens/s")], one_thread=any(a.neighbours))


def bench_prefill(a, models, missing):
    n = a.prompt_tokens
    return compare(a, models, missing, [({"prompt": n}, {"do": "prefill", "n": n}, n, "tokens/s")])


def bench_batch(a, models, missing):
    plan = [({"sequences": b}, {"do": "decode", "context": a.context, "n": a.new_tokens, "batch": b}, b, "tokens/s")
            for b in a.sizes]
    return compare(a, models, missing, plan)


# --- loading -------------------------------------------------------------------------------------------------------------

def first_token(a, model):
    """From exec to the end of a program that makes one token."""
    prompt = ",".join(map(str, ids(a.context, 1000)))
    start = time.perf_counter()
    run(a.cadenza, "run", model, "--ids", prompt, "--threads", a.threads, "--activations", a.activations, "-s",
        "max_new_tokens=1", "-s", "do_sample=no")
    return time.perf_counter() - start


def llama_first(a, models, kind):
    worker = Worker(a.python, "llama.cpp", spec_of(a, models, kind))
    worker.close()
    if worker.missing:
        raise RuntimeError(worker.missing)
    return worker.ready


def llama_program(a, models, kind):
    """llama-cli, if it is on PATH: the whole process, as for us."""
    program = shutil.which("llama-cli")
    start = time.perf_counter()
    run(program, "-m", models.gguf(kind), "-n", 1, "-t", a.threads, "-p", "a", "-no-cnv")
    return time.perf_counter() - start


def bench_load(a, models, missing):
    """Files are warm. llama.cpp is timed from opening the file in a running Python, without starting a process; as a
    whole process where its program is on PATH."""
    rows, ways = [], {}
    for kind in a.types:
        ways = {"cadenza": lambda: first_token(a, models.gguf(kind)), "llama.cpp": lambda: llama_first(a, models, kind)}
        if shutil.which("llama-cli"):
            ways["llama-cli"] = lambda: llama_program(a, models, kind)
        else:
            missing.append({"program": "llama-cli", "weights": kind, "why": "not on PATH"})
        rows += load_rows(a, ways, missing, {"weights": kind})
    shipped = {"cadenza": lambda: shipped_first(a)}
    return rows + load_rows(a, shipped, missing, {"weights": "the shipped model"})


def shipped_first(a):
    start = time.perf_counter()
    run(a.cadenza, "run", "-p", "river (noun): a", "-s", "max_new_tokens=1", "-s", "do_sample=no")
    return time.perf_counter() - start


def load_rows(a, ways, missing, what):
    seconds = {name: [] for name in ways}
    for r in range(a.rounds + 1):
        for name, way in list(ways.items()):
            time.sleep(REST_S)
            try:
                took = way()
            except RuntimeError as e:
                missing.append({"program": name, **what, "why": str(e)})
                del ways[name], seconds[name]
                continue
            if r:
                seconds[name].append(took)
    own, rows = seconds["cadenza"], []
    for name, s in seconds.items():
        rows.append(dict(what, program=name, unit="ms to the first token", **spread([1e3 * x for x in s]),
                         cadenza_is=statistics.median(x / y for x, y in zip(s, own))))
    return rows


# --- memory --------------------------------------------------------------------------------------------------------------

def cadenza_memory(a, model):
    """Of `cadenza run` while it decodes: the most that /proc shows."""
    prompt = ",".join(map(str, ids(a.context, 1000)))
    p = subprocess.Popen([a.cadenza, "run", str(model), "--ids", prompt, "--threads", str(a.threads), "--activations", a.activations, "-s",
                          f"max_new_tokens={a.new_tokens}", "-s", "do_sample=no", "-s", "eos_token_id=none"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = {}
    while p.poll() is None:
        try:
            now = memory(p.pid)
        except (OSError, ProcessLookupError):
            break
        seen = {k: max(v, seen.get(k, 0)) for k, v in now.items()} if now else seen
        time.sleep(0.01)
    p.wait()
    return seen


def bench_memory(a, models, missing):
    rows = []
    for kind in a.types:
        found = programs(a, models, kind, missing, one_thread=False)
        for name, program in found.items():
            if name == "cadenza":
                seen = cadenza_memory(a, models.gguf(kind))
            else:
                program.order(do="decode", context=a.context, n=a.new_tokens, batch=1)
                seen = program.order(do="memory")
            if seen:
                rows += [{"weights": kind, "program": name, "unit": f"MB {what}", "median": seen[key] / 1e6,
                          "low": seen[key] / 1e6, "high": seen[key] / 1e6}
                         for key, what in (("peak", "at most"), ("anon", "of its own"))]
            program.close()
    return rows


# --- results -------------------------------------------------------------------------------------------------------------

def machine(a):
    found = json.loads(run(a.cadenza, "bench", "--rounds", 1, "--prompt-tokens", 32, "--new-tokens", 8, "--format", "json",
                           "--threads", a.threads))
    flags = next((line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "").split()
    wanted = ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8"]
    return {**found["machine"], "has": [f for f in wanted if f in flags], "lacks": [f for f in wanted if f not in flags],
            "read_gb_s": found["decode"]["limit_gb_s"], "fma_gmac_s": found["prefill"]["limit_gmac_s"],
            "load_average": os.getloadavg()[0]}


def table(rows):
    columns = [c for c in ("weights", "sequences", "prompt", "neighbours", "program") if any(c in r for r in rows)]
    if all(r.get("neighbours", 0) == 0 for r in rows) and "neighbours" in columns:
        columns.remove("neighbours")
    lines = ["| " + " | ".join(columns) + " | " + rows[0]["unit"] + ", median | lowest | highest | Cadenza is | of the limit |",
             "|" + "---|" * len(columns) + "---:|---:|---:|---:|---:|"]
    for r in rows:
        cells = [str(r.get(c, "")) for c in columns]
        if r["unit"] != rows[0]["unit"]:
            cells[-1] += ", " + r["unit"]
        times = f"{r['cadenza_is']:.2f}x" if "cadenza_is" in r else ""
        part = f"{100 * r['fraction_of_limit']['median']:.0f} %" if "fraction_of_limit" in r else ""
        lines.append(f"| {' | '.join(cells)} | {r['median']:.1f} | {r['low']:.1f} | {r['high']:.1f} | {times} | {part} |")
    return "\n".join(lines)


def counts(text):
    numbers = text.split(",")
    if not all(n.isdecimal() for n in numbers):
        raise argparse.ArgumentTypeError(f"'{text}': expected whole numbers, as in 1,2,8")
    return [int(n) for n in numbers]


SETTINGS = ("threads", "rounds", "context", "new_tokens", "prompt_tokens", "activations")
BENCHES = {"decode": bench_decode, "prefill": bench_prefill, "batch": bench_batch, "load": bench_load,
           "memory": bench_memory}


def add_usual(ap, rounds, python):
    """What every run of a made or given model asks for; python: what that program is needed for."""
    ap.add_argument("--shape", default="qwen2.5-0.5b", help="a shape of make_model.py")
    ap.add_argument("--model", help="a model folder instead of a made one")
    ap.add_argument("--types", default="bf16,q8_0,q4_0,q4_k", help="of weights")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=rounds)
    ap.add_argument("--new-tokens", type=int, default=32)
    ap.add_argument("--activations", default="auto", help="Cadenza's: auto, f32, int8, bf16, bf16x1 or bf16x3")
    ap.add_argument("--build", default="build-bench")
    ap.add_argument("--cadenza", help="the program; default: the build's")
    ap.add_argument("--python", default=sys.executable, help=python)


def add_turns(ap, sizes):
    """What runs in turns ask for besides."""
    ap.add_argument("--context", type=int, default=16, help="tokens before the new ones")
    ap.add_argument("--prompt-tokens", type=int, help="default: 512, or what the model has room for")
    ap.add_argument("--sizes", type=counts, default=sizes, help="sequences together")
    ap.add_argument("--neighbours", type=counts, default="0", help="busy processes beside, one run for each: 0,1,2")


def longest_prompt(model):
    """Tokens that a prompt may have before one new one; None: as many as one likes, as far as the folder says."""
    try:
        config = json.loads((pathlib.Path(model) / "config.json").read_text())
    except (OSError, ValueError):
        return None
    places = config.get("max_position_embeddings")
    return places - 1 if isinstance(places, int) else None


def parse(ap):
    a = ap.parse_args()
    if getattr(a, "prompt_tokens", 512) is None:
        a.prompt_tokens = min(512, a.model and longest_prompt(a.model) or 512)
    a.cadenza = a.cadenza or os.path.join(a.build, "bin", "cadenza")
    a.types = a.types.split(",")
    return a


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("bench", choices=BENCHES)
    ap.add_argument("--peers", default="llama.cpp,transformers,CTranslate2,OpenVINO", help="of these, those that are there")
    add_usual(ap, rounds=5, python="that can import the peers")
    add_turns(ap, "1,8,32")
    a = parse(ap)
    a.peers = a.peers.split(",")
    return a


def main():
    a = options()
    missing, models = [], Models(a)
    result = {"schema": "cadenza.compare/1", "bench": a.bench, "model": models.name, "machine": machine(a),
              "settings": {k: getattr(a, k) for k in SETTINGS}}
    result["rows"] = BENCHES[a.bench](a, models, missing)
    unique = {(m["program"], m.get("weights"), m["why"]): m for m in missing if m["why"] != "not asked for"}
    result["not_measured"] = list(unique.values())
    out = pathlib.Path(a.build) / "results"
    out.mkdir(exist_ok=True)
    (out / f"{a.bench}-{models.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    m = result["machine"]
    print(f"{a.bench}, {models.name}, {m['threads']} threads of {m['cpu']}, {m['variant']} kernels; not on this machine: "
          f"{', '.join(m['lacks']) or 'nothing'}; load average {m['load_average']:.1f} before\n")
    print(table(result["rows"]))
    for gone in result["not_measured"]:
        print(f"\nnot measured: {gone['program']}, {gone.get('weights', '')}: {gone['why']}")
    print(f"\nwritten: {out / f'{a.bench}-{models.name}.json'}")


if __name__ == "__main__":
    main()
