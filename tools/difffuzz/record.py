"""Recorded cases for the tests: small models of every family, cases that agree and whose every decision is far from any other."""
from __future__ import annotations

import os
import random
import shutil

import models
from batch import Setup, Tally, answer_all, judge_folder
from families import FAMILIES, Json, draw_model
from reference import Reference, write_folder

MARGIN = 2e-3      # as in tests/golden
TENSOR_BYTES = 24 << 10  # of a case's outputs
DRAWN = 26         # cases of a model to choose from


def _bytes(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(base, f)) for base, _, files in os.walk(folder) for f in files)


def _small_model(family: str, number: int, seed: int, folder: str) -> tuple[random.Random, Json]:
    """The smallest of twelve that can be built."""
    drawn = []
    for attempt in range(12):
        description = draw_model(random.Random(f"record/{seed}/{family}/{number}/{attempt}"), (family,))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            models.build(description, folder)
        except Exception:
            continue
        drawn.append((_bytes(folder), attempt, description))
    _, attempt, description = min(drawn, key=lambda d: d[:2])
    shutil.rmtree(folder, ignore_errors=True)
    models.build(description, folder)
    return random.Random(f"record/{seed}/{family}/{number}/cases"), description


def _record_model(program: str, out: str, family: str, number: int, wanted: int, seed: int) -> int:
    folder = os.path.join(out, f"{family}_{number}")
    rng, description = _small_model(family, number, seed, folder)
    reference = Reference(folder, description)
    answered = [(c, a) for c, a in answer_all(rng, reference, DRAWN, Tally())
                if sum(t.nbytes for t in a.tensors.values()) <= TENSOR_BYTES]
    verdict = judge_folder(Setup(program, out), folder, answered)
    if verdict.folder is not None:
        shutil.rmtree(folder)
        return 0
    kept = []
    for case, answer in answered:
        if len(kept) == wanted or case["id"] in verdict.failed or case["id"] in verdict.unsupported:
            continue
        close = reference.closeness(case, answer, reruns=1, floats=False)
        if close.nearest >= MARGIN and close.too_close(None) is None:
            kept.append((case, answer))
    for case, _ in kept:
        case["id"] = f"{family}_{number}/{case['id'][2:]}"
    write_folder(os.path.join(folder, "m"), kept)
    os.remove(os.path.join(folder, "description.json"))
    return len(kept)


def record(program: str, out: str, n: int, seed: int, families: tuple[str, ...] = ()) -> int:
    """Writes n cases, spread over two models or more of each family; of families that are named, over one or more."""
    made, number = 0, 0
    each = -(-n // len(families or 2 * tuple(FAMILIES)))
    while made < n:
        for family in families or FAMILIES:
            got = _record_model(os.path.abspath(program), out, family, number, min(each, n - made), seed)
            made += got
            print(f"{family}_{number}: {got} cases, {made} of {n}", flush=True)
            if made >= n:
                break
        number += 1
    return 0
