"""What the fuzzer says of one case: judge_case.py CADENZA FILE. FILE: {"description": the
model's, "case": the request, "says": what is expected here}."""
from __future__ import annotations

import json
import sys
import tempfile

import cadenza
import models
from batch import Setup, classify, judge_folder
from reference import Reference


def main(program: str, path: str) -> None:
    with open(path) as f:
        given = json.load(f)
    description, case = given["description"], given["case"]
    with tempfile.TemporaryDirectory() as folder:
        models.build(description, folder)
        reference, setup = Reference(folder, description), Setup(program, folder)
        answer = reference.answer(case)
        verdict = judge_folder(setup, folder, [(case, answer)])
        if verdict == cadenza.Verdict(passed=1):
            print("same")
            return
        judged = classify(setup, folder, description, reference, case, answer, verdict.failed[case["id"]], False)
        print(f"{judged.what}: {judged.why}")


main(*sys.argv[1:])
