"""What the fuzzer says of cases, a line each: judge_case.py CADENZA FILE... FILE: {"description": the
model's, "case": the request, "says": what is expected here}."""
from __future__ import annotations

import json
import sys
import tempfile

import cadenza
import models
from batch import Setup, classify, judge_folder
from reference import Reference


def judge(program: str, path: str) -> str:
    with open(path) as f:
        given = json.load(f)
    description, case = given["description"], given["case"]
    with tempfile.TemporaryDirectory() as folder:
        models.build(description, folder)
        reference, setup = Reference(folder, description), Setup(program, folder)
        answer = reference.answer(case)
        verdict = judge_folder(setup, folder, [(case, answer)])
        if verdict == cadenza.Verdict(passed=1):
            return "same"
        judged = classify(setup, folder, description, reference, case, answer, verdict.failed[case["id"]], False)
        return f"{judged.what}: {judged.why}"


for name in sys.argv[2:]:
    print(judge(sys.argv[1], name))
