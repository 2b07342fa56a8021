"""What transformers answers, and how near each of its decisions was to going the other way."""
from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
from dataclasses import dataclass, field
from typing import Any, Iterator

import numpy as np
import torch
import transformers
from golden import golden
from safetensors.torch import save_file

from cases import Shape
from departures import seen, setting
from families_recurrent import RECURRENT

Json = dict[str, Any]
PATIENCE = 60       # seconds for a case
NEAREST = 1e-3      # a decision nearer than this may fall either way with another order of summation
NOISE = 1e-4        # on all logits: what no decision may hang on
WEIGHT_NOISE = 2.4e-7  # two units in the last place of every weight
WOBBLE = 8          # a float may differ by so many times what that noise does to the reference's own

MOST = 2e-3         # no noise excuses more: numbers at the end of the range move by all of it


class Refused(Exception):
    """transformers raises for this case."""


@dataclass
class Answer:
    expect: Json
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass
class Closeness:
    """The reference's margins of a case that came out differently."""
    nearest: float = float("inf")
    kind: str = ""
    unstable: list[str] = field(default_factory=list)
    steady: bool = True
    wobble: float = 0.0

    def too_close(self, gap: float | None) -> str | None:
        """Why the difference means nothing, or None. gap: of the floats that differ; None: tokens or shapes differ."""
        if self.unstable:
            return "unstable " + self.unstable[0]
        if self.nearest < NEAREST:
            return f"margin {self.kind}"
        if not self.steady:
            return "noise changes it"
        return "float wobble" if gap is not None and gap <= 1e-4 + WOBBLE * self.wobble else None


@contextlib.contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"the reference took more than {seconds} s")
    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def bare(case: Json) -> Json:
    """The case without what only this program reads."""
    return {k: v for k, v in case.items() if not k.startswith("_")}


def _floats(a: Any, b: Any) -> float:
    """The largest distance of two answers' floats, as parity measures it; answers of different shapes are far apart."""
    if isinstance(a, float) and isinstance(b, (int, float)) and not isinstance(b, bool):
        return abs(a - b) / (1 + abs(a))
    if isinstance(a, dict) and isinstance(b, dict):
        return max([_floats(v, b.get(k)) for k, v in a.items() if k != "top_ids"], default=0.0)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max([_floats(x, y) for x, y in zip(a, b)], default=0.0)
    return 0.0 if a == b else (float("inf") if isinstance(a, float) else 0.0)


def _is_of_positions(kind: str) -> bool:
    """Own attentions and hidden states: a row of theirs is a place of the sequence."""
    return kind.endswith(("attentions", "hidden_states")) and kind != "cross_attentions" and not kind.startswith("decoder")


def _zero_masked(mask: list[list[int]], tensors: dict[str, torch.Tensor], early: int = 0) -> None:
    """docs/departures.md, "attentions and hidden states at masked places": Cadenza gives zeros there, all else is compared.
    early: steps that hold the first places of the prompt, one each, behind the first step."""
    if not mask or not tensors:
        return
    shown = torch.tensor(mask, dtype=torch.bool)
    for name, t in tensors.items():
        kind, step = name.split("/")[1:3]
        if not _is_of_positions(kind):
            continue
        rows = shown.repeat_interleave(t.shape[0] // shown.shape[0], 0)
        place = int(step) - 1
        if (kind.startswith("encoder") or step == "0") and t.shape[-2] == shown.shape[1]:
            t.masked_fill_(~(rows[:, None, :, None] if t.dim() == 4 else rows[:, :, None]), 0)
        elif 0 <= place < min(early, shown.shape[1]) and not kind.startswith("encoder"):
            t.masked_fill_(~rows[:, place].reshape(-1, *[1] * (t.dim() - 1)), 0)


def _zero_ended(ends: list[int], tensors: dict[str, torch.Tensor]) -> None:
    """docs/departures.md, "scores and logits of a row after its end": Cadenza gives zeros there, all else is compared.
    ends: each row's last step."""
    for name, t in tensors.items():
        kind, step = name.split("/")[1:3]
        for r, end in enumerate(ends if kind in ("scores", "logits") else []):
            if int(step) > end:
                t[r] = 0


ATTENDS = ("attention", "full_attention")  # of layer_types and layers_block_type


def _merged(model: Any, streams: torch.Tensor) -> torch.Tensor:
    """What gemma3n's head reads of the last layer's streams."""
    parts = [streams[0]]
    size = (streams[0] ** 2).mean(-1, keepdim=True).sqrt()
    for project, stream in zip(model.model.altup_unembed_projections, streams[1:]):
        part = project(stream)
        parts.append(part * size / (part**2).mean(-1, keepdim=True).clamp(min=1e-5).sqrt())
    return model.model.norm(torch.stack(parts).mean(0)).detach()


def _as_listed(description: Json, model: Any, expect: Json, tensors: dict[str, torch.Tensor]) -> None:
    """docs/departures.md: layers without attention have zeros for it, and of several streams the one that layers compute on counts."""
    config = description["config"]
    kinds = config.get("layers_block_type") or config.get("layer_types") or []
    if description["family"] == "gemma3n":
        for name in [n for n in tensors if n.split("/")[1] == "hidden_states" and tensors[n].dim() == 4]:
            last = int(name.split("/")[3]) == config["num_hidden_layers"]
            tensors[name] = _merged(model, tensors[name]) if last else tensors[name][0].clone()
    if description["family"] not in RECURRENT or not kinds or "attentions" not in expect.get("outputs", {}):
        return
    expect["outputs"]["attentions"][1] = len(kinds)
    attending = [i for i, k in enumerate(kinds) if k in ATTENDS]
    given = {n: tensors.pop(n) for n in list(tensors) if n.split("/")[1] == "attentions"}
    for name, t in given.items():
        case, kind, step, layer = name.split("/")
        tensors[f"{case}/{kind}/{step}/{attending[int(layer)]}"] = t
        for i in set(range(len(kinds))) - set(attending):
            tensors.setdefault(f"{case}/{kind}/{step}/{i}", torch.zeros_like(t))


def _drop_without_token(expect: Json, tensors: dict[str, torch.Tensor]) -> None:
    """docs/departures.md, "attentions and hidden states of an answer without a token": Cadenza gives an encoder's at most."""
    if expect.get("outputs", {}).get("scores") != [0]:
        return
    del expect["outputs"]
    for name in [n for n in tensors if not n.split("/")[1].startswith("encoder")]:
        del tensors[name]


@contextlib.contextmanager
def _rounded_masses(generator: torch.Generator) -> Iterator[None]:
    """SynthID takes a sum near 1 from 1: the sum's last place, which hangs on the order of adding, is all that rare tokens have."""
    kind = transformers.generation.logits_process.SynthIDTextWatermarkLogitsProcessor
    exact = kind.update_scores

    def update_scores(self: Any, scores: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        masses = 1 + WEIGHT_NOISE * (2 * torch.rand((g.shape[0], 1, g.shape[2]), generator=generator) - 1)
        return exact(self, scores, g.float() * masses)
    kind.update_scores = update_scores
    try:
        yield
    finally:
        kind.update_scores = exact


def _at(sentence: str, expect: Json, tensors: dict[str, torch.Tensor]) -> float | None:
    """The number of an answer at the place that a sentence of parity names."""
    place = sentence.split(": ")[0].replace("top_ids", "top_vals")
    name, *steps = re.split(r"[.\[]", place.replace("]", ""))
    value: Any = tensors[name].flatten() if name in tensors else expect.get(name)
    try:
        for step in steps:
            value = value[int(step) if step.isdigit() else step]
        return float(value)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _moved(was: torch.Tensor, now: torch.Tensor) -> float:
    """As _floats, of what is a number and was not set to zero."""
    compared = torch.isfinite(was) & torch.isfinite(now) & (was != 0)
    return float(((was - now).abs() / (1 + was.abs()))[compared].max()) if compared.any() else 0.0


class Reference:
    """A folder's model and draft."""

    def __init__(self, folder: str, description: Json) -> None:
        self.folder, self.description = folder, description
        self.ctx = golden.Ctx(folder, "m")

    def shape(self) -> Shape:
        tok, cfg, own = self.ctx.tok, self.ctx.cfg, self.description["config"]
        eos = cfg.eos_token_id[0] if isinstance(cfg.eos_token_id, list) else cfg.eos_token_id
        layers = own.get("num_hidden_layers") or own.get("n_layer") or own.get("n_layers") or len(own.get("layers_block_type", [])) or own.get("decoder_layers") or own.get("num_layers")
        width = own.get("hidden_size") or own.get("n_embd") or own.get("d_model")
        return Shape(self.description["family"], cfg.vocab_size, width, layers, cfg.pad_token_id, eos,
                     tuple(tok.decode([t]) for t in range(4, cfg.vocab_size)), lambda text: tok(text).input_ids,
                     bool(own.get("sliding_window") or own.get("attention_chunk_size")) or self.description["family"] in ("t5", "mpt", *RECURRENT))

    def _give_embeddings(self, case: Json) -> None:
        how = case.get("_embeds")
        if not how or "inputs_embeds" not in case:
            return
        table = self.ctx.model.get_input_embeddings().weight
        noise = np.random.default_rng(how["seed"]).standard_normal(how["shape"]).astype(np.float32)
        self.ctx.tensors[case["inputs_embeds"]] = torch.from_numpy(noise) * table.std()

    def _run(self, case: Json) -> Json:
        with _limit(PATIENCE):
            return golden.run(self.ctx, case)

    def answer(self, case: Json) -> Answer:
        """What generate() gives; Refused with the exception's kind and the beginning of its text where it raises."""
        self._give_embeddings(case)
        golden.M.reset()
        try:
            expect = self._run(bare(case))
        except Exception as error:
            text = re.sub(r"[0-9]+", "N", str(error).strip().split("\n")[0])[:90]
            raise Refused(f"{type(error).__name__}: {text}") from None
        tensors = expect.pop("_outputs", {})
        _as_listed(self.description, self.ctx.model, expect, tensors)
        _drop_without_token(expect, tensors)
        early = expect["rounds"][0][1] if expect.get("rounds") else 0
        _zero_masked(seen(case, self.description), tensors, early)
        if "beam_indices" not in expect and any(n.split("/")[1] == "scores" for n in tensors):
            _zero_ended(self._ends(case, expect["sequences"], tensors), tensors)
        if "decoder_input_ids" in case["kwargs"]:
            expect.pop("text", None)  # recorded with the decoder's prompt in beam search alone
        if "healed_ids" in expect and case["prompt_ids"]:  # one of each prompt's copies, which are all the same
            expect["healed_ids"] = expect["healed_ids"][:: len(expect["healed_ids"]) // len(case["prompt_ids"])]
        if "inputs_embeds" in case:
            tensors["input:" + case["inputs_embeds"]] = self.ctx.tensors[case["inputs_embeds"]]
        return Answer(expect, tensors)

    def _ends(self, case: Json, sequences: list[list[int]], tensors: dict[str, torch.Tensor]) -> list[int]:
        """Each row's last step: what comes behind it are pads, where there is an end-of-sequence token; else all rows run on."""
        eos = setting(case, self.description, "eos_token_id", self.ctx.base_gc.eos_token_id)
        ids = set(eos if isinstance(eos, list) else [eos])
        steps = 1 + max(int(n.split("/")[2]) for n in tensors if n.split("/")[1] == "scores")
        before = len(sequences[0]) - steps
        if eos is None:
            return [steps] * len(sequences)
        stops = golden.stop_lengths(self.ctx, case, torch.tensor(sequences), before) or [steps] * len(sequences)
        return [min([stop, *(i for i, t in enumerate(row[before:]) if t in ids)]) for row, stop in zip(sequences, stops)]

    def closeness(self, case: Json, answer: Answer, reruns: int = 3, floats: bool = True) -> Closeness:
        """Runs the case again: with margins taken, with noise on the logits, and for floats with noise on the weights."""
        found, case = Closeness(), bare(case)
        golden.M.reset()
        golden.M.on = True
        try:
            self._run(case)
        except Exception:
            found.steady = False
        finally:
            golden.M.on = False
        if golden.M.m:
            found.kind = min(golden.M.m, key=golden.M.m.__getitem__)
            found.nearest = golden.M.m[found.kind]
        found.unstable = list(golden.M.unstable)
        if found.too_close(None):
            return found
        want = golden.decisions(answer.expect)
        for i in range(reruns):
            with golden.Noise(NOISE, i):
                found.steady &= self._same(case, want)
        found.wobble = self._wobble(case, answer) if floats else 0.0
        return found

    def is_rest(self, case: Json, answer: Answer, sentence: str, gap: float, reruns: int = 8) -> bool:
        """Whether the number is what SynthID's sum left of 1, down to nothing: its rounding moves that very place as far."""
        was, moved = _at(sentence, answer.expect, answer.tensors), 0.0
        for i in range(reruns if was is not None else 0):
            with _rounded_masses(torch.Generator().manual_seed(i)):
                again = self._run(bare(case))
            now = _at(sentence, again, again.pop("_outputs", {}))
            moved = max(moved, 0.0 if now is None else _floats(was, now))
        return gap <= WOBBLE * moved

    def _same(self, case: Json, want: Json) -> bool:
        try:
            again = self._run(case)
        except Exception:
            return False
        again.pop("_outputs", None)
        return bool(golden.decisions(again) == want)

    def _wobble(self, case: Json, answer: Answer) -> float:
        """How far the reference's own floats move with the last places of the weights."""
        generator = torch.Generator().manual_seed(1)
        params = list(self.ctx.model.parameters())
        kept = [p.data.clone() for p in params]
        for p in params:
            p.data.mul_(1 + WEIGHT_NOISE * (2 * torch.rand(p.shape, generator=generator) - 1))
        try:
            with _rounded_masses(generator):
                moved = self._run(case)
            tensors = moved.pop("_outputs", {})
            return min(MOST, max([_floats(answer.expect, moved), *(_moved(answer.tensors[k], t) for k, t in tensors.items() if k in answer.tensors)]))
        except Exception:
            return 0.0
        finally:
            for p, old in zip(params, kept):
                p.data.copy_(old)


def _words(value: Any) -> Any:
    """Values that JSON lacks, as the golden format spells them."""
    if torch.is_tensor(value):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {k: _words(v) for k, v in value.items()}
    return [_words(v) for v in value] if isinstance(value, list) else value


def write_folder(folder: str, cases: list[tuple[Json, Answer]]) -> None:
    """cases.json and the tensors beside it, as parity reads them."""
    outputs: dict[str, torch.Tensor] = {}
    inputs: dict[str, torch.Tensor] = {}
    for _, answer in cases:
        for name, t in answer.tensors.items():
            (inputs if name.startswith("input:") else outputs)[name.removeprefix("input:")] = t.contiguous()
    for name, tensors in (("outputs", outputs), ("inputs", inputs)):
        path = os.path.join(folder, name + ".safetensors")
        if tensors:
            save_file(dict(sorted(tensors.items())), path)
        elif os.path.exists(path):
            os.remove(path)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        lines = [json.dumps({**bare(c), "expect": _words(a.expect)}, separators=(",", ":")) for c, a in cases]
        f.write("[\n" + ",\n".join(lines) + "\n]\n")
