#!/usr/bin/env python3
"""Records what llama.cpp's sampler chain leaves of rows of logits: tests/profiles/llamacpp.json.

    pip install llama-cpp-python numpy
    python3 tools/capture_llamacpp.py > tests/profiles/llamacpp.json

Each case has the chain's parameters by llama.cpp's names, the tokens it accepted before, logits, and the tokens left with
their probabilities. The chain is the default one: penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature.
"""
import ctypes
import json
import sys

import llama_cpp as lc
import numpy as np

VOCAB = 384
DEFAULTS = dict(repeat_last_n=64, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0, dry_multiplier=0.0,
                dry_base=1.75, dry_allowed_length=2, dry_penalty_last_n=4096, top_nsigma=-1.0, top_k=40, typ_p=1.0,
                top_p=0.95, min_p=0.05, xtc_probability=0.0, xtc_threshold=0.1, temp=0.8)
CASES = [
    ("defaults", {}),
    ("warm", dict(temp=1.7)),
    ("only top_k", dict(top_k=7, top_p=1.0, min_p=0.0)),
    ("only top_p", dict(top_k=0, top_p=0.7, min_p=0.0)),
    ("only min_p", dict(top_k=0, top_p=1.0, min_p=0.2)),
    ("typical", dict(top_k=0, top_p=1.0, min_p=0.0, typ_p=0.6)),
    ("sigma", dict(top_k=0, top_p=1.0, min_p=0.0, top_nsigma=1.2)),
    ("repetition", dict(repeat_penalty=1.3)),
    ("repetition of the newest", dict(repeat_penalty=1.5, repeat_last_n=4)),
    ("frequency and presence", dict(frequency_penalty=0.4, presence_penalty=0.7)),
    ("all penalties", dict(repeat_penalty=1.2, frequency_penalty=-0.3, presence_penalty=0.5, repeat_last_n=-1)),
    ("dry", dict(dry_multiplier=0.8)),
    ("dry, long", dict(dry_multiplier=1.5, dry_base=1.2, dry_allowed_length=1)),
    ("xtc", dict(xtc_probability=1.0, xtc_threshold=0.1, min_p=0.02)),
    ("everything", dict(repeat_penalty=1.1, frequency_penalty=0.1, presence_penalty=0.1, dry_multiplier=0.5, top_k=30,
                        typ_p=0.95, top_p=0.9, min_p=0.03, temp=1.2)),
]


def chain(p):
    c = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
    add = lambda s: lc.llama_sampler_chain_add(c, s)
    last_n = 4096 if p["repeat_last_n"] < 0 else p["repeat_last_n"]
    add(lc.llama_sampler_init_penalties(VOCAB, last_n, p["repeat_penalty"], p["frequency_penalty"], p["presence_penalty"]))
    add(lc.llama_sampler_init_dry(None, p["dry_multiplier"], p["dry_base"], p["dry_allowed_length"],
                                  p["dry_penalty_last_n"], None, 0))
    add(lc.llama_sampler_init_top_n_sigma(p["top_nsigma"]))
    add(lc.llama_sampler_init_top_k(p["top_k"]))
    add(lc.llama_sampler_init_typical(p["typ_p"], 0))
    add(lc.llama_sampler_init_top_p(p["top_p"], 0))
    add(lc.llama_sampler_init_min_p(p["min_p"], 0))
    add(lc.llama_sampler_init_xtc(p["xtc_probability"], p["xtc_threshold"], 0, 1))
    add(lc.llama_sampler_init_temp(p["temp"]))
    return c


def left(p, history, logits):
    c = chain(p)
    for token in history:
        lc.llama_sampler_accept(c, token)
    data = (lc.llama_token_data * VOCAB)(*[lc.llama_token_data(i, float(x), 0.0) for i, x in enumerate(logits)])
    rows = lc.llama_token_data_array(data, VOCAB, -1, False)
    lc.llama_sampler_apply(c, ctypes.byref(rows))
    # top_n_sigma masks rather than removes
    kept = [(rows.data[i].id, rows.data[i].logit) for i in range(rows.size) if rows.data[i].logit != float("-inf")]
    lc.llama_sampler_free(c)
    kept.sort()
    values = np.array([x for _, x in kept], dtype=np.float64)
    values = np.exp(values - values.max())
    values /= values.sum()
    return [i for i, _ in kept], [round(float(x), 7) for x in values]


def main():
    rng = np.random.default_rng(11)
    cases = []
    for k, (name, given) in enumerate(CASES):
        logits = [round(float(x), 4) for x in rng.normal(0, 2.5, VOCAB)]
        history = [int(x) for x in rng.integers(3, 40, 14)]
        history += history[2:5]  # something that repeats
        best = int(np.argmax(logits))
        if "repe" in name or "freq" in name or "all" in name or "every" in name:
            history[5:7] = [best, best]
        if name.startswith("dry") or name == "everything":
            history[6], history[4] = best, best  # what followed [.., x] before
        ids, probabilities = left({**DEFAULTS, **given}, history, logits)
        cases.append(dict(name=name, params=given, history=history, logits=logits, kept=ids, p=probabilities))
    json.dump(dict(llama_cpp_python=lc.__version__, cases=cases), sys.stdout)
    sys.stdout.write("\n")


main()
