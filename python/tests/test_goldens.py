"""Every recorded answer of transformers 5.3.0 (tests/golden), through generate(): tokens, beams and rounds exactly, floats by the
tolerance of tests/golden/README.md. Nothing here needs torch."""

import functools
import json
import math
import pathlib
import struct

import numpy
import pytest

import cadenza
from conftest import GOLDEN

FOLDERS = sorted(path.parent.name for path in GOLDEN.glob("*/cases.json"))
UNSUPPORTED = [line for line in (GOLDEN / "unsupported.txt").read_text().splitlines() if line and not line.startswith("#")]
# Answers of constrained beams, group beams and the like come from an older release, with the reference's own defects.
TENSORS = {"F32": numpy.float32, "I64": numpy.int64}


@functools.lru_cache(maxsize=4)
def tensors(path):
    """Those of a .safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    made = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        made[name] = numpy.frombuffer(data[8 + length + first : 8 + length + end], TENSORS[entry["dtype"]]).reshape(entry["shape"])
    return made


@functools.lru_cache(maxsize=None)
def opened(name):
    return cadenza.Model.from_pretrained(GOLDEN / name)


def allowed(spec):
    """prefix_allowed_tokens_fn of a recorded cycle."""

    def function(row, ids):
        cycle = spec["batch_cycles"][row] if "batch_cycles" in spec else spec["cycle"]
        return cycle[len(ids) % len(cycle)]

    return function


def watermark(given):
    given = dict(given)
    kind = given.pop("type", None)
    return cadenza.SynthIDTextWatermarkingConfig(**given) if kind == "synthid" else cadenza.WatermarkingConfig(**given)


def number(value):
    return float(value) if isinstance(value, str) else value


def close(got, want):
    got, want = float(got), number(want)
    if math.isnan(want):
        return math.isnan(got)
    return got == want or abs(got - want) <= 1e-4 + 1e-4 * abs(want)


class Case:
    """One recorded case: its calls are run, and what came is compared."""

    def __init__(self, folder, case):
        self.folder, self.case, self.model = folder, case, opened(folder)
        self.assistant = None
        record = case.get("record", {})
        self.scores = "scores" in case["expect"] or record.get("transition") or record.get("normalized")

    def given(self, call):
        kwargs = dict(call["kwargs"])
        if "prefix_allowed_tokens" in kwargs:
            kwargs["prefix_allowed_tokens_fn"] = allowed(kwargs.pop("prefix_allowed_tokens"))
        if kwargs.get("watermarking_config") is not None:
            kwargs["watermarking_config"] = watermark(kwargs["watermarking_config"])
        if "stop_strings" in kwargs or kwargs.get("token_healing"):
            kwargs["tokenizer"] = cadenza.Tokenizer(self.model)
        if "seed" in call:
            kwargs["seed"] = call["seed"]
        kwargs.update(quirks=True, return_dict_in_generate=True, output_scores=bool(self.scores))
        return kwargs

    def draft(self, kwargs):
        given = self.case.get("assistant")
        if given is None:
            return
        if self.assistant is None:
            self.assistant = cadenza.Model.from_pretrained(GOLDEN / given["model"])
            for name, value in given["generation_config"].items():
                setattr(self.assistant.generation_config, name, value)
        kwargs["assistant_model"] = self.assistant
        if "tokenizer" in given:
            kwargs.update(tokenizer=cadenza.Tokenizer(self.model), assistant_tokenizer=cadenza.Tokenizer(self.assistant))

    def run(self):
        case = self.case
        if case["mode"] == "logits":
            return self.forward()
        kwargs = self.given(case)
        if case.get("attention_mask") is not None:
            kwargs["attention_mask"] = case["attention_mask"]
        if "inputs_embeds" in case:
            kwargs["inputs_embeds"] = tensors(GOLDEN / self.folder / "inputs.safetensors")[case["inputs_embeds"]]
        self.draft(kwargs)
        out = self.model.generate(case["prompt_ids"], **kwargs)
        self.compare(out, case["expect"])
        for call, want in zip(case.get("calls", []), case["expect"].get("calls", [])):
            kwargs = self.given(call)
            self.draft(kwargs)
            ids = call.get("prompt_ids")
            if "append_ids" in call:
                ids = [row + more for row, more in zip(numpy.asarray(out.sequences).tolist(), call["append_ids"])]
                kwargs.update(past_key_values=out.past_key_values, attention_mask=[[1] * len(row) for row in ids])
            out = self.model.generate(ids, **kwargs)
            self.compare(out, want)

    def forward(self):
        ids, kwargs = self.case["prompt_ids"], self.case["kwargs"]
        if kwargs.get("decoder_input_ids"):
            return  # a forward pass here has no encoder
        want = tensors(GOLDEN / self.folder / "logits.safetensors")[self.case["expect"]["tensor"]]
        got = self.model(ids).logits[0]
        assert numpy.asarray(got).argmax(axis=-1).tolist() == self.case["expect"]["argmax"]
        numpy.testing.assert_allclose(got, want.reshape(got.shape), rtol=1e-4, atol=1e-4)

    def compare(self, out, want):
        assert numpy.asarray(out.sequences).tolist() == want["sequences"]
        if want.get("beam_indices") is not None and self.case["mode"] in ("beam", "beam_sample"):
            assert numpy.asarray(out.beam_indices).tolist() == want["beam_indices"]
        if "sequences_scores" in want and self.scores:
            assert all(map(close, out.sequences_scores, want["sequences_scores"]))
        if "num_assistant_tokens" in want:
            assert self.assistant.generation_config.num_assistant_tokens == want["num_assistant_tokens"]
        if "scores" in want:
            self.compare_scores(out, want)
        for name, normalize in (("transition_scores", False), ("transition_scores_normalized", True)):
            if want.get(name) is not None and self.scores and self.case["mode"] in ("greedy", "sample", "beam", "beam_sample"):
                got = self.model.compute_transition_scores(out.sequences, out.scores, out.get("beam_indices"), normalize)
                for row, values in zip(got, want[name]):
                    assert all(close(g, w) for g, w in zip(row, values) if w is not None), name

    def compare_scores(self, out, want):
        scores = want["scores"]
        for step, rows in enumerate(scores.get("top_ids") or ()):
            for row, ids in enumerate(rows or ()):
                for token, value in zip(ids or (), scores["top_vals"][step][row] or ()):
                    assert close(out.scores[step][row][token], value), f"step {step}, row {row}, token {token}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_golden(folder):
    if folder in UNSUPPORTED:
        pytest.skip("a family that this version does not load")
    wrong = []
    for case in json.loads((GOLDEN / folder / "cases.json").read_text()):
        if case.get("optional"):
            continue
        try:
            Case(folder, case).run()
        except Exception as error:
            wrong.append(f"{case['id']}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, f"{len(wrong)} of {folder}:\n" + "\n".join(wrong[:20])
