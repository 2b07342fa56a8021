"""What `cadenza parity` says of a folder of cases."""
from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field

ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
PATIENCE = 600  # seconds for a folder
_GAP = re.compile(r"expected (-?[0-9.]+(?:e[-+]?[0-9]+)?), got (-?[0-9.]+(?:e[-+]?[0-9]+)?)$")


@dataclass
class Verdict:
    """By case id: a sentence for each that failed or is not supported; how many passed. folder: why nothing ran; crashed: how it ended."""
    failed: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    folder: str | None = None
    crashed: str | None = None


def float_gap(sentence: str) -> float | None:
    """The distance of the two floats that a sentence of parity names, in parity's unit; None: others than floats differ."""
    found = _GAP.search(sentence)
    if not found or not ("." in found[1] or "e" in found[1]) or sentence.startswith("sequences["):
        return None
    want, got = float(found[1]), float(found[2])
    return abs(want - got) / (1 + abs(want))


def parse(text: str) -> Verdict:
    """The lines that parity -v prints."""
    verdict = Verdict()
    for line in text.splitlines():
        case = re.match(r"(FAILED|unsupported) ([^\s/]+/\d{4}): (.*)", line)
        row = re.match(r"\S.* +(\d+) +(\d+) +(\d+) +(\d+)$", line)
        if row:
            verdict.passed = int(row[1])
        elif case:
            (verdict.failed if case[1] == "FAILED" else verdict.unsupported)[case[2]] = case[3]
        elif line.startswith("unsupported "):
            verdict.folder = line.removeprefix("unsupported ")
    return verdict


def _parity(program: str, folder: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [program, "parity", folder, "--optional", "-v", "--threads", "1", *more]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, env={**os.environ, **ENVIRONMENT})


def judge(program: str, folder: str, *more: str) -> Verdict:
    """Replays a folder; where the program ends by a signal, each case alone, to find which."""
    done = _parity(program, folder, *more)
    verdict = parse(done.stdout)
    if done.returncode in (0, 1):
        if done.returncode == 1 and not (verdict.failed or verdict.unsupported or verdict.folder):
            verdict.folder = (done.stderr or done.stdout).strip()[-300:]
        return verdict
    verdict = Verdict(crashed=f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    with open(os.path.join(folder, "cases.json")) as f:
        ids = [c["id"] for c in json.load(f)]
    for name in ids:
        alone = _parity(program, folder, "--case", name)  # ids are of one width: none is part of another
        if alone.returncode in (0, 1):
            one = parse(alone.stdout)
            verdict.passed += one.passed
            verdict.failed.update(one.failed)
            verdict.unsupported.update(one.unsupported)
        else:
            verdict.failed[name] = f"crash: exit status {alone.returncode}: {alone.stderr.strip()[-200:]}"
    return verdict
