#!/usr/bin/env python3
"""What each quantised type costs: logit error and perplexity against the plain model, beside llama.cpp's.

    quality.py [MODEL] [--cadenza PROGRAM] [--types q8_0,q4_k,...] [--activations f32|int8]
    quality.py [MODEL] --device cuda: what --precision auto costs there, with the weights as they are stored
    quality.py [MODEL] --kv-caches f16,bf16,q8_0,q4_0: what keys and values in other types than f32 cost

Text: the model's own, sampled with fixed seeds at temperature 1, so that the plain model's perplexity is about its entropy
and what a type adds is its divergence. It is cut into chunks; each is scored from its start. Logit error: of the next
token after each chunk, over the whole vocabulary, root mean square. llama.cpp runs the very files that `cadenza model
quantize` writes, if llama_cpp can be imported; it has no file for nf4, fp4 and int8.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HEADS = ["river (noun):", "music (noun):", "to walk (verb):", "house (noun):", "red (adjective):", "king (noun):",
         "water (noun):", "school (noun):", "tree (noun):", "fast (adjective):", "city (noun):", "light (noun):"]
GGUF_TYPES = ["q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "q3_k", "q2_k"]
OTHER_TYPES = ["int8", "nf4", "fp4"]


def run(program, *args, text=None):
    done = subprocess.run([program, *args], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s %s: %s" % (program, " ".join(args)[:200], done.stderr.strip()))
    return done.stdout


def make_chunks(program, model, n_chunks):
    """Each chunk: sampled answers to the heads, one after the other, up to 200 tokens."""
    chunks = []
    for c in range(n_chunks):
        lines = [json.dumps({"prompt": head, "seed": 1000 * c + i}) for i, head in enumerate(HEADS)]
        out = run(program, "run", model, "--input", "-", "-s", "do_sample=yes", "-s", "temperature=1", "-s", "top_p=1",
                  "-s", "top_k=0", "-s", "max_new_tokens=40", text="\n".join(lines) + "\n")
        ids = [i for line in out.splitlines() for i in json.loads(line)["sequences"][0]]
        chunks.append(ids[:200])
    return chunks


def ours(program, model, chunks, *options):
    """Log-probabilities of the chunks' tokens but the first, and logits of what follows."""
    logprobs, logits = [], []
    for ids in chunks:
        listed = ",".join(map(str, ids))
        scored = json.loads(run(program, "score", model, "--ids", listed, "--json", *options))
        logprobs += [p for p in scored["logprobs"] if p is not None]
        answer = json.loads(run(program, "run", model, "--ids", listed, "-s", "do_sample=no", "-s", "max_new_tokens=1",
                                "-s", "output_logits=yes", "--json", *options))
        logits += answer["logits"][0][0]
    return logprobs, logits


GGML_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2}


def theirs(path, chunks, kv_cache=None):
    import llama_cpp
    import numpy as np

    how = {"type_k": GGML_TYPES[kv_cache], "type_v": GGML_TYPES[kv_cache], "flash_attn": True} if kv_cache else {}
    model = llama_cpp.Llama(str(path), n_ctx=512, verbose=False, logits_all=True, **how)
    logprobs, logits = [], []
    for ids in chunks:
        model.reset()
        model.eval(ids)
        rows = np.array(model.scores[:len(ids)], dtype=np.float64)
        rows_max = rows.max(1, keepdims=True)
        log_sum = np.log(np.exp(rows - rows_max).sum(1)) + rows_max[:, 0]
        logprobs += [float(rows[i, ids[i + 1]] - log_sum[i]) for i in range(len(ids) - 1)]
        logits += [float(x) for x in rows[-1]]
    return logprobs, logits


def summary(base, got):
    mean = -sum(got[0]) / len(got[0])
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(base[1], got[1])) / len(base[1]))
    moved = sum(abs(a - b) for a, b in zip(base[0], got[0])) / len(base[0])
    return "%.3f | %.4f | %.3f" % (math.exp(mean), moved, error)


def kind_of(a, kind):
    """Types without whole numbers in blocks of 32 multiply in float32 always."""
    return ["--activations", "f32" if kind in ("q2_k", "q3_k") else a.activations]


def precisions(a, base, chunks):
    print("computed | perplexity | mean change of a token's log-probability | logit error")
    print("cpu | " + summary(base, base), flush=True)
    for precision in ("f32", "auto"):
        got = ours(a.cadenza, a.model, chunks, "--device", a.device, "--precision", precision)
        print("%s, --precision %s | %s" % (a.device, precision, summary(base, got)), flush=True)


def kv_caches(a, base, chunks, plain):
    """plain: the file that llama.cpp runs, None where it cannot be imported."""
    print("keys and values | perplexity | mean change of a token's log-probability | logit error | the same three in llama.cpp")
    for kind in ["f32"] + a.kv_caches:
        got = base if kind == "f32" else ours(a.cadenza, a.model, chunks, "--kv-cache", kind)
        line = "%s | %s" % (kind, summary(base, got))
        print(line + (" | " + summary(base, theirs(plain, chunks, kind)) if plain else ""), flush=True)


def some_of(known):
    """The type of an argument: names of the list with commas between them."""
    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError("'%s': expected some of %s" % (name, ",".join(known)))
        return text.split(",")
    return parse


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model", nargs="?", default=str(root / "models" / "pocket-dictionary"))
    ap.add_argument("--cadenza", default=str(root / "build" / "bin" / "cadenza"))
    ap.add_argument("--types", type=some_of(GGUF_TYPES + OTHER_TYPES), default=GGUF_TYPES + OTHER_TYPES)
    ap.add_argument("--chunks", type=int, default=8)
    ap.add_argument("--activations", default="f32", choices=["f32", "int8"], help="what quantised weights meet: f32 or int8")
    ap.add_argument("--device", help="compare the precisions of this device with the CPU instead")
    ap.add_argument("--kv-caches", metavar="TYPES", type=some_of([t for t in GGML_TYPES if t != "f32"]), help="compare types of the KV cache instead")
    a = ap.parse_args()
    try:
        import llama_cpp  # noqa: F401
        peer = True
    except ImportError:
        peer = False
    chunks = make_chunks(a.cadenza, a.model, a.chunks)
    base = ours(a.cadenza, a.model, chunks)
    print("%d tokens in %d chunks" % (len(base[0]), len(chunks)))
    if a.device:
        precisions(a, base, chunks)
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "plain.gguf"
        run(a.cadenza, "model", "convert", a.model, str(plain))
        if a.kv_caches:
            kv_caches(a, base, chunks, plain if peer else None)
            return
        print("type | MiB | perplexity | mean change of a token's log-probability | logit error | the same three in llama.cpp")
        print("as stored | %.2f | %s%s" % (plain.stat().st_size / 2**20, summary(base, base),
                                            " | " + summary(base, theirs(plain, chunks)) if peer else ""), flush=True)
        for kind in a.types:
            path = pathlib.Path(folder) / (kind + ".gguf")
            line = "%s | " % kind
            if kind in GGUF_TYPES:
                run(a.cadenza, "model", "quantize", a.model, str(path), "--type", kind)
                line += "%.2f | %s" % (path.stat().st_size / 2**20, summary(base, ours(a.cadenza, str(path), chunks, *kind_of(a, kind))))
                line += " | " + summary(base, theirs(path, chunks)) if peer else ""
            else:
                line += "- | " + summary(base, ours(a.cadenza, a.model, chunks, "--quantize", kind))
            print(line, flush=True)


if __name__ == "__main__":
    main()
