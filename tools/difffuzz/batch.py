"""A batch: one model, its draft, some requests; both programs' answers; what is left of the differences."""
from __future__ import annotations

import collections
import json
import os
import random
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

import cadenza
import models
from cases import draw_case
from departures import LISTED, Difference, explain
from families import draw_model
from reference import Answer, Reference, Refused, write_folder
from shrink import Pair, shrink
from standins import STANDINS, compared, recorded, standing_in, tensors_of

Json = dict[str, Any]
CASES = 25  # of a model


@dataclass
class Setup:
    """What every batch is told."""
    program: str
    finds: str                    # folder for golden folders of what was found
    plant: Json = field(default_factory=dict)  # keyword arguments that Cadenza alone gets otherwise: a planted wrong answer
    shrink: bool = True
    families: tuple[str, ...] = ()


@dataclass
class Tally:
    """What became of a batch's cases; counters by reason."""
    same: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    close: collections.Counter[str] = field(default_factory=collections.Counter)
    departures: collections.Counter[str] = field(default_factory=collections.Counter)
    finds: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        return {"same": self.same, "refused": dict(self.refused), "close": dict(self.close), "departures": dict(self.departures),
                "finds": self.finds}

    def add(self, other: Json) -> None:
        self.same += other["same"]
        for name in ("refused", "close", "departures"):
            getattr(self, name).update(other[name])
        self.finds += other["finds"]

    def compared(self) -> int:
        """Cases whose answers were held against each other: refused ones are none."""
        return self.same + sum(self.close.values()) + sum(self.departures.values()) + len(self.finds)


def _planted(case: Json, plant: Json) -> Json:
    return {**case, "kwargs": {k: plant.get(k, v) for k, v in case["kwargs"].items()}}


def judge_folder(setup: Setup, folder: str, answered: list[tuple[Json, Answer]]) -> cadenza.Verdict:
    write_folder(os.path.join(folder, "m"), [(_planted(c, setup.plant), a) for c, a in answered])
    return cadenza.judge(setup.program, os.path.join(folder, "m"))


def _sentences(verdict: cadenza.Verdict, answered: list[tuple[Json, Answer]]) -> dict[str, tuple[str, bool]]:
    """Of each case that is not the same: the sentence, and whether it is one of "unsupported". All others must have passed."""
    if verdict.folder is not None:
        return {c["id"]: (verdict.folder, True) for c, _ in answered}
    if verdict.passed + len(verdict.failed) + len(verdict.unsupported) != len(answered):
        raise RuntimeError(f"parity counts {verdict.passed} passed, {len(verdict.failed)} failed and {len(verdict.unsupported)} unsupported "
                           f"cases; it was given {len(answered)}")
    return {**{k: (s, False) for k, s in verdict.failed.items()}, **{k: (s, True) for k, s in verdict.unsupported.items()}}


class Shower:
    """Says of changed pairs whether they still show the difference."""

    def __init__(self, setup: Setup, work: str) -> None:
        self.setup, self.work = setup, work

    def shows(self, pairs: list[Pair]) -> list[bool]:
        groups: dict[str, list[int]] = {}
        for i, (description, _) in enumerate(pairs):
            groups.setdefault(json.dumps(description, sort_keys=True), []).append(i)
        result = [False] * len(pairs)
        for key, members in groups.items():
            for i in self._group(json.loads(key), [(i, pairs[i][1]) for i in members]):
                result[i] = True
        return result

    def _group(self, description: Json, members: list[tuple[int, Json]]) -> list[int]:
        folder = tempfile.mkdtemp(dir=self.work)
        try:
            models.build(description, folder)
            reference = Reference(folder, description)
        except Exception:
            return []
        answered = []
        for i, case in members:
            try:
                own = {**case, "id": f"m/{i:04}"}
                answered.append((own, reference.answer(own)))
            except Refused:
                continue
        sentences = _sentences(judge_folder(self.setup, folder, answered), answered) if answered else {}
        still = [int(c["id"][2:]) for c, a in answered if c["id"] in sentences
                 and classify(self.setup, folder, description, reference, c, a, *sentences[c["id"]]).what == "find"]
        shutil.rmtree(folder)
        return still


@dataclass
class Judged:
    """What a difference is: "departures" | "close" | "find"; the name of the row, the reason, or the sentence; the answer that
    Cadenza was held against, which is the stand-ins' where the case has some."""
    what: str
    why: str
    answer: Answer


def _rows(case: Json, description: Json, answer: Answer, sentence: str, unsupported: bool, known: list[str]) -> list[str]:
    """The rows a difference falls under, with those that are known already; in the order of the list."""
    holding = explain(Difference(case, description, sentence, unsupported, answer.expect))
    return [row for row in LISTED if row in holding or row in known]


def classify(setup: Setup, folder: str, description: Json, reference: Reference, case: Json, answer: Answer, sentence: str,
             unsupported: bool) -> Judged:
    """A stand-in's answer may differ in its turn, by a row that the first difference hid: then all rows' stand-ins are asked."""
    plain = answer
    known: list[str] = []
    while (rows := _rows(case, description, answer, sentence, unsupported, known)) != known:
        alone = [row for row in rows if row not in STANDINS]
        if alone:
            return Judged("departures", alone[0], answer)
        if unsupported or sentence.startswith("crash"):
            return Judged("find", sentence, answer)
        known = rows
        try:
            with standing_in(rows, case, description) as instead:
                answer = instead_of(rows, case, reference.answer(instead), plain)
        except Refused:  # as a lookup without an end-of-sequence token, which raises once something is found
            return Judged("departures", "refused when asked: " + " + ".join(rows), answer)
        pair = (recorded(rows, case), answer)
        said = _sentences(judge_folder(setup, folder, [pair]), [pair])
        if not said:
            return Judged("departures", "checked: " + " + ".join(rows), answer)
        sentence, unsupported = said[case["id"]]
    return _unexplained(description, reference, case, answer, sentence, unsupported, known)


def _unexplained(description: Json, reference: Reference, case: Json, answer: Answer, sentence: str, unsupported: bool,
                 rows: list[str]) -> Judged:
    """A difference that no row explains: within the margins, or a find. Tokens are compared before tensors: where they are the
    same, no rounding makes a tensor come or go."""
    of_form = re.search(r"^outputs|no such tensor|no tensors", sentence)
    if not unsupported and not sentence.startswith("crash") and not of_form:
        with standing_in(rows, case, description) as instead:
            gap = cadenza.float_gap(sentence)
            why_not = reference.closeness(instead, answer).too_close(gap)
            if not why_not and gap is not None and reference.is_rest(instead, answer, sentence, gap):
                why_not = "what SynthID's sum left of 1"
        if why_not:
            return Judged("close", why_not, answer)
    return Judged("find", f"{sentence} (asked in the way of: {' + '.join(rows)})" if rows else sentence, answer)


def instead_of(rows: list[str], case: Json, answer: Answer, was: Answer) -> Answer:
    """The stand-in's answer in the case's own form."""
    expect = compared(rows, answer.expect)
    outputs = tensors_of(rows, answer.tensors) if "outputs" in expect else {}
    given = {k: t for k, t in was.tensors.items() if k.startswith("input:")}
    return Answer(expect, {**outputs, **given})


def _keep(setup: Setup, work: str, name: str, pair: Pair) -> str:
    """Writes the golden folder of a find, made smaller first; its answer is the one that Cadenza was held against."""
    shower = Shower(setup, work)
    small = shrink(pair, shower.shows) if setup.shrink else pair
    folder = os.path.join(setup.finds, name)
    shutil.rmtree(folder, ignore_errors=True)
    models.build(small[0], folder)
    reference = Reference(folder, small[0])
    answer, said = reference.answer(small[1]), "the same when run alone"
    sentences = _sentences(judge_folder(setup, folder, [(small[1], answer)]), [(small[1], answer)])
    if sentences:
        judged = classify(setup, folder, small[0], reference, small[1], answer, *sentences[small[1]["id"]])
        answer, said = judged.answer, judged.why
    write_folder(os.path.join(folder, "m"), [(small[1], answer)])
    with open(os.path.join(folder, "sentence"), "w") as f:
        f.write(said + "\n")
    return said


def open_batch(seed: int, number: int, folder: str, families: tuple[str, ...] = ()) -> tuple[random.Random, Json, Reference]:
    """The batch's model; one that transformers itself cannot build is drawn anew."""
    for attempt in range(20):
        rng = random.Random(f"{seed}/{number}/{attempt}")
        description = draw_model(rng, families) if families else draw_model(rng)
        try:
            models.build(description, folder)
            return rng, description, Reference(folder, description)
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
    raise RuntimeError(f"no model of batch {number} of seed {seed} can be built")


def answer_all(rng: random.Random, reference: Reference, n: int, tally: Tally) -> list[tuple[Json, Answer]]:
    shape, answered = reference.shape(), []
    for i in range(n):
        case = draw_case(rng, shape, i)
        try:
            answered.append((case, reference.answer(case)))
        except Refused as why:
            tally.refused[str(why)] += 1
    return answered


def run_batch(setup: Setup, seed: int, number: int, n: int = CASES) -> Json:
    """Makes and judges a batch; returns what a tally has, as JSON."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="difffuzz-") as work:
        rng, description, reference = open_batch(seed, number, os.path.join(work, "batch"), setup.families)
        answered = answer_all(rng, reference, n, tally)
        verdict = judge_folder(setup, os.path.join(work, "batch"), answered)
        sentences = _sentences(verdict, answered)
        together = _sentences(cadenza.judge(setup.program, os.path.join(work, "batch", "m"), "--batch", "all"), answered)
        for case, answer in answered:
            name = f"{seed}-{number}-{case['id'][2:]}"
            if together.get(case["id"]) != sentences.get(case["id"]):  # on a CPU no bit of an answer depends on the company
                tally.finds.append(f"{name} ({description['family']}): in company: {together.get(case['id'], ('the same', False))[0]}")
                continue
            if case["id"] not in sentences:
                tally.same += 1
                continue
            judged = classify(setup, os.path.join(work, "batch"), description, reference, case, answer, *sentences[case["id"]])
            if judged.what != "find":
                getattr(tally, judged.what)[judged.why] += 1
                continue
            said = _keep(setup, work, name, (description, case))
            tally.finds.append(f"{name} ({description['family']}): {judged.why}" + (f"; made smaller: {said}" if said != judged.why else ""))
    return tally.to_json()
