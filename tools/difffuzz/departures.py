"""The rows of docs/departures.md that a case can meet, each as an exact condition.

A difference that one of them explains is counted under its name and is no find. A name is the row's first column, shortened,
and behind a colon which of the row's cases.
Conditions look at the case, at what the model is, and at the sentence of the difference; a condition must never hold for a case
that the row does not speak of. Where standins.py has an answer for the row, that answer is what Cadenza must give.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Callable

from families import PAIRS
from families_recurrent import RECURRENT

Json = dict[str, Any]


def setting(case: Json, model: Json, name: str, default: Any = None) -> Any:
    """A generation parameter: the request's, else the model's own, else the default."""
    return case["kwargs"].get(name, model.get("generation", {}).get(name, default))


def seen(case: Json, model: Json) -> list[list[int]]:
    """What the reference's model sees of the prompt, as it finds it out itself where no mask is given."""
    rows = case["prompt_ids"] or []
    given = case.get("attention_mask", "ones")
    if isinstance(given, list):
        return given
    if not rows and "inputs_embeds" not in case and model["family"] not in PAIRS:  # begun from bos_token_id, without a mask
        rows, given = [[setting(case, model, "bos_token_id", model["config"].get("bos_token_id"))]], None
    pad, eos = (setting(case, model, name, model["config"].get(name)) for name in ("pad_token_id", "eos_token_id"))
    if given == "ones" or model["family"] in PAIRS or pad is None or pad in (eos if isinstance(eos, list) else [eos]) or not any(pad in r for r in rows):
        return [[1] * len(r) for r in rows]
    return [[int(t != pad) for t in r] for r in rows]


def _expected(sentence: str) -> float:
    number = re.search(r"expected (-?[0-9.e+-]+),", sentence)
    return float(number[1]) if number else math.nan


@dataclass(frozen=True)
class Difference:
    """A case that came out differently, and what parity said of it."""
    case: Json
    model: Json  # its description
    sentence: str
    unsupported: bool = False
    expect: Json = field(default_factory=dict)

    def kw(self, name: str, default: Any = None) -> Any:
        return setting(self.case, self.model, name, default)

    @property
    def pair(self) -> bool:
        return self.model["family"] in PAIRS

    @property
    def drafts(self) -> bool:
        return "assistant" in self.case or "prompt_lookup_num_tokens" in self.case["kwargs"] or self.early_exit

    @property
    def early_exit(self) -> bool:
        return "assistant_early_exit" in self.case["kwargs"]

    def by_model(self) -> bool:
        return self.early_exit or "assistant" in self.case

    @property
    def window(self) -> bool:
        config = self.model["config"]
        return bool(config.get("sliding_window") or config.get("attention_chunk_size")) and config.get("use_sliding_window", True)

    @property
    def rope(self) -> str:
        return str(self.model["config"].get("rope_parameters", {}).get("rope_type", "default"))

    def longest(self) -> int:
        """Places that the longest sequence of the request has, a second one of guidance too."""
        kw, rows = self.case["kwargs"], self.case["prompt_ids"] or [[1]]
        prompt = max(len(rows[0]), *self.case.get("_embeds", {}).get("shape", [0, 0])[1:2], *map(len, self.kw("negative_prompt_ids") or []))
        whole = kw.get("max_length", prompt + self.kw("max_new_tokens", 20))
        for call in self.case.get("calls", []):
            whole += len((call.get("append_ids") or [[]])[0]) + call["kwargs"]["max_new_tokens"]
        return max(whole, prompt + self.kw("max_new_tokens", 20))

    def longest_pass(self) -> int:
        """Places that a pass reads: what is looked up may reach past the answer's end."""
        return self.longest() + self.case["kwargs"].get("prompt_lookup_num_tokens", 0)

    def dynamic(self) -> bool:
        """Dynamic rope, and a pass that is long enough for it to matter."""
        return self.rope == "dynamic" and self.longest_pass() > self.model["config"]["max_position_embeddings"]

    def crosses(self) -> bool:
        """A phi3 or phimoe request, cached, that grows past the length of its short frequencies."""
        cached = self.kw("use_cache", True) or "inputs_embeds" in self.case  # with these the reference turns it on
        config = self.model["config"]
        original = config.get("original_max_position_embeddings") or config.get("rope_parameters", {}).get("original_max_position_embeddings")
        return self.model["family"] in ("phi3", "phimoe") and self.rope == "longrope" and cached and self.longest_pass() > original

    @property
    def embedded(self) -> bool:
        """A prompt of embeddings, which the reference cannot do without a cache."""
        return "inputs_embeds" in self.case

    @property
    def keeps_states(self) -> bool:
        """Attentions or hidden states are part of the answer, which have another shape without a cache."""
        return "outputs" in self.case.get("record", {})

    def of_states(self) -> bool:
        return "attentions/" in self.sentence or "hidden_states/" in self.sentence

    def prompt_width(self) -> int:
        """Places of an answer's row before its first new token."""
        return len(self.case["prompt_ids"][0]) if self.case["prompt_ids"] else int("inputs_embeds" not in self.case)

    def ended(self) -> bool:
        """A row of one of the answers ended before another."""
        pad = self.kw("pad_token_id", self.model["config"].get("pad_token_id"))
        answers = [self.expect, *self.expect.get("calls", [])]
        return any(row[-1] == pad for a in answers for row in a.get("sequences", []))

    def counts_pads(self) -> bool:
        """A negative prompt with pads, where a position is more than a distance."""
        return (self.model["family"] in LEARNED or self.tempered) and self.hides_negative()

    def hides_negative(self) -> bool:
        return self.kw("guidance_scale") is not None and any(0 in r for r in self.kw("negative_prompt_attention_mask") or [])

    def drawn_by_model(self) -> bool:
        """Drafts are drawn, by scores that guidance has changed."""
        return self.by_model() and bool(self.kw("do_sample"))

    @property
    def recurrent(self) -> bool:
        return self.model["family"] in RECURRENT

    @property
    def biased(self) -> bool:
        """What a convolution reads has a bias, which pads have as well."""
        config = self.model["config"]
        return self.model["family"] == "mamba2" and config["use_bias"] or self.model["family"] in ("lfm2", "lfm2_moe") and config["conv_bias"]

    @property
    def beams(self) -> bool:
        return self.kw("num_beams", 1) > 1

    def rows(self) -> int:
        """Of the reference's batch."""
        return len(self.case["prompt_ids"] or [0]) * self.kw("num_beams", 1) * (1 if self.beams else self.kw("num_return_sequences", 1))

    def short(self) -> bool:
        """A prompt of lfm2, or the second sequence's, that the convolution's window is longer than."""
        lengths = [self.prompt_width() or self.case["_embeds"]["shape"][1]]
        if self.kw("guidance_scale") is not None:
            lengths.append(len((self.kw("negative_prompt_ids") or [[0]])[0]))
        return self.model["family"] in ("lfm2", "lfm2_moe") and min(lengths) < self.model["config"]["conv_L_cache"]

    @property
    def tempered(self) -> bool:
        """Queries grow with their position."""
        return self.model["family"] == "ministral3" or bool(self.model["config"].get("attn_temperature_tuning"))

    @property
    def cached(self) -> bool:
        return self.kw("use_cache", True) is not False or self.embedded  # with these the reference turns it on

    def stays(self) -> bool:
        """States of mamba2 that do not move with the beams."""
        return self.model["family"] == "mamba2" and self.beams and self.cached

    def continued(self) -> bool:
        """A call that reads more than the last token on top of the cache, and the difference is in it or behind it."""
        calls = self.case.get("calls", [])
        first = next((i for i, c in enumerate(calls) if c.get("append_ids", [[]])[0]), len(calls))
        where = re.match(r"calls\[(\d+)\]", self.sentence)
        return bool(where) and int(where[1]) >= first

    def mask(self) -> list[list[int]]:
        return seen(self.case, self.model)

    def hidden(self) -> bool:
        return any(0 in r for r in self.mask())

    def hole(self) -> bool:
        """A place that is masked behind one that is not."""
        return any(0 in r[r.index(1):] if 1 in r else True for r in self.mask())


LEARNED = ("gpt2", "bart", "marian", "gpt_bigcode", "opt",  # positions of their own
           "hunyuan_v1_dense")  # the norms of queries and keys come after the rotation: a position is more than a distance
UNCACHED = ("granitemoehybrid", "falcon_h1", "nemotron_h", "mamba2")  # whose forward pass makes no cache that guidance finds
Condition = Callable[[Difference], bool]
LISTED: dict[str, Condition] = {
    # refused: the sentence says so, and the case is one of those
    "prompt row that ends in a masked position": lambda d: "ends in a masked position" in d.sentence
    and any(r and r[-1] == 0 for r in d.mask()),
    "prompt longer than the context": lambda d: "the model's context is" in d.sentence,
    "embeddings as prompt with drafts": lambda d: d.drafts and "inputs_embeds" in d.case
    and ("a prompt of embeddings with" in d.sentence or "drafts need the cache" in d.sentence),
    "a prompt of an encoder of which nothing is visible": lambda d: d.pair and "hides every token" in d.sentence and any(not any(r) for r in d.mask()),
    "guidance on a model with an encoder": lambda d: d.pair and d.kw("guidance_scale") is not None and d.unsupported
    and "a sequence without a prompt for the encoder has no scores" in d.sentence,
    "a hole in the mask of a model with a sliding window, relative positions or recurrent layers": lambda d: d.hole()
    and ("has a hole in its attention mask" in d.sentence and d.window
         or "has holes inside" in d.sentence and (d.model["family"] in ("t5", "mpt") or d.recurrent)),
    # another shape, or another sentence of the reference's
    "attentions of a sliding window": lambda d: "attentions/" in d.sentence and "of another shape" in d.sentence and d.window,
    "attentions of a static cache": lambda d: "attentions/" in d.sentence and "of another shape" in d.sentence
    and d.kw("cache_implementation") == "static",
    "attentions and hidden states without a cache": lambda d: d.kw("use_cache") is False and "of another shape" in d.sentence
    and d.rope not in ("dynamic", "longrope"),
    "attentions and hidden states without a cache: the length counts": lambda d: d.kw("use_cache") is False
    and d.rope in ("dynamic", "longrope") and d.of_states(),
    "attentions and hidden states with prefill_chunk_size": lambda d: "prefill_chunk_size" in d.case["kwargs"] and d.of_states(),
    "a green-list detector over several texts": lambda d: d.sentence.startswith("detector.")
    and len({s[d.prompt_width()] == d.model["config"]["bos_token_id"] for s in d.expect["sequences"]}) == 2,
    "normalised scores of a row without a number": lambda d: "transition_scores_normalized" in d.sentence and d.sentence.endswith("got 0.0")
    and abs(_expected(d.sentence) + math.log(d.model["config"]["vocab_size"])) < 1e-4,
    # other numbers
    "drafts with several prompts or sequences": lambda d: d.drafts and len(d.case["prompt_ids"] or [0]) > 1,
    "a phi3 or phimoe longrope request whose cache crosses": lambda d: d.crosses() and not d.drafts and not d.embedded,
    "a phi3 or phimoe longrope request whose cache crosses: embeddings": lambda d: d.crosses() and not d.drafts and d.embedded,
    "a phi3 or phimoe longrope request whose cache crosses: its states": lambda d: d.crosses() and not d.drafts and d.keeps_states,
    "a phi3 or phimoe longrope request whose cache crosses: greedy drafts": lambda d: d.crosses() and d.drafts and not d.kw("do_sample"),
    "a phi3 or phimoe longrope request whose cache crosses: drawn drafts": lambda d: d.crosses() and d.drafts and bool(d.kw("do_sample")),
    "a filled cache with drafts": lambda d: d.drafts and any("append_ids" in c for c in d.case.get("calls", [])),
    "prefill_chunk_size with a filled cache": lambda d: "prefill_chunk_size" in d.case["kwargs"]
    and any("append_ids" in c for c in d.case.get("calls", [])) and d.sentence.startswith("calls["),
    "SynthID under beams": lambda d: d.kw("num_beams", 1) > 1 and (d.kw("watermarking_config") or {}).get("type") == "synthid",
    "token healing that changes the prompt's length": lambda d: bool(d.kw("token_healing"))
    and len(d.expect.get("healed_ids", [[]])[0]) != len((d.case["prompt_ids"] or [[]])[0]),
    "dynamic rope with guidance": lambda d: d.dynamic() and d.kw("guidance_scale") is not None and not d.beams and not d.drawn_by_model(),
    "dynamic rope with guidance: beams": lambda d: d.dynamic() and d.kw("guidance_scale") is not None and d.beams,
    "dynamic rope with guidance: drawn drafts": lambda d: d.dynamic() and d.kw("guidance_scale") is not None and d.drawn_by_model(),
    "dynamic rope with drafts: prompt lookup": lambda d: d.dynamic() and "prompt_lookup_num_tokens" in d.case["kwargs"] and not d.of_states(),
    "dynamic rope with drafts: greedy": lambda d: d.dynamic() and d.by_model() and not d.kw("do_sample") and d.kw("guidance_scale") is None
    and not d.of_states(),
    "dynamic rope with drafts: drawn": lambda d: d.dynamic() and d.by_model() and bool(d.kw("do_sample")) and not d.of_states()
    and d.kw("guidance_scale") is None,
    "dynamic rope with drafts: its states": lambda d: d.dynamic() and d.drafts and d.of_states(),
    "prefill_chunk_size with dynamic rope": lambda d: d.dynamic() and d.kw("prefill_chunk_size") is not None,
    "dynamic rope, and a call that continues a row that had ended": lambda d: d.dynamic() and d.sentence.startswith("calls[")
    and any("append_ids" in c for c in d.case["calls"]) and d.ended(),
    "guidance with a padded negative prompt": lambda d: d.counts_pads() and not d.beams,
    "guidance with a padded negative prompt: beams": lambda d: d.counts_pads() and d.beams,
    "encoder penalties with token healing": lambda d: bool(d.kw("token_healing"))
    and (d.kw("encoder_repetition_penalty") is not None or d.kw("encoder_no_repeat_ngram_size") is not None),
    "prefill_chunk_size with drafts": lambda d: d.drafts and "prefill_chunk_size" in d.case["kwargs"],
    "prefill_chunk_size with embeddings as prompt": lambda d: "inputs_embeds" in d.case and "prefill_chunk_size" in d.case["kwargs"],
    "guidance with drafts by a model": lambda d: ("assistant" in d.case or d.early_exit) and d.kw("guidance_scale") is not None,
    "guidance with prompt lookup": lambda d: "prompt_lookup_num_tokens" in d.case["kwargs"] and d.kw("guidance_scale") is not None,
    "SynthID with drafts": lambda d: d.drafts and (d.kw("watermarking_config") or {}).get("type") == "synthid",
    "queries that grow with their position: a row padded on the left": lambda d: d.tempered and (d.hidden() or d.hides_negative()),
    "gemma3n without a cache": lambda d: d.model["family"] == "gemma3n" and d.kw("use_cache") is False and bool(d.model["config"]["num_kv_shared_layers"]),
    "guidance on granitemoehybrid, falcon_h1, nemotron_h and mamba2": lambda d: d.model["family"] in UNCACHED and d.kw("guidance_scale") is not None and not d.beams,
    "guidance on granitemoehybrid, falcon_h1, nemotron_h and mamba2: beams": lambda d: d.model["family"] in UNCACHED and d.kw("guidance_scale") is not None and d.beams,
    "models with recurrent layers: a batch of one row padded on the left": lambda d: d.recurrent and d.model["family"] != "nemotron_h" and d.rows() == 1
    and (d.hidden() or d.hides_negative()),
    "models with recurrent layers: rows padded on the left where a bias": lambda d: d.biased and d.rows() > 1 and (d.hidden() or d.hides_negative()),
    "models with recurrent layers: several tokens on top of a filled cache: a call": lambda d: d.recurrent and d.continued(),
    "models with recurrent layers: several tokens on top of a filled cache: chunks": lambda d: d.recurrent and "prefill_chunk_size" in d.case["kwargs"],
    "models with recurrent layers: several tokens on top of a filled cache: greedy drafts": lambda d: d.recurrent and d.drafts
    and not d.kw("do_sample"),
    "models with recurrent layers: several tokens on top of a filled cache: drawn drafts": lambda d: d.recurrent and d.drafts
    and bool(d.kw("do_sample")),
    "mamba2 with beams and a cache": lambda d: d.stays() and "inputs_embeds" not in d.case,
    "mamba2 with beams and a cache: embeddings": lambda d: d.stays() and "inputs_embeds" in d.case,  # which turn the cache on
    "mamba2 with beams and a cache: its states": lambda d: d.stays() and d.keeps_states,
    "hidden states of mamba2": lambda d: d.model["family"] == "mamba2" and "hidden_states/" in d.sentence,
    "lfm2, a prompt shorter than the convolution's window": lambda d: d.short() and d.cached and not d.embedded,
    "lfm2, a prompt shorter than the convolution's window: embeddings": lambda d: d.short() and d.embedded,
    "lfm2, a prompt shorter than the convolution's window: its states": lambda d: d.short() and d.cached and d.keeps_states,
    "an odd number of rotated places": lambda d: d.unsupported and "rotary positions need an even number" in d.sentence,
}


def explain(d: Difference) -> list[str]:
    """The names of the rows that a difference falls under."""
    return [name for name, holds in LISTED.items() if holds(d)]
