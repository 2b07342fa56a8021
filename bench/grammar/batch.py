#!/usr/bin/env python3
"""batch.py - what constraints add to the ticks of a batch: the same requests without and with one, in turn, run together.

usage: batch.py CADENZA MODEL [REQUESTS] [TOKENS] [PAIRS]
Each request (64) has a schema of its own, which does not end. Of each run the time of a shorter one is taken off, so that loading and
compiling are not counted: what is left is that of TOKENS (100) ticks. Seconds of the processor are steadier than those of the
clock where others use the machine. Each side is told by its median.
"""
import json
import resource
import statistics
import subprocess
import sys
import time

FEW = 4


def schema(i):
    item = {"type": "object", "additionalProperties": False, "required": [f"name{i}", "age", "tags"],
            "properties": {f"name{i}": {"type": "string", "maxLength": 20},
                           "age": {"type": "integer", "minimum": 0, "maximum": 130},
                           "tags": {"type": "array", "maxItems": 3, "items": {"enum": ["a", "b", f"c{i}"]}}}}
    return {"type": "array", "minItems": 1000, "items": item, "x-guidance": {"whitespace_flexible": False}}


def requests(n, tokens, constrained):
    for i in range(n):
        kwargs = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": 0}
        kwargs |= {"json_schema": schema(i)} if constrained else {"min_new_tokens": tokens}
        yield json.dumps({"prompt": f"river {i}", "kwargs": kwargs})


def run(cadenza, model, n, tokens, constrained):
    """Seconds of the processor and of the clock."""
    lines = "\n".join(requests(n, tokens, constrained)).encode()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([cadenza, "run", "--model", model, "--input", "-"], input=lines, capture_output=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    if done.returncode or done.stdout.count(b"\n") != n:
        sys.exit(f"batch.py: {done.stderr.decode().strip() or 'answers are missing'}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - began


def tick(cadenza, model, n, tokens, constrained):
    long, short = (run(cadenza, model, n, t, constrained) for t in (tokens + FEW, FEW))
    return [1000 * (a - b) / tokens for a, b in zip(long, short)]


def main():
    cadenza, model = sys.argv[1:3]
    n, tokens, pairs = (int(v) for v in (sys.argv[3:] + ["64", "100", "3"][len(sys.argv) - 3:])[:3])
    times = {False: [], True: []}
    for _ in range(pairs):
        for constrained in times:
            times[constrained].append(tick(cadenza, model, n, tokens, constrained))
    for k, name in enumerate(("processor", "clock")):
        free, bound = (statistics.median(t[k] for t in times[c]) for c in (False, True))
        print(f"{name:10} a tick of {n}: {free:8.2f} ms free, {bound:8.2f} ms constrained, {100 * (bound / free - 1):+.1f} %")


if __name__ == "__main__":
    main()
