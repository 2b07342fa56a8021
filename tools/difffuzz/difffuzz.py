#!/usr/bin/env python3
"""Random models and requests, asked of transformers and of Cadenza; docs/parity.md tells how to use it.

    difffuzz.py [N] [--seed S] [--jobs J]      compare about N fresh cases; goes on where it was stopped
    difffuzz.py --record N --out FOLDER        write N cases that agree, with wide margins, for the tests
    difffuzz.py --show BATCH --seed S          one batch, its finds not made smaller
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def arguments(words: list[str]) -> argparse.Namespace:
    ap = argparse.ArgumentParser(description="Random models and requests, asked of transformers and of Cadenza.")
    ap.add_argument("n", nargs="?", type=int, default=2000, help="cases (2000)")
    ap.add_argument("--seed", type=int, help="of everything drawn; without it the clock's")
    ap.add_argument("--jobs", type=int, default=1, help="processes (1)")
    ap.add_argument("--cadenza", default=os.path.join(ROOT, "build", "bin", "cadenza"), help="the program to test")
    ap.add_argument("--out", default=os.path.join(ROOT, "build", "difffuzz"), help="folder for progress and finds")
    ap.add_argument("--families", default="", help="only these, by commas")
    ap.add_argument("--plant", action="append", default=[], metavar="NAME=JSON",
                    help="Cadenza gets this value where a case has the parameter: a planted wrong answer")
    ap.add_argument("--no-shrink", action="store_true", help="keep finds as they are")
    ap.add_argument("--show", type=int, metavar="BATCH", help="run one batch")
    ap.add_argument("--record", type=int, metavar="N", help="write N cases for the tests into --out")
    return ap.parse_args(words)


def planted(words: list[str]) -> dict[str, Any]:
    return {name: json.loads(value) for name, _, value in (w.partition("=") for w in words)}


def read_progress(path: str) -> dict[int, dict[str, Any]]:
    """Batches that are done, by number. A line that was cut short counts as not done, and so does a batch that has finds: they may
    have been repaired."""
    done: dict[int, dict[str, Any]] = {}
    if not os.path.exists(path):
        return done
    with open(path) as f:
        for line in f:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            done[entry["batch"]] = entry
    return {number: entry for number, entry in done.items() if not entry["finds"]}


class Screen:
    """A line of progress on a terminal; nothing elsewhere."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.begin, self.live = wanted, time.time(), sys.stderr.isatty()

    def update(self, done: int, finds: int) -> None:
        if self.live:
            rate = done / max(time.time() - self.begin, 1e-9)
            print(f"\rdifffuzz: {done} of {self.wanted} cases, {finds} unexplained, {rate:.0f}/s\033[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.live:
            print("\r\033[K", end="", file=sys.stderr)


def summary(tally: Any, seed: int) -> str:
    lines = []
    for title, counter in (("transformers raises", tally.refused), ("within the margins", tally.close), ("listed departures", tally.departures)):
        lines.append(f"{title}: {sum(counter.values())}")
        lines += [f"  {n:6} {reason}" for reason, n in counter.most_common()]
    lines += ["unexplained:"] + [f"  {f}" for f in tally.finds] if tally.finds else []
    lines.append(f"difffuzz: seed {seed}: {tally.compared()} cases compared, {tally.same} the same, "
                 f"{sum(tally.close.values())} within the margins, {sum(tally.departures.values())} by departures, "
                 f"{len(tally.finds)} unexplained")
    return "\n".join(lines)


def fuzz(a: argparse.Namespace) -> int:
    from batch import CASES, Setup, Tally, run_batch
    seed = a.seed if a.seed is not None else int(time.time())
    out = os.path.join(a.out, str(seed))
    setup = Setup(os.path.abspath(a.cadenza), os.path.join(out, "finds"), planted(a.plant), not a.no_shrink,
                  tuple(f for f in a.families.split(",") if f))
    if a.show is not None:
        print(json.dumps(run_batch(setup, seed, a.show), indent=1))
        return 0
    os.makedirs(setup.finds, exist_ok=True)
    print(f"difffuzz: seed {seed}, {a.n} cases, {out}", flush=True)
    tally, progress, screen = Tally(), os.path.join(out, "progress.jsonl"), Screen(a.n)
    done, batches = read_progress(progress), range(-(-a.n // CASES))
    for number in batches:
        if number in done:
            tally.add(done[number])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(a.jobs, mp_context=context) as pool, open(progress, "a") as log:
        running = {pool.submit(run_batch, setup, seed, n): n for n in batches if n not in done}
        try:
            for future in concurrent.futures.as_completed(running):
                entry = future.result()
                log.write(json.dumps({"batch": running[future], **entry}) + "\n")
                log.flush()
                tally.add(entry)
                screen.update(tally.compared() + sum(tally.refused.values()), len(tally.finds))
        except BaseException:
            pool.shutdown(cancel_futures=True)  # waits: a second call, that of "with", would take the cancelling back
            raise
    screen.close()
    print(summary(tally, seed))
    return 1 if tally.finds else 0


def main(words: list[str]) -> int:
    a = arguments(words)
    if not os.access(a.cadenza, os.X_OK):
        print(f"difffuzz: there is no program {a.cadenza}: ./dev build makes it", file=sys.stderr)
        return 2
    if a.record is not None:
        from record import record
        shutil.rmtree(a.out, ignore_errors=True)
        return record(a.cadenza, a.out, a.record, a.seed or 0, tuple(f for f in a.families.split(",") if f))
    return fuzz(a)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
