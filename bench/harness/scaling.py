#!/usr/bin/env python3
"""How Cadenza's cost grows: decode time with weights, attention with context, a step with the batch, each beside what the
machine allows. Writes BUILD/results/scaling-MODEL.json and three SVG files beside it, or into --plots FOLDER.

    scaling.py [--shape SHAPE | --model FOLDER] [--types bf16,q8_0,q4_0,q4_k] [--threads 2] [--rounds 5]
               [--contexts 128,...] [--sizes 1,2,...] [--from RESULTS.json] [--plots FOLDER]

--from draws from an earlier run's file and measures nothing.
"""
import argparse
import json
import pathlib
import statistics

from compare import Models, add_usual, counts, parse, run, say
from svg import chart


def bench(a, model, **how):
    options = [x for k, v in how.items() for x in ("--" + k.replace("_", "-"), v)]
    return json.loads(run(a.cadenza, "bench", model, "--format", "json", "--threads", a.threads, "--rounds", a.rounds,
                          "--activations", a.activations, "-s", "do_sample=no", *options))


def point(x, spread):
    return [x, spread["median"], spread["low"], spread["high"]]


def attention_ms(found):
    return found["decode"]["stages"]["ms"]["attention"] / found["decode"]["passes"]


def measure(a):
    models = Models(a)
    out = {"schema": "cadenza.scaling/1", "model": models.name, "weights": [], "context": [], "batch": []}
    for kind in a.types:
        say("weights", kind)
        f = bench(a, models.gguf(kind), prompt_tokens=1, new_tokens=a.new_tokens)
        out["weights"].append({"type": kind, "bytes": f["model"]["weight_bytes_per_step"], "ms": f["decode"]["ms_per_step"],
                               "read_gb_s": f["decode"]["limit_gb_s"]["median"]})
        out["machine"] = f["machine"]
    for n in a.contexts:
        say("context", n)
        f = bench(a, models.gguf(a.types[0]), prompt_tokens=1, new_tokens=a.new_tokens, context=n)
        at = n + a.new_tokens / 2
        out["context"].append({"positions": at, "attention_ms": attention_ms(f), "step_ms": f["decode"]["ms_per_step"],
                               "kv_bytes": at * f["model"]["kv_bytes_per_position"],
                               "read_gb_s": f["decode"]["limit_gb_s"]["median"]})
    for n in a.sizes:
        say("batch", n)
        f = bench(a, models.gguf(a.types[0]), prompt_tokens=256, new_tokens=a.new_tokens, batch=n)
        out["batch"].append({"sequences": n, "step_ms": f["decode"]["ms_per_step"], "bytes": f["step_bytes"],
                             "macs": f["model"]["macs_per_token"] * n, "read_gb_s": f["decode"]["limit_gb_s"]["median"],
                             "gmac_s": (f["prefill"]["limit_gmac_s"] or {}).get("median")})
    return out


def middle(rows, key):
    return statistics.median([r[key] for r in rows])


def by_weights(r):
    rows = sorted(r["weights"], key=lambda w: w["bytes"])
    read = middle(rows, "read_gb_s")
    top = rows[-1]["bytes"] / 1e6
    names = ", ".join(w["type"] for w in rows)
    return chart(f"A step against the weights it reads: {r['model']}", f"MB of weights ({names})", "ms a step",
                 [{"name": "Cadenza", "points": [point(w["bytes"] / 1e6, w["ms"]) for w in rows]},
                  {"name": f"read limit, {read:.1f} GB/s", "dashed": True, "points": [[0, 0], [top, top / read]]}])


def by_context(r):
    rows = r["context"]
    read = middle(rows, "read_gb_s")
    limit = [[c["positions"], c["kv_bytes"] / read * 1e-6] for c in rows]
    return chart(f"Attention in a step against the context: {r['model']}", "positions", "ms a step",
                 [{"name": "attention", "points": [[c["positions"], c["attention_ms"]] for c in rows]},
                  {"name": f"keys and values at {read:.1f} GB/s", "dashed": True, "points": limit}])


def by_batch(r):
    rows = r["batch"]
    read = middle(rows, "read_gb_s")
    series = [{"name": "Cadenza", "points": [point(b["sequences"], b["step_ms"]) for b in rows]},
              {"name": f"read limit, {read:.1f} GB/s", "dashed": True,
               "points": [[b["sequences"], b["bytes"] / read * 1e-6] for b in rows]}]
    if all(b["gmac_s"] for b in rows):
        peak = middle(rows, "gmac_s")
        series.append({"name": f"multiply-add limit, {peak:.0f} GMAC/s", "dashed": True,
                       "points": [[b["sequences"], b["macs"] / peak * 1e-6] for b in rows]})
    return chart(f"A step against the sequences in it: {r['model']}", "sequences together", "ms a step", series, log_x=True)


PLOTS = {"weights": by_weights, "context": by_context, "batch": by_batch}


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_usual(ap, rounds=5, python="that can make models")
    ap.add_argument("--contexts", type=counts, default="128,256,512,1024,2048,4096")
    ap.add_argument("--sizes", type=counts, default="1,2,4,8,16,32")
    ap.add_argument("--from", dest="given", help="an earlier run's JSON")
    ap.add_argument("--plots", help="where the SVG files go")
    return parse(ap)


def main():
    a = options()
    results = pathlib.Path(a.build) / "results"
    results.mkdir(parents=True, exist_ok=True)
    found = json.loads(pathlib.Path(a.given).read_text()) if a.given else measure(a)
    if not a.given:
        (results / f"scaling-{found['model']}.json").write_text(json.dumps(found, indent=1) + "\n")
    plots = pathlib.Path(a.plots) if a.plots else results
    plots.mkdir(parents=True, exist_ok=True)
    for name, draw in PLOTS.items():
        path = plots / f"{name}-{found['model']}.svg"
        path.write_text(draw(found))
        print(path)


if __name__ == "__main__":
    main()
