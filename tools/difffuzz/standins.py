"""What the reference answers where it is asked for what a row of docs/departures.md says that Cadenza does in its place.

A row that says "the tokens that no drafts change" is more than a reason to look away: the same request without drafts, or with
the defect taken out of the reference, has an answer, and Cadenza's must be that one. A stand-in is the changed request, or a
patch of the reference for as long as it answers, or both. Rows that no such thing can be said of have none: departures.py
alone decides about them.
"""
from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
import types
from dataclasses import dataclass
from typing import Any, Callable, ContextManager, Iterator

import torch
import transformers.cache_utils as cache_utils
from departures import seen
from golden import golden
from transformers.generation import logits_process as processors
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

Json = dict[str, Any]
Patch = Callable[[Json, Json], ContextManager[None]]  # for a case, with its model's description


def _nothing(case: Json) -> None:
    pass


def _whole(case: Json, model: Json) -> ContextManager[None]:
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Standin:
    change: Callable[[Json], None] = _nothing
    patch: Patch = _whole
    tokens_only: bool = False  # the rest is not the stand-in's: rounds of drafts that are none


def _calls(case: Json) -> list[Json]:
    return [case, *case.get("calls", [])]


def _without(*names: str) -> Callable[[Json], None]:
    def change(case: Json) -> None:
        for call in _calls(case):
            for name in names:
                call["kwargs"].pop(name, None)
    return change


def _recomputing(case: Json) -> None:
    _without("prefill_chunk_size")(case)  # which needs the cache
    for call in _calls(case):
        call["kwargs"]["use_cache"] = False


def _undrafted(case: Json) -> None:
    _without("prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit")(case)
    case.pop("assistant", None)
    case["mode"] = "greedy"


# ---------------------------------------------------------------- the reference, mended for as long as a request lasts
@contextlib.contextmanager
def _in_place(owner: Any, name: str, value: Any) -> Iterator[None]:
    was = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, was)


PROMPTS: list[int] = []  # lengths that the sequence being read began with, the innermost last


def guidance_of_rows(case: Json, model: Json) -> ContextManager[None]:
    """The second sequence holds what the row holds, whatever was asked before; only what is visible has a position."""
    Guidance = processors.UnbatchedClassifierFreeGuidanceLogitsProcessor

    def logits(self: Any, ids: torch.Tensor) -> torch.Tensor:
        own = self.unconditional_context
        if own["first_pass"]:
            own.update(first_pass=False, prompt_len=ids.shape[1], layers=max(self.model.config.num_hidden_layers, len(_layers(self.model))))
            if own["input_ids"] is None:
                own["input_ids"] = ids[:, -1:]
            if own["attention_mask"] is None:
                own["attention_mask"] = torch.ones_like(own["input_ids"], dtype=torch.long)
        new = ids[:, own["prompt_len"]:]
        mask = torch.cat([own["attention_mask"], torch.ones_like(new)], dim=1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with _in_place(self.model.config, "num_hidden_layers", own["layers"]):  # an early exit has fewer while it drafts
            PROMPTS.append(int(own["attention_mask"].sum(-1).max()))
            try:  # with a cache of its own: without one, layers of gemma3n that share keys have other ones
                return self.model(torch.cat([own["input_ids"], new], dim=1), attention_mask=mask, position_ids=positions, use_cache=True).logits
            finally:
                PROMPTS.pop()
    return _in_place(Guidance, "get_unconditional_logits", logits)


def _layers(model: Any) -> Any:
    return max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)


@contextlib.contextmanager
def synthid_of_rows(case: Json, model: Json) -> Iterator[None]:
    """The history is that of the row: every call is made anew from the prompt's end on."""
    SynthId = processors.SynthIDTextWatermarkLogitsProcessor
    begin: list[int] = []  # the prompt's length: of a call's first question
    one_step, one_call = SynthId.__call__, golden.one_call

    def fresh_call(*args: Any) -> Any:
        begin.clear()
        return one_call(*args)

    def call(self: Any, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not begin:
            begin.append(ids.shape[1])
        self.state = None
        for n in range(begin[0], ids.shape[1]):
            one_step(self, ids[:, :n], torch.zeros_like(scores))
        return one_step(self, ids, scores)
    with _in_place(SynthId, "__call__", call), _in_place(golden, "one_call", fresh_call):
        yield


def healed_encoder_ids(case: Json, model: Json) -> ContextManager[None]:
    """Processors that read the prompt see the healed one."""
    make = transformers_mixin()._get_logits_processor

    def healed(self: Any, generation_config: Any, *args: Any, **kwargs: Any) -> Any:
        if generation_config.token_healing and golden.M.healed:
            rows = kwargs["encoder_input_ids"].shape[0]
            kwargs["encoder_input_ids"] = torch.tensor(golden.M.healed[:: len(golden.M.healed) // rows])
        return make(self, generation_config, *args, **kwargs)
    return _in_place(transformers_mixin(), "_get_logits_processor", healed)


def transformers_mixin() -> Any:
    from transformers.generation.utils import GenerationMixin
    return GenerationMixin


@contextlib.contextmanager
def rope_of_steps(case: Json, model: Json) -> Iterator[None]:
    """Dynamic rope by the length of the step that a position belongs to, which is that of the longest row; the prompt is a step. The
    family's own code lays the angles out, below what keeps frequencies from one pass to the next: halves, or pairs as in cohere2."""
    load = golden.load

    def forward(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = []
        for p in position_ids.split(1, 1):
            self.inv_freq = ROPE_INIT_FUNCTIONS["dynamic"](self.config, x.device, seq_len=max(int(p.max()) + 1, PROMPTS[-1]))[0]
            turned.append(inspect.unwrap(type(self).forward)(self, x, p))
        return torch.cat([c for c, _ in turned], 1), torch.cat([s for _, s in turned], 1)

    def loaded(path: str) -> Any:
        whole = load(path)
        for part in whole.modules():
            if getattr(part, "rope_type", None) == "dynamic":
                part.forward = types.MethodType(forward, part)
        return whole
    PROMPTS.append(max([sum(r) for r in seen(case, model)] or case.get("_embeds", {}).get("shape", [0, 1])[1:2]))
    try:
        with _in_place(golden, "load", loaded):
            yield
    finally:
        PROMPTS.pop()


@contextlib.contextmanager
def guidance_and_rope(case: Json, model: Json) -> Iterator[None]:
    with guidance_of_rows(case, model), rope_of_steps(case, model):
        yield


@contextlib.contextmanager
def row_positions(case: Json, model: Json) -> Iterator[None]:
    """Queries grow with the positions of their row, which are those that its rotation gets."""
    from transformers.models.llama4 import modeling_llama4 as llama4
    from transformers.models.ministral3 import modeling_ministral3 as ministral3
    at: list[torch.Tensor] = []

    def turned(kind: Any) -> Callable[..., Any]:
        turn = kind.forward

        def forward(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
            at[:] = [position_ids]
            return turn(self, x, position_ids)
        return forward
    scale, attend = ministral3._get_llama_4_attn_scale, llama4.Llama4TextAttention.forward

    def by_row(_: torch.Tensor, *how: Any) -> torch.Tensor:
        return scale(at[0], *how)[:, None]

    def attended(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.use_rope or not self.attn_temperature_tuning:
            return attend(self, *args, **kwargs)
        grown = torch.log1p(torch.floor((at[0].float() + 1.0) / self.floor_scale)) * self.attn_scale + 1.0
        hook = self.q_proj.register_forward_hook(lambda _m, _i, q: (q * grown[..., None]).to(q.dtype))
        try:
            with _in_place(self, "attn_temperature_tuning", False):
                return attend(self, *args, **kwargs)
        finally:
            hook.remove()
    with contextlib.ExitStack() as stack:
        for kind in (ministral3.Ministral3RotaryEmbedding, llama4.Llama4TextRotaryEmbedding):
            stack.enter_context(_in_place(kind, "forward", turned(kind)))
        stack.enter_context(_in_place(ministral3, "_get_llama_4_attn_scale", by_row))
        stack.enter_context(_in_place(llama4.Llama4TextAttention, "forward", attended))
        yield


class WholeLayer(cache_utils.DynamicLayer):
    """A window's keys, all of them kept: the mask hides what the window does."""

    def __init__(self, sliding_window: int | None = None) -> None:
        super().__init__()


def whole_windows(case: Json, model: Json) -> ContextManager[None]:
    return _in_place(cache_utils, "DynamicSlidingWindowLayer", WholeLayer)


@contextlib.contextmanager
def masked_states(case: Json, model: Json) -> Iterator[None]:
    """Padding is kept out of states where a batch has one row, too, and what a bias makes of it out of convolutions."""
    last: list[torch.Tensor | None] = [None]
    run = golden.run

    def masked(states: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        last[:] = [mask]
        return states if mask is None or mask.shape[1] < 2 else (states * mask[:, :, None]).to(states.dtype)

    def keep_out(_module: Any, _given: Any, made: torch.Tensor) -> torch.Tensor:
        fits = last[0] is not None and last[0].shape == made.shape[:2] and made.shape[1] > 1
        return made * last[0][:, :, None] if fits else made

    def run_masked(ctx: Any, asked: Json) -> Json:
        hooks = [part.register_forward_hook(keep_out) for name, part in ctx.model.named_modules() if name.endswith("in_proj")]
        try:
            return run(ctx, asked)
        finally:
            for hook in hooks:
                hook.remove()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_in_place(golden, "run", run_masked))
        for module in [m for n, m in sys.modules.items() if n.startswith("transformers.models.") and hasattr(m, "apply_mask_to_padding_states")]:
            stack.enter_context(_in_place(module, "apply_mask_to_padding_states", masked))
        yield


STANDINS: dict[str, Standin] = {
    "prefill_chunk_size with drafts": Standin(_without("prefill_chunk_size")),
    "prefill_chunk_size with a filled cache": Standin(_without("prefill_chunk_size")),
    "prefill_chunk_size with dynamic rope": Standin(_without("prefill_chunk_size")),
    "attentions and hidden states with prefill_chunk_size": Standin(_without("prefill_chunk_size")),
    "attentions and hidden states without a cache": Standin(_without("use_cache")),
    "attentions of a static cache": Standin(_without("cache_implementation")),
    "attentions of a sliding window": Standin(patch=whole_windows),
    "a phi3 longrope request whose cache crosses": Standin(_recomputing),
    "encoder penalties with token healing": Standin(patch=healed_encoder_ids),
    "SynthID under beams": Standin(patch=synthid_of_rows),
    "SynthID with drafts": Standin(patch=synthid_of_rows),
    "guidance with drafts by a model": Standin(patch=guidance_of_rows),
    "guidance with prompt lookup": Standin(patch=guidance_of_rows),
    "guidance with a padded negative prompt": Standin(patch=guidance_of_rows),
    "queries that grow with their position: a row padded on the left": Standin(patch=row_positions),
    "gemma3n without a cache": Standin(_without("use_cache")),
    "guidance on granitemoehybrid, falcon_h1, nemotron_h and mamba2": Standin(patch=guidance_of_rows),
    "models with recurrent layers: a batch of one row padded on the left": Standin(patch=masked_states),
    "models with recurrent layers: rows padded on the left where a bias": Standin(patch=masked_states),
    "models with recurrent layers: several tokens on top of a filled cache: chunks": Standin(_without("prefill_chunk_size")),
    "models with recurrent layers: several tokens on top of a filled cache: drafts": Standin(_undrafted, tokens_only=True),
    "mamba2 with beams and a cache": Standin(_recomputing),
    "lfm2, a prompt shorter than the convolution's window": Standin(_recomputing),
    "dynamic rope with drafts: greedy": Standin(_undrafted, tokens_only=True),
    "dynamic rope with drafts: prompt lookup": Standin(patch=rope_of_steps),
    "dynamic rope with drafts: drawn": Standin(patch=rope_of_steps),
    "dynamic rope with guidance": Standin(patch=guidance_and_rope),
}


@contextlib.contextmanager
def standing_in(names: list[str], case: Json, model: Json) -> Iterator[Json]:
    """The changed case, with the reference mended."""
    changed = copy.deepcopy(case)
    with contextlib.ExitStack() as stack:
        for name in names:
            STANDINS[name].change(changed)
            stack.enter_context(STANDINS[name].patch(case, model))
        yield changed


def _tokens_only(names: list[str]) -> bool:
    return any(STANDINS[n].tokens_only for n in names)


def compared(names: list[str], expect: Json) -> Json:
    """What of the stand-in's answer is expected of Cadenza."""
    return {"sequences": expect["sequences"]} if _tokens_only(names) else expect


def recorded(names: list[str], case: Json) -> Json:
    """The case, without a record of what the stand-in says nothing of."""
    return {**case, "record": {}} if _tokens_only(names) else case
