#!/usr/bin/env python3
"""What the Python package costs over the library, and what it is beside transformers.

    bench.py [--what overhead,processor,callback,import,transformers,lm_eval] [--model FOLDER] [--turns N] [--tokens N] [--threads N] [--cpu] [--pin CPU]

Needs the package (pip install ., or PYTHONPATH and CADENZA_LIBRARY); transformers and lm_eval need those packages too. What is
compared runs in turns, a turn of each by the other, and the middle of the turns' ratios counts: a machine that is busy slows both.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT = [360, 336, 292, 305, 299]


clock = time.perf_counter


def seconds(call):
    began = clock()
    call()
    return clock() - began


def in_turns(turns, *calls):
    """Seconds of each call in each turn."""
    for call in calls:
        call()
    return [[seconds(call) for call in calls] for _ in range(turns)]


def middle(values):
    return statistics.median(values)


def opened(options):
    import cadenza

    return cadenza.Model.from_pretrained(options.model, threads=options.threads)


def bare(model, ids, n_new):
    """The same request with nothing of the package round it: cdz_generate and the ids of its result."""
    from cadenza import _core
    from cadenza._abi import ffi

    text = ffi.new("char[]", json.dumps({"prompt_ids": [ids], "kwargs": {"do_sample": False, "max_new_tokens": n_new, "eos_token_id": None}}).encode())
    request = _core.new_struct("cdz_request", model=model._pointer)
    request.json = text
    lib, out, n, err = _core.library(), ffi.new("cdz_result **"), ffi.new("uint32_t *"), _core.new_error()

    def call():
        _core.check(lib.cdz_generate(model._runtime.pointer, request, out, err), err)
        lib.cdz_result_sequence(out[0], 0, n)
        lib.cdz_result_free(out[0])

    call.keep = text  # the request points to it
    return call


def overhead(options):
    """generate() over the C call, a request."""
    import numpy

    model = opened(options)
    ids = numpy.array([PROMPT])
    for n_new in (1, options.tokens):
        kwargs = dict(do_sample=False, max_new_tokens=n_new, eos_token_id=None)
        repeats = 200 if n_new == 1 else 5
        c = bare(model, PROMPT, n_new)
        found = in_turns(options.turns, lambda: [c() for _ in range(repeats)], lambda: [model.generate(ids, **kwargs) for _ in range(repeats)])
        more = middle([(python - native) / repeats for native, python in found])
        whole = middle([native / repeats for native, _ in found])
        print(f"overhead   {n_new:4d} new tokens: the C call {whole * 1e6:9.0f} us, generate() {more * 1e6:+7.0f} us, {more / whole:+.1%}")


def processor(options):
    """A processor, and a criterion, in Python that do nothing, a step, beside the same request without: middle and quarters of the turns."""
    import numpy

    model = opened(options)
    ids = numpy.array([PROMPT])
    kwargs = dict(do_sample=False, max_new_tokens=options.tokens, eos_token_id=None)
    mine = {"processor": dict(logits_processor=[lambda i, s: s]), "criterion": dict(stopping_criteria=[lambda i, s: False])}
    calls = [lambda more=more: model.generate(ids, **kwargs, **more) for more in ({}, *mine.values())]
    found = in_turns(options.turns, *calls)
    for at, name in enumerate(mine, 1):
        steps = [(turn[at] - turn[0]) / options.tokens * 1e6 for turn in found]
        first, step, last = statistics.quantiles(steps, n=4) if len(steps) > 1 else steps * 3
        print(f"{name:10s} {model.vocab_size} scores: {step:+.1f} us a step, quarters {first:+.1f} and {last:+.1f}")


def callback(options):
    """The engine's call into a processor and into a criterion of no code, as C makes it: processor time of one, warm, the least of the
    turns. A busy machine disturbs it less than it does the step's. Copies are what a processor gets that has kept its rows."""
    from cadenza import processors
    from cadenza._abi import ffi

    kinds = ["numpy"] + (["torch"] if importlib.util.find_spec("torch") else [])
    length, repeats = 64, 200
    for kind, rows, width in ((kind, *shape) for kind in kinds for shape in ((1, 4096), (8, 4096), (1, 151936))):
        processors._calls[0] = processors.Call([lambda i, s: s], [lambda i, s: False], kind)
        handle, ids, data = ffi.new("int64_t *", 0), ffi.new("int32_t[]", list(range(length))), ffi.new("float[]", width * rows)
        each, stops = ffi.new("cdz_ids[]", [(ids, length)] * rows), ffi.new("cdz_stop[]", rows)
        facts = dict(n_rows=rows, params=handle, input_ids=each)
        copying, step = ffi.new("cdz_step *", facts), ffi.new("cdz_step *", dict(facts, shared=handle))  # shared: rows could be kept
        scores = ffi.new("cdz_scores *", dict(data=data, n_rows=rows, n_vocab=width, stride=width))
        calls = (lambda: processors._apply(step, scores), lambda: processors._apply(copying, scores), lambda: processors._test(step, stops))
        turns = [[cpu_seconds(call, repeats) for call in calls] for _ in range(options.turns * 20)]
        found = [min(turn[i] for turn in turns) * 1e6 for i in range(len(calls))]
        print(f"callback   {kind:5s} {rows} rows of {width}: processor {found[0]:.1f} us, of copies {found[1]:.1f} us, criterion {found[2]:.1f} us")


def cpu_seconds(call, repeats):
    began = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - began) / repeats


def imported(options):
    """import cadenza, in processes of its own; and that it brings no other package."""
    code = "import time; b = time.perf_counter(); import cadenza; print(time.perf_counter() - b)"
    times = [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) for _ in range(options.turns)]
    code = "import sys, cadenza; print([n for n in ('numpy', 'torch', 'transformers') if n in sys.modules])"
    brought = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    print(f"import     {middle(times) * 1e3:.1f} ms (least {min(times) * 1e3:.1f}); other packages: {brought}")


def transformers(options):
    """New tokens a second of one sequence and of 32, float32, transformers by eager and sdpa."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import torch
    import transformers as hf

    ours = opened(options)
    torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
    for attention in ("eager", "sdpa"):
        theirs = hf.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32, attn_implementation=attention)
        for rows in (1, 32):
            ids = torch.tensor([PROMPT] * rows)
            mask = torch.ones_like(ids)
            kwargs = dict(attention_mask=mask, do_sample=False, max_new_tokens=options.tokens, eos_token_id=None, pad_token_id=0)
            assert (theirs.generate(ids, **kwargs) == ours.generate(ids, **kwargs)).all() or rows > 1 or options.loose, "other tokens"
            found = in_turns(options.turns, lambda: theirs.generate(ids, **kwargs), lambda: ours.generate(ids, **kwargs))
            rate = [rows * options.tokens / middle([turn[i] for turn in found]) for i in (0, 1)]
            ratio = middle([a / b for a, b in found])
            print(f"beside     {attention:5s} {rows:2d} rows: transformers {rate[0]:8.1f} tokens/s, here {rate[1]:8.1f}, {ratio:.1f} times")


def lm_eval(options):
    """Log-likelihoods and texts by lm-eval's interface, beside its own model of transformers: the same requests."""
    import lm_eval.models  # noqa: F401
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import get_model

    import cadenza.lm_eval  # noqa: F401

    models = [get_model("hf")(pretrained=str(options.model), dtype="float32", device="cpu", batch_size=16), get_model("cadenza")(pretrained=str(options.model))]
    words = "river dog tree house king stone horse bread".split()
    choices = [" a large natural stream of water", " a member of the genus Canis", " a kind of building", " a male sovereign"]
    rate = [Instance("loglikelihood", {}, (f"{word} (noun):", choice), i) for i, (word, choice) in enumerate((w, c) for w in words for c in choices)]
    write = [Instance("generate_until", {}, (f"{word} (noun):", {"until": ["\n\n"], "max_gen_toks": 16, "do_sample": False}), i) for i, word in enumerate(words)]
    for name, asked in (("loglikelihood", rate), ("generate_until", write)):
        calls = [lambda m=model: getattr(m, name)(asked, disable_tqdm=True) for model in models]
        found = in_turns(options.turns, *calls)
        print(f"lm-eval    {name:14s}: hf {middle([a for a, _ in found]):.2f} s, cadenza {middle([b for _, b in found]):.2f} s, {middle([a / b for a, b in found]):.1f} times")


WHAT = {"overhead": overhead, "processor": processor, "callback": callback, "import": imported, "transformers": transformers, "lm_eval": lm_eval}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", type=lambda text: text.split(","), default=["overhead", "processor", "import"],
                        metavar="NAME,...", help="of " + ", ".join(WHAT))  # fmt: skip
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "pocket-dictionary")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cpu", action="store_true", help="count processor time: on a busy machine, with --threads 1")
    parser.add_argument("--pin", type=int, metavar="CPU", help="run on this processor alone")
    parser.add_argument("--loose", action="store_true", help="models with random weights: near ties may go the other way")
    options = parser.parse_args()
    unknown = [name for name in options.what if name not in WHAT]
    if unknown:
        parser.error(f"no {', '.join(unknown)}: expected {', '.join(WHAT)}")
    if options.turns < 1 or options.tokens < 1:
        parser.error("--turns and --tokens: expected at least 1")
    if options.cpu:
        global clock
        clock = time.process_time
    if options.pin is not None:
        os.sched_setaffinity(0, {options.pin})
    for name in options.what:
        WHAT[name](options)


if __name__ == "__main__":
    main()
