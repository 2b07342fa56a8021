"""Random requests, as the cases of the golden format (tests/golden/README.md). Nothing here knows torch."""
from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable

from families import PAIRS

Json = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """What a request has to know of a model."""
    family: str
    vocab: int
    width: int
    layers: int
    pad: int | None
    eos: int
    texts: tuple[str, ...]  # of the tokenizer's tokens
    encode: Callable[[str], list[int]]
    refuses_holes: bool = False  # windows and relative positions

    @property
    def pair(self) -> bool:
        return self.family in PAIRS


MODES = (("greedy", 26), ("sample", 20), ("beam", 16), ("beam_sample", 7), ("assisted", 13), ("prompt_lookup", 10), ("early_exit", 4))


class Draw:
    """One case: a mode, a prompt, and what is asked of it."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.kwargs: Json = {}
        self.case: Json = {"kwargs": self.kwargs}
        self.mode = rng.choices([m for m, _ in MODES], [w for _, w in MODES])[0]
        self.drafts = self.mode in ("assisted", "prompt_lookup", "early_exit")
        self.beams = self.mode in ("beam", "beam_sample")
        self.sampling = self.mode in ("sample", "beam_sample") or (self.drafts and self.p(0.4))

    def p(self, chance: float) -> bool:
        return self.rng.random() < chance

    def token(self) -> int:
        return self.rng.randrange(self.shape.vocab)

    def ids(self, n: int) -> list[int]:
        return [self.rng.choice(self.alphabet) for _ in range(n)]

    # ---- the prompt
    def prompt(self) -> None:
        rng, shape = self.rng, self.shape
        ordinary = [t for t in range(4, shape.vocab) if t != shape.pad]
        self.alphabet = rng.sample(ordinary, rng.choice([3, 5, 8])) if self.p(0.4) else ordinary
        rows = 1 if self.drafts or self.p(0.55) else rng.choice([2, 2, 3])
        lengths = [rng.randrange(1, 15) for _ in range(rows)]
        if self.mode == "prompt_lookup":
            lengths = [rng.randrange(4, 20)]
        self.longest = max(lengths)
        pad = shape.pad if shape.pad is not None else 0
        side = (lambda r, k: r + k) if shape.pair else (lambda r, k: k + r)
        self.case["prompt_ids"] = [side(self.ids(n), [pad] * (self.longest - n)) for n in lengths]
        mask = [side([1] * n, [0] * (self.longest - n)) for n in lengths]
        if self.p(0.02 if shape.refuses_holes else 0.1):
            self._holes(mask)
        self.case["attention_mask"] = mask
        if self.p(0.08):
            self.case["attention_mask"] = None  # generate() finds the pads itself
        if not self.drafts and self.p(0.02) and shape.family != "t5":  # which has no bos_token_id
            self.case["prompt_ids"] = None
            self.case.pop("attention_mask", None)

    def _holes(self, mask: list[list[int]]) -> None:
        """Places that the model does not see, within the prompt or at its beginning; the last one stays."""
        for row in mask:
            last = max(i for i, m in enumerate(row) if m)
            for i in range(last):
                if self.p(0.25):
                    row[i] = 0

    # ---- lengths, ends
    def lengths(self) -> None:
        rng, kw = self.rng, self.kwargs
        new = rng.randrange(1, 9 if self.beams else 15)
        if self.p(0.12):
            kw["max_length"] = new + (1 if self.shape.pair else self.longest)
        else:
            kw["max_new_tokens"] = new
        if self.p(0.1):
            kw["min_new_tokens"] = rng.randrange(0, new + 1)
        if self.p(0.1):
            kw["min_length"] = rng.randrange(0, new + 1 + (1 if self.shape.pair else self.longest))

    def ends(self) -> None:
        rng, kw = self.rng, self.kwargs
        what = rng.random()
        if what < 0.3:
            kw["eos_token_id"] = None
        elif what < 0.55:
            kw["eos_token_id"] = self.token()
        elif what < 0.75:
            kw["eos_token_id"] = [self.token() for _ in range(rng.choice([1, 2, 3, 6]))]
        if self.p(0.25) or self.shape.pad is None:
            kw["pad_token_id"] = rng.choice([0, self.token()])
        if self.p(0.07) and not (self.mode == "assisted"):
            kw["stop_strings"] = self._stops()

    def _stops(self) -> Any:
        texts = [t for t in self.shape.texts if t.strip()]
        stops = []
        for _ in range(self.rng.choice([1, 1, 2, 4])):
            text = "".join(self.rng.choice(texts) for _ in range(self.rng.choice([1, 1, 2])))
            stops.append(text[self.rng.choice([0, 0, 1]) :] or text)
        return stops if len(stops) > 1 else stops[0]

    # ---- modes
    def strategy(self) -> None:
        rng, kw = self.rng, self.kwargs
        if self.sampling or self.p(0.7):
            kw["do_sample"] = self.sampling
        if self.sampling or (kw.get("do_sample") is None):
            self.case["seed"] = rng.randrange(1 << rng.choice([8, 31]))
        if self.beams:
            self._beams()
        elif self.sampling and not self.drafts and self.p(0.25):
            kw["num_return_sequences"] = rng.choice([2, 3])
        if self.mode == "assisted":
            self._assistant()
        elif self.mode == "prompt_lookup":
            kw["prompt_lookup_num_tokens"] = rng.choice([1, 2, 3, 5, 10])
            if self.p(0.6):
                kw["max_matching_ngram_size"] = rng.choice([1, 2, 3])
        elif self.mode == "early_exit":
            kw["assistant_early_exit"] = rng.randrange(1, self.shape.layers + 1)
        elif not self.beams and self.mode != "beam" and "num_beams" not in kw:
            kw["num_beams"] = 1  # a model's own configuration may have beams
        self.case["mode"] = "assisted" if self.mode == "early_exit" else self.mode

    def _beams(self) -> None:
        rng, kw = self.rng, self.kwargs
        kw["num_beams"] = rng.choice([2, 2, 3, 4, 5])
        if self.p(0.5):
            kw["num_return_sequences"] = rng.randrange(1, kw["num_beams"] + 1)
        if self.p(0.5):
            kw["early_stopping"] = rng.choice([True, False, "never"])
        if self.p(0.5):
            kw["length_penalty"] = rng.choice([-1.0, 0.0, 0.6, 1.0, 2.0])

    def _assistant(self) -> None:
        rng = self.rng
        config: Json = {}
        if self.p(0.9):
            config["assistant_confidence_threshold"] = rng.choice([0.0, 0.0, 0.2, 0.5])
        if self.p(0.9):
            config["num_assistant_tokens"] = rng.choice([1, 2, 3, 5, 8])
        if self.p(0.7):
            config["num_assistant_tokens_schedule"] = rng.choice(["constant", "heuristic", "heuristic_transient"])
        self.case["assistant"] = {"model": "d", "generation_config": config}

    # ---- processors
    def processors(self) -> None:
        """A few of them: most cases have none to two, some have many, for their order and company."""
        rng = self.rng
        n = rng.choices([0, 1, 2, 3, 6], [25, 35, 22, 12, 6])[0]
        makers = [m for m in PROCESSORS if m is not _guidance or not self.shape.pair or self.p(0.1)]
        for make in rng.sample(makers, n):
            self.kwargs.update(make(self))
        if self.sampling or self.p(0.04):
            for make in rng.sample(WARPERS, rng.choices([0, 1, 2, 4], [15, 40, 30, 15])[0]):
                self.kwargs.update(make(self))

    # ---- the rest
    def cache(self) -> None:
        rng, kw = self.rng, self.kwargs
        if self.p(0.06):
            kw["use_cache"] = False
        elif self.p(0.05) and not self.drafts:
            kw["cache_implementation"] = rng.choice(["static", "dynamic", "dynamic_full"])
        if self.p(0.06) and not self.shape.pair:
            kw["prefill_chunk_size"] = rng.choice([1, 2, 3, 5, 64])

    def record(self) -> None:
        record: Json = {}
        if self.p(0.6):
            record["top"] = self.rng.choice([1, 3, 8])
        if self.p(0.15):
            record["normalized" if self.beams else "transition"] = True
        if self.p(0.08):
            record["outputs"] = True
            for kind in ("output_logits", "output_attentions", "output_hidden_states"):
                if self.p(0.6):
                    self.kwargs[kind] = True
        mark = self.kwargs.get("watermarking_config")
        if mark and "type" not in mark and self.p(0.4) and not self.drafts and not self.beams and not self.shape.pair:
            record["detect"] = {"z_threshold": self.rng.choice([0.5, 2.0])}
        self.case["record"] = record

    def embeddings(self) -> None:
        """The prompt as embeddings; with the ids beside them processors see those."""
        if self.case["prompt_ids"] is None or not self.p(0.01 if self.drafts else 0.05):
            return
        rows, own = len(self.case["prompt_ids"]), self.rng.randrange(1 << 30)
        self.case["inputs_embeds"] = f"e{own}"
        self.case["_embeds"] = {"seed": own, "shape": [rows, self.longest, self.shape.width]}
        if self.shape.pair or self.p(0.6):
            self.case["prompt_ids"] = None
            self.case.pop("attention_mask", None)
        else:
            self.case["attention_mask"] = [[1] * self.longest for _ in range(rows)]

    def decoder(self) -> None:
        """What the decoder of a pair starts from."""
        if not self.shape.pair or self.case["prompt_ids"] is None or not self.p(0.12):
            return
        start = self.shape.pad if self.shape.family != "bart" else 2
        n, rows = self.rng.randrange(0, 4), len(self.case["prompt_ids"])
        self.kwargs["decoder_input_ids"] = [[start] + self.ids(n) for _ in range(rows)]
        if self.p(0.3):
            self.kwargs["decoder_attention_mask"] = [[1] * (n + 1) for _ in range(rows)]

    def healing(self) -> None:
        if self.shape.pair or self.drafts or "inputs_embeds" in self.case or not self.p(0.03):
            return
        words = " the sea and sand are near inn then he sat on a hat rain ate ten red hens st tra nor dear".split(" ")
        rows = [self.shape.encode(" ".join(self.rng.sample(words, 3))) for _ in range(self.rng.choice([1, 1, 2]))]
        longest = max(map(len, rows))
        pad = self.shape.pad or 0
        self.case["prompt_ids"] = [[pad] * (longest - len(r)) + r for r in rows]
        self.case["attention_mask"] = [[0] * (longest - len(r)) + [1] * len(r) for r in rows]
        self.kwargs["token_healing"] = True
        self.case.setdefault("seed", len(self.kwargs))  # healing draws where the model's own file says do_sample

    def calls(self) -> None:
        """Further calls: on the cache of the one before, or fresh ones that share an assistant."""
        if self.shape.pair or self.beams or "inputs_embeds" in self.case or self.case["prompt_ids"] is None or not self.p(0.09):
            return
        fresh = self.mode == "assisted"
        if (self.drafts and not fresh) or "num_return_sequences" in self.kwargs or "token_healing" in self.kwargs \
                or "outputs" in self.case["record"]:
            return
        self.case["calls"] = []
        for _ in range(self.rng.choice([1, 1, 2])):
            call: Json = {"kwargs": {k: v for k, v in self.kwargs.items() if k not in ("max_length", "min_length")}}
            call["kwargs"]["max_new_tokens"] = self.rng.randrange(1, 9)
            if fresh:
                call["prompt_ids"] = [self.ids(self.rng.randrange(2, 9))]
                call["attention_mask"] = [[1] * len(call["prompt_ids"][0])]
            else:
                n = self.rng.choice([0, 1, 2, 5])
                call["append_ids"] = [self.ids(n) for _ in self.case["prompt_ids"]]
            if "seed" in self.case:
                call["seed"] = self.rng.randrange(1 << 31)
            self.case["calls"].append(call)

    def make(self) -> Json:
        for part in (self.prompt, self.lengths, self.ends, self.strategy, self.processors, self.cache, self.embeddings, self.decoder,
                     self.healing, self.record, self.calls):
            part()
        return self.case


# ---- processors: each gives its keyword arguments
def _repetition(d: Draw) -> Json:
    return {"repetition_penalty": d.rng.choice([0.7, 1.1, 1.3, 2.0])}


def _encoder_repetition(d: Draw) -> Json:
    return {"encoder_repetition_penalty": d.rng.choice([0.6, 1.2, 1.8])}


def _ngram(d: Draw) -> Json:
    return {"no_repeat_ngram_size": d.rng.choice([1, 2, 2, 3])}


def _encoder_ngram(d: Draw) -> Json:
    return {"encoder_no_repeat_ngram_size": d.rng.choice([1, 2, 3])}


def _bad_words(d: Draw) -> Json:
    return {"bad_words_ids": [[d.token() for _ in range(d.rng.choice([1, 1, 2, 3]))] for _ in range(d.rng.choice([1, 3, 8]))]}


def _sequence_bias(d: Draw) -> Json:
    words = {tuple(d.token() for _ in range(d.rng.choice([1, 1, 2, 3]))) for _ in range(d.rng.choice([1, 3, 8]))}
    return {"sequence_bias": [[list(w), d.rng.choice([-8.0, -1.5, 0.5, 3.0, 9.0])] for w in sorted(words)]}


def _forced_bos(d: Draw) -> Json:
    return {"forced_bos_token_id": d.token()}


def _forced_eos(d: Draw) -> Json:
    return {"forced_eos_token_id": d.rng.choice([d.token(), [d.token(), d.token()]])}


def _remove_invalid(d: Draw) -> Json:
    return {"remove_invalid_values": True}


def _decay(d: Draw) -> Json:
    eos = {} if d.kwargs.get("eos_token_id", 0) is not None else {"eos_token_id": d.token()}
    return {"exponential_decay_length_penalty": [d.rng.choice([0, 1, 3]), d.rng.choice([0.8, 1.2, 2.0])], **eos}


def _suppress(d: Draw) -> Json:
    return {"suppress_tokens": sorted({d.token() for _ in range(d.rng.choice([1, 5, 12]))})}


def _begin_suppress(d: Draw) -> Json:
    return {"begin_suppress_tokens": sorted({d.token() for _ in range(d.rng.choice([1, 5, 12]))})}


def _renormalize(d: Draw) -> Json:
    return {"renormalize_logits": True}


def _guidance(d: Draw) -> Json:
    got: Json = {"guidance_scale": d.rng.choice([0.5, 1.3, 2.0])}
    rows = len(d.case["prompt_ids"] or [0])
    if d.p(0.75):
        n = d.rng.randrange(1, 8)
        copies = d.kwargs.get("num_beams", 1) * rows
        got["negative_prompt_ids"] = [d.ids(n) for _ in range(copies)]
        if d.p(0.2):
            got["negative_prompt_attention_mask"] = [[0] * k + [1] * (n - k) for k in (d.rng.randrange(0, n) for _ in range(copies))]
    return got


def _watermark(d: Draw) -> Json:
    if d.p(0.4):
        keys = [d.rng.randrange(1, 1000) for _ in range(d.rng.choice([2, 5]))]
        return {"watermarking_config": {"type": "synthid", "ngram_len": d.rng.choice([2, 3, 5]), "keys": keys,
                                        "context_history_size": d.rng.choice([2, 64]), "sampling_table_size": 256,
                                        "sampling_table_seed": d.rng.randrange(9), "skip_first_ngram_calls": d.p(0.3)}}
    return {"watermarking_config": {"greenlist_ratio": d.rng.choice([0.25, 0.5]), "bias": d.rng.choice([1.0, 4.0]),
                                    "context_width": d.rng.choice([1, 1, 2]), "hashing_key": d.rng.choice([15485863, 7]),
                                    "seeding_scheme": d.rng.choice(["lefthash", "lefthash", "selfhash"])}}


def _allowed(d: Draw) -> Json:
    def some() -> list[int]:
        return sorted(d.rng.sample(range(d.shape.vocab), d.rng.choice([3, 10, 30])))
    if d.p(0.4) and d.case["prompt_ids"] is not None and (d.beams or "num_return_sequences" not in d.kwargs):
        return {"prefix_allowed_tokens": {"batch_cycles": [[some() for _ in range(d.rng.choice([1, 2, 3]))] for _ in d.case["prompt_ids"]]}}
    return {"prefix_allowed_tokens": {"cycle": [some() for _ in range(d.rng.choice([1, 2, 3]))]}}


PROCESSORS = [_repetition, _encoder_repetition, _ngram, _encoder_ngram, _bad_words, _sequence_bias, _forced_bos, _forced_eos,
              _remove_invalid, _decay, _suppress, _begin_suppress, _renormalize, _guidance, _watermark, _allowed]
WARPERS: list[Callable[[Draw], Json]] = [
    lambda d: {"temperature": d.rng.choice([0.3, 0.7, 1.5])},
    lambda d: {"top_k": d.rng.choice([0, 1, 2, 5, 20])},
    lambda d: {"top_p": d.rng.choice([0.0001, 0.3, 0.9, 0.99])},
    lambda d: {"min_p": d.rng.choice([0.02, 0.1, 0.5])},
    lambda d: {"typical_p": d.rng.choice([0.2, 0.7, 0.95])},
    lambda d: {"epsilon_cutoff": d.rng.choice([0.001, 0.05])},
    lambda d: {"eta_cutoff": d.rng.choice([0.001, 0.05])},
    lambda d: {"top_h": d.rng.choice([0.2, 0.6])},
]


def draw_case(rng: random.Random, shape: Shape, number: int) -> Json:
    """A case, named by its number."""
    return {"id": f"m/{number:04}", **Draw(rng, shape).make()}
