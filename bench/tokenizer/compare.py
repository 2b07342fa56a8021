#!/usr/bin/env python3
"""Cadenza's tokenizer beside the `tokenizers` library, on one thread, in one run: compare.py BENCH_TOKENIZER FOLDER [JSON]

The library is asked without offsets (encode_batch_fast on lists of one document), the faster of its two ways. Without
the library its column says so. Exits with 1 where the two do not give the same ids.
"""
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import results  # noqa: E402

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROUNDS, DOCUMENT = 3, 8192


def documents(data):
    at = 0
    while at < len(data):
        end = len(data)
        if end - at > DOCUMENT:
            line = data.find(b"\n", at + DOCUMENT)
            end = line + 1 if line >= 0 else end
        yield data[at:end].decode()
        at = end


def ours(program, folder):
    out = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout
    return {k: float(v) for k, v in (line.split() for line in out.splitlines())}


def median_time(rounds, work):
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        took.append(time.perf_counter() - start)
    return statistics.median(took), result


def theirs(folder):
    from tokenizers import Tokenizer
    load, tok = median_time(ROUNDS, lambda: Tokenizer.from_file(folder + "/tokenizer.json"))
    with open(folder + "/text.txt", "rb") as f:
        data = f.read()
    texts = list(documents(data))

    def encode():
        return [tok.encode_batch_fast([t], add_special_tokens=False)[0] for t in texts]

    speeds = []
    for _ in range(2):  # the second finds its cache filled
        took, encodings = median_time(1, encode)
        speeds.append(len(data) * 1e-6 / took)
    total, n = 1, 0
    for e in encodings:
        n += len(e.ids)
        for i in e.ids:
            total = (total * 31 + i) & 0xFFFFFFFF
    return {"load_ms": load * 1e3, "cold_mb_s": speeds[0], "warm_mb_s": speeds[1], "ids": n, "sum": total}


def rows_of(a, b):
    rows = []
    for key, unit in (("load_ms", "ms to load"), ("cold_mb_s", "MB/s"), ("warm_mb_s", "MB/s, again")):
        for name, found in (("cadenza", a), ("tokenizers", b)):
            if found:
                times = found[key] / a[key] if key == "load_ms" else a[key] / found[key]
                rows.append({"program": name, "unit": unit, **results.spread([found[key]]), "cadenza_is": times})
    return rows


def main():
    program, folder = sys.argv[1:3]
    a = ours(program, folder)
    try:
        b = theirs(folder)
    except ImportError:
        b = None
    names = {"load_ms": "load, ms", "cold_mb_s": "encode, MB/s", "warm_mb_s": "encode again, MB/s"}
    print(f"{'':20} {'Cadenza':>10} {'tokenizers':>11} {'times':>7}")
    for key, name in names.items():
        times = b and (b[key] / a[key] if key == "load_ms" else a[key] / b[key])
        print(f"{name:20} {a[key]:10.1f} " + (f"{b[key]:11.2f} {times:7.1f}" if b else f"{'skipped':>11}"))
    if not b:
        print("tokenizers: skipped, this Python has no such library; set PYTHON to one that has")
    elif (a["ids"], a["sum"]) != (b["ids"], b["sum"]):
        sys.exit(f"the ids differ: {a['ids']:.0f} against {b['ids']}")
    else:
        print(f"the same {b['ids']} ids")
    if len(sys.argv) > 3:
        missing = [] if b else [("tokenizers", "this Python has no such library")]
        results.write(sys.argv[3], "tokenizer", {"threads": 1, "rounds": ROUNDS, "folder": os.path.basename(folder)},
                      rows_of(a, b), missing)


if __name__ == "__main__":
    main()
