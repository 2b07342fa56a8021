"""The difference fuzzer's own logic. What needs the reference runs where DIFFFUZZ_PYTHON names a Python that has it."""
from __future__ import annotations

import copy
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

import cadenza
import departures
import difffuzz
from cases import Shape, draw_case
from families import FAMILIES, draw_model
from shrink import candidates, shrink

Json = dict[str, Any]
HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "..", "..", "..", "tools", "difffuzz", "difffuzz.py")
SHAPE = Shape("llama", 48, 16, 2, 0, 2, tuple("abcdef"), lambda text: [5] * max(1, len(text) // 3))


def drawn(n: int, shape: Shape = SHAPE, seed: int = 1) -> list[Json]:
    return [draw_case(random.Random(f"{seed}/{i}"), shape, i) for i in range(n)]


class Drawing(unittest.TestCase):
    def test_a_seed_fixes_the_cases_and_the_models(self) -> None:
        self.assertEqual(drawn(50), drawn(50))
        self.assertNotEqual(drawn(50), drawn(50, seed=2))
        self.assertEqual(draw_model(random.Random(3)), draw_model(random.Random(3)))

    def test_every_mode_processor_and_family_is_drawn(self) -> None:
        cases = drawn(1500)
        self.assertEqual({c["mode"] for c in cases}, {"greedy", "sample", "beam", "beam_sample", "assisted", "prompt_lookup"})
        names = {name for c in cases for name in c["kwargs"]}
        for name in ("repetition_penalty", "encoder_no_repeat_ngram_size", "watermarking_config", "guidance_scale", "stop_strings", "top_h",
                     "prefix_allowed_tokens", "token_healing", "prefill_chunk_size", "assistant_early_exit", "output_attentions"):
            self.assertIn(name, names)
        self.assertTrue(any("calls" in c for c in cases) and any("inputs_embeds" in c for c in cases))
        self.assertTrue(any(c.get("attention_mask") and 0 in c["attention_mask"][0] for c in cases))
        families = {draw_model(random.Random(i))["family"] for i in range(1500)}
        self.assertEqual(families, set(FAMILIES))

    def test_cases_are_json_with_fresh_seeds_for_every_sampled_call(self) -> None:
        for case in drawn(500):
            self.assertEqual(case, json.loads(json.dumps(case)))
            if case["kwargs"].get("do_sample") or case["kwargs"].get("token_healing"):
                self.assertTrue(all("seed" in c for c in [case, *case.get("calls", [])]))


def planted(case: Json) -> bool:
    """A fault that two parameters make together, for prompts of more than two tokens."""
    kw = case["kwargs"]
    return "top_k" in kw and "repetition_penalty" in kw and len((case["prompt_ids"] or [[]])[0]) > 2


class Shrinking(unittest.TestCase):
    def test_a_planted_fault_is_made_as_small_as_it_goes(self) -> None:
        case = next(c for c in drawn(20000) if planted(c) and len(c["kwargs"]) > 6 and len(c["prompt_ids"]) > 1)
        model = draw_model(random.Random(5), ("qwen3",))
        small = shrink((model, case), lambda pairs: [planted(c) for _, c in pairs])[1]
        self.assertTrue(planted(small))
        self.assertEqual(set(small["kwargs"]), {"top_k", "repetition_penalty", "max_new_tokens"} & set(small["kwargs"]) | {"top_k", "repetition_penalty"})
        self.assertEqual([len(r) for r in small["prompt_ids"]], [3])
        self.assertNotIn("calls", small)

    def test_candidates_leave_the_original_alone(self) -> None:
        for case in drawn(100):
            pair = (draw_model(random.Random(7)), case)
            before = copy.deepcopy(pair)
            for _, other in candidates(pair):
                mask, rows = other.get("attention_mask"), other["prompt_ids"]
                if isinstance(mask, list) and rows:
                    self.assertEqual([len(r) for r in mask], [len(r) for r in rows])
            self.assertEqual(pair, before)


class Judging(unittest.TestCase):
    def test_what_parity_prints_is_read(self) -> None:
        verdict = cadenza.parse("head\nFAILED m/0001: sequences[0][1]: expected 3, got 4\nunsupported m/0002: no\nx 1 1 1 0\n")
        self.assertEqual(verdict.failed, {"m/0001": "sequences[0][1]: expected 3, got 4"})
        self.assertEqual(verdict.unsupported, {"m/0002": "no"})
        self.assertEqual(cadenza.parse("unsupported a model of 3 layers\n").folder, "a model of 3 layers")

    def test_only_floats_have_a_gap(self) -> None:
        self.assertAlmostEqual(cadenza.float_gap("scores.chosen[0][0]: expected 1.5, got 1.0") or 0, 0.2)
        self.assertIsNone(cadenza.float_gap("sequences[0][1]: expected 3, got 4"))
        self.assertIsNone(cadenza.float_gap("rounds: expected 2 items, got 3"))

    def test_a_recorded_case_with_one_parameter_changed_is_a_difference(self) -> None:
        program = os.environ["CADENZA"]
        cases_root = os.path.join(HERE, "cases")
        for name in sorted(os.listdir(cases_root)):
            with open(os.path.join(cases_root, name, "m", "cases.json")) as f:
                cases = [c for c in json.load(f) if "repetition_penalty" in c["kwargs"] and c["expect"].get("scores", {}).get("chosen")]
            if cases:
                break
        with tempfile.TemporaryDirectory() as work:
            folder = shutil.copytree(os.path.join(cases_root, name), os.path.join(work, name))
            for c in cases:
                c["kwargs"]["repetition_penalty"] = 9.0
            with open(os.path.join(folder, "m", "cases.json"), "w") as f:
                json.dump(cases, f)
            verdict = cadenza.judge(program, os.path.join(folder, "m"))
        self.assertTrue(verdict.failed)

    def test_departures_hold_where_they_say_and_nowhere_else(self) -> None:
        model = draw_model(random.Random(1), ("llama",))
        plain = {"kwargs": {}, "prompt_ids": [[5, 6]], "attention_mask": [[1, 1]]}
        self.assertEqual(departures.explain(departures.Difference(plain, model, "sequences[0][1]: expected 3, got 4")), [])
        ends = {**plain, "attention_mask": [[1, 0]]}
        said = "prompt row 0 ends in a masked position; pad decoder-only prompts on the left"
        self.assertEqual(departures.explain(departures.Difference(ends, model, said)), ["prompt row that ends in a masked position"])
        self.assertEqual(departures.explain(departures.Difference(plain, model, said)), [])

    def test_every_listed_name_stands_in_the_page(self) -> None:
        with open(os.path.join(HERE, "..", "..", "..", "docs", "departures.md")) as f:
            page = f.read().replace("`", "")
        for name in departures.LISTED:
            self.assertIn("| " + name.split(":")[0], page)


class Progress(unittest.TestCase):
    def test_cut_lines_and_batches_with_finds_are_done_again(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "progress.jsonl")
            with open(path, "w") as f:
                f.write('{"batch": 0, "finds": []}\n{"batch": 1, "finds": ["x"]}\n{"batch": 2, "fin')
            self.assertEqual(list(difffuzz.read_progress(path)), [0])


@unittest.skipUnless(os.environ.get("DIFFFUZZ_PYTHON"), "no Python with the reference")
class WithTheReference(unittest.TestCase):
    def test_a_planted_wrong_answer_is_found_and_made_small(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            done = subprocess.run([os.environ["DIFFFUZZ_PYTHON"], TOOL, "25", "--seed", "11", "--families", "qwen3", "--out", work,
                                   "--cadenza", os.environ["CADENZA"], "--plant", "repetition_penalty=9.0", "--plant",
                                   "no_repeat_ngram_size=1"], capture_output=True, text=True)
            finds = os.path.join(work, "11", "finds")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            for name in os.listdir(finds):
                with open(os.path.join(finds, name, "m", "cases.json")) as f:
                    case = json.load(f)[0]
                self.assertTrue({"repetition_penalty", "no_repeat_ngram_size"} & set(case["kwargs"]))
                self.assertLessEqual(len(case["kwargs"]), 5)
                self.assertTrue(os.path.exists(os.path.join(finds, name, "m", "model.safetensors")))

    def test_cases_that_were_judged_wrongly_are_judged_right(self) -> None:
        paths = [os.path.join(HERE, "judged", name) for name in sorted(os.listdir(os.path.join(HERE, "judged")))]
        says = []
        for path in paths:
            with open(path) as f:
                says.append(json.load(f)["says"])
        done = subprocess.run([os.environ["DIFFFUZZ_PYTHON"], os.path.join(HERE, "judge_case.py"), os.environ["CADENZA"], *paths],
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines(), says, done.stderr)


if __name__ == "__main__":
    unittest.main()
