#!/usr/bin/env python3
"""Decode speed on the same weights, in one run: Cadenza, llama.cpp, transformers.

    compare.py FOLDER [--gguf FILE] [--threads 2] [--tokens 48] [--rounds 5] [--cadenza build/bin/cadenza]

The programs take turns, one round each, so that a noisy neighbour meets all of them; the table has the median and
the extremes of tokens per second after a prompt of 16 ids. A peer that is not installed is left out by name.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

PROMPT = list(range(100, 116))


def cadenza(a):
    def once():
        out = subprocess.run(
            [a.cadenza, "run", a.folder, "--ids", ",".join(map(str, PROMPT)), "--json", "--threads", str(a.threads),
             "-s", f"max_new_tokens={a.tokens}", "-s", "do_sample=no", "-s", "eos_token_id=none"],
            check=True, capture_output=True, text=True).stdout
        t = json.loads(out)["timings"]
        return (t["new_tokens"] - 1) / (t["decode_ms"] / 1e3)
    return once


def llama_cpp(a):
    import ctypes
    import llama_cpp as L
    quiet = L.llama_log_callback(lambda *_: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    model = L.llama_model_load_from_file(a.gguf.encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 512, a.threads, a.threads
    context = L.llama_init_from_model(model, params)
    vocab = L.llama_model_n_embd(model) and L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))

    def step(ids):
        array = (L.llama_token * len(ids))(*ids)
        if L.llama_decode(context, L.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = L.llama_get_logits_ith(context, -1)
        import numpy as np
        return int(np.ctypeslib.as_array(logits, shape=(vocab,)).argmax())

    def once(keep=quiet):  # the callback must outlive its use
        L.llama_memory_clear(L.llama_get_memory(context), True)
        token = step(PROMPT)
        start = time.perf_counter()
        for _ in range(a.tokens - 1):
            token = step([token])
        return (a.tokens - 1) / (time.perf_counter() - start)
    return once


def transformers(a):
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.folder, dtype="auto").eval()

    @torch.inference_mode()
    def once():
        out = model(torch.tensor([PROMPT]), use_cache=True)
        start = time.perf_counter()
        for _ in range(a.tokens - 1):
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
        return (a.tokens - 1) / (time.perf_counter() - start)
    return once


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    ap.add_argument("--gguf")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--tokens", type=int, default=48)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--cadenza", default="build/bin/cadenza")
    a = ap.parse_args()
    runs = {"cadenza": cadenza(a)}
    for name, make in (("llama.cpp", llama_cpp), ("transformers", transformers)):
        if name == "llama.cpp" and not a.gguf:
            print("llama.cpp: left out, no --gguf given", file=sys.stderr)
            continue
        try:
            runs[name] = make(a)
        except ImportError as e:
            print(f"{name}: left out, {e}", file=sys.stderr)
    speed = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(a.rounds):
        for name, run in runs.items():
            speed[name].append(run())
    base = statistics.median(speed["cadenza"])
    print(f"{'':14} {'tokens/s':>9} {'low':>7} {'high':>7} {'cadenza is':>11}")
    for name, s in speed.items():
        print(f"{name:14} {statistics.median(s):9.1f} {min(s):7.1f} {max(s):7.1f} {base / statistics.median(s):10.2f}x")


if __name__ == "__main__":
    main()
