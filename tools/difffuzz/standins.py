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
from departures import seen, setting
from golden import golden
from transformers.generation import candidate_generator as candidates
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
    last_places: bool = False  # its passes read all positions again: of what they give of states, the last position's counts


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


def _of_ids(case: Json) -> None:
    """What stands beside embeddings is read in their place, and processors do not see it."""
    _without("prefill_chunk_size", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty")(case)
    case.pop("inputs_embeds")


def _undrafted_anew(case: Json) -> None:
    _undrafted(case)
    _recomputing(case)


def _undrafted(case: Json) -> None:
    _without("prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit")(case)
    case.pop("assistant", None)
    case["mode"] = "greedy"


# ---------------------------------------------------------------- the reference, mended for as long as a request lasts
@contextlib.contextmanager
def _in_place(owner: Any, name: str, value: Any) -> Iterator[None]:
    was = vars(owner)[name] if isinstance(owner, type) and name in vars(owner) else getattr(owner, name)  # a static method stays one
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, was)


PROMPTS: list[int] = []  # lengths that the sequence being read began with, the innermost last


def _begin_second(own: Json, model: Any, ids: torch.Tensor) -> None:
    own.update(first_pass=False, prompt_len=ids.shape[1], layers=max(model.config.num_hidden_layers, len(_layers(model))), came=ids[:, :0])
    if own["input_ids"] is None:
        own["input_ids"] = ids[:, -1:]
    if own["attention_mask"] is None:
        own["attention_mask"] = torch.ones_like(own["input_ids"], dtype=torch.long)


def _second_sequence(news: Callable[[Json, torch.Tensor], torch.Tensor]) -> ContextManager[None]:
    """The second sequence is read anew with each question; only what is visible has a position. news: what it has behind its prompt."""
    Guidance = processors.UnbatchedClassifierFreeGuidanceLogitsProcessor

    def logits(self: Any, ids: torch.Tensor) -> torch.Tensor:
        own = self.unconditional_context
        if own["first_pass"]:
            _begin_second(own, self.model, ids)
        else:
            own["came"] = torch.cat([own["came"], ids[:, -1:]], dim=1)
        new = news(own, ids)
        mask = torch.cat([own["attention_mask"], torch.ones_like(new)], dim=1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with _in_place(self.model.config, "num_hidden_layers", own["layers"]):  # an early exit has fewer while it drafts
            PROMPTS.append(int(own["attention_mask"].sum(-1).max()))
            try:  # with a cache of its own: without one, layers of gemma3n that share keys have other ones
                return self.model(torch.cat([own["input_ids"], new], dim=1), attention_mask=mask, position_ids=positions, use_cache=True).logits
            finally:
                PROMPTS.pop()
    return _in_place(Guidance, "get_unconditional_logits", logits)


def guidance_of_rows(case: Json, model: Json) -> ContextManager[None]:
    """The second sequence holds what the row holds, whatever was asked before."""
    return _second_sequence(lambda own, ids: ids[:, own["prompt_len"]:])


def guidance_of_places(case: Json, model: Json) -> ContextManager[None]:
    """The second sequence stays at its place while beams move, as the reference's: it holds the tokens that came to this place."""
    return _second_sequence(lambda own, ids: own["came"])


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


@contextlib.contextmanager
def healed_mask(case: Json, model: Json) -> Iterator[None]:
    """Mask and positions become those of the healed prompt, which begins behind its pads."""
    mixin = transformers_mixin()
    expand, heal = mixin._expand_inputs_for_generation, mixin.heal_tokens
    inputs: Json = {}  # what generate goes on with: both are in it, and read after healing

    def expanded(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, Json]:
        nonlocal inputs
        ids, inputs = expand(*args, **kwargs)
        return ids, inputs

    def healed(self: Any, ids: torch.Tensor, tokenizer: Any) -> torch.Tensor:
        own = inputs  # healing generates too
        prompt = heal(self, ids, tokenizer)
        own["attention_mask"] = mask = ((prompt != tokenizer.pad_token_id).cumsum(-1) > 0).long()
        if "position_ids" in own:
            own["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        return prompt
    with _in_place(mixin, "_expand_inputs_for_generation", staticmethod(expanded)), _in_place(mixin, "heal_tokens", healed):
        yield


@contextlib.contextmanager
def embedded_first(case: Json, model: Json) -> Iterator[None]:
    """Hidden states of mamba2 begin with what is embedded; the last layer's, which come with and without the norm, come with it."""
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Model
    forward = Mamba2Model.forward

    def begun(self: Any, *args: Any, **kwargs: Any) -> Any:
        read: list[torch.Tensor] = []
        hook = self.layers[0].register_forward_pre_hook(lambda _, given: read.append(given[0]))
        try:
            made = forward(self, *args, **kwargs)
        finally:
            hook.remove()
        if getattr(made, "hidden_states", None) is not None:
            made.hidden_states = (read[0], *made.hidden_states[:-2], made.hidden_states[-1])
        return made
    with _in_place(Mamba2Model, "forward", begun):
        yield


def transformers_mixin() -> Any:
    from transformers.generation.utils import GenerationMixin
    return GenerationMixin


@contextlib.contextmanager
def rope_of_steps(case: Json, model: Json) -> Iterator[None]:
    """Dynamic rope by the length of the step that a position belongs to, which is that of the longest row; the prompt is a step. A draft
    model decodes for itself: a pass of it has its own length, and leaves nothing to the next; so has a pass that reads everything again,
    for want of a cache. The family's own code lays the angles out, below what keeps frequencies from one pass to the next: halves, or
    pairs as in cohere2."""
    load, one_call = golden.load, golden.one_call
    cached = setting(case, model, "use_cache", True) is not False or "inputs_embeds" in case  # which turn the cache on

    def call(ctx: Any, asked: Json, *more: Any) -> Any:
        PROMPTS.append(max([sum(r) for r in seen({**case, **asked}, model)] or case.get("_embeds", {}).get("shape", [0, 1])[1:2]))
        try:
            return one_call(ctx, asked, *more)
        finally:
            PROMPTS.pop()

    def forward(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        turned = []
        for p in position_ids.split(1 if self.by_steps else position_ids.shape[1], 1):
            self.inv_freq = ROPE_INIT_FUNCTIONS["dynamic"](self.config, x.device, seq_len=max(int(p.max()) + 1, PROMPTS[-1] * self.by_steps))[0]
            turned.append(inspect.unwrap(type(self).forward)(self, x, p))
        return torch.cat([c for c, _ in turned], 1), torch.cat([s for _, s in turned], 1)

    def loaded(path: str) -> Any:
        whole = load(path)
        for part in whole.modules():
            if getattr(part, "rope_type", None) == "dynamic":
                part.forward = types.MethodType(forward, part)
                part.by_steps = os.path.basename(path) == "m" and cached
        return whole
    Drafter = candidates.AssistedCandidateGenerator
    cut = Drafter._update_past_and_masks

    def cut_to_new(self: Any, ids: torch.Tensor, beyond: int = 0, again: int = 0) -> bool:
        """A token that a draft read stays as it was read: the reference reads the last one again, with the next pass's length."""
        return cut(self, ids, beyond, again)
    with _in_place(golden, "load", loaded), _in_place(golden, "one_call", call), _in_place(Drafter, "_update_past_and_masks", cut_to_new):
        yield


@contextlib.contextmanager
def guidance_and_rope(case: Json, model: Json) -> Iterator[None]:
    with guidance_of_rows(case, model), rope_of_steps(case, model):
        yield


@contextlib.contextmanager
def places_and_rope(case: Json, model: Json) -> Iterator[None]:
    with guidance_of_places(case, model), rope_of_steps(case, model):
        yield


@contextlib.contextmanager
def embeddings_anew(case: Json, model: Json) -> Iterator[None]:
    """A prompt of embeddings without a cache, which the reference lacks: each pass reads them, and the tokens behind them, from the start.
    So is the second sequence of guidance read."""
    run, width = golden.run, len((case["prompt_ids"] or [[]])[0])

    def prepare(self: Any, input_ids: torch.Tensor, inputs_embeds: Any = None, attention_mask: Any = None, **_: Any) -> Json:
        new = self.get_input_embeddings()(input_ids[:, width:])
        return {"inputs_embeds": torch.cat([inputs_embeds, new], dim=1), "attention_mask": attention_mask, "use_cache": False}

    def run_anew(ctx: Any, asked: Json) -> Json:
        with _in_place(type(ctx.model), "prepare_inputs_for_generation", prepare):
            return run(ctx, asked)
    with guidance_of_places(case, model), _in_place(golden, "run", run_anew):
        yield


def _everything(self: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> Json:
    """What a pass reads where nothing is kept from one to the next."""
    return {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": (attention_mask.cumsum(-1) - 1).clamp(min=0)}


@contextlib.contextmanager
def states_anew(case: Json, model: Json) -> Iterator[None]:
    """Each pass makes its states from the start: they hold what stands before, and nothing of drafts that were not taken."""
    run = golden.run

    def run_anew(ctx: Any, asked: Json) -> Json:
        with _in_place(type(ctx.model), "prepare_inputs_for_generation", _everything):
            return run(ctx, asked)
    with _in_place(golden, "run", run_anew):
        yield


@contextlib.contextmanager
def longrope_of_steps(case: Json, model: Json) -> Iterator[None]:
    """Drafts of phi3: each position as the step that it belongs to reads it, all of its past with that step's frequencies."""
    run, config = golden.run, model["config"]
    original = config.get("original_max_position_embeddings") or config["rope_parameters"]["original_max_position_embeddings"]

    def both(forward: Callable[..., Any]) -> Callable[..., Any]:
        def stepwise(self: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, **how: Any) -> Any:
            made = forward(self, input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=True)
            cut = int((attention_mask.cumsum(-1) <= original).sum())
            if cut < input_ids.shape[1]:
                early = forward(self, input_ids[:, :cut], attention_mask=attention_mask[:, :cut], position_ids=position_ids[:, :cut])
                made.logits = torch.cat([early.logits, made.logits[:, cut:]], dim=1)
            return made
        return stepwise

    def run_stepwise(ctx: Any, asked: Json) -> Json:
        kind = type(ctx.model)
        with _in_place(kind, "prepare_inputs_for_generation", _everything), _in_place(kind, "forward", both(kind.forward)):
            return run(ctx, asked)
    with whole_windows(case, model), _in_place(golden, "run", run_stepwise):
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
    "prefill_chunk_size with embeddings as prompt": Standin(_of_ids),
    "attentions and hidden states with prefill_chunk_size": Standin(_without("prefill_chunk_size")),
    "attentions and hidden states without a cache": Standin(_without("use_cache")),
    "attentions of a static cache": Standin(_without("cache_implementation")),
    "attentions of a sliding window": Standin(patch=whole_windows),
    "a phi3 or phimoe longrope request whose cache crosses": Standin(_recomputing),
    "a phi3 or phimoe longrope request whose cache crosses: embeddings": Standin(patch=embeddings_anew),
    "a phi3 or phimoe longrope request whose cache crosses: its states": Standin(last_places=True),
    "a phi3 or phimoe longrope request whose cache crosses: greedy drafts": Standin(_undrafted_anew, tokens_only=True),
    "a phi3 or phimoe longrope request whose cache crosses: drawn drafts": Standin(patch=longrope_of_steps),
    "attentions and hidden states without a cache: the length counts": Standin(last_places=True),
    "token healing that changes the prompt's length": Standin(patch=healed_mask),
    "encoder penalties with token healing": Standin(patch=healed_encoder_ids),
    "SynthID under beams": Standin(patch=synthid_of_rows),
    "SynthID with drafts": Standin(patch=synthid_of_rows),
    "guidance with drafts by a model": Standin(patch=guidance_of_rows),
    "guidance with prompt lookup": Standin(patch=guidance_of_rows),
    "guidance with a padded negative prompt": Standin(patch=guidance_of_rows),
    "guidance with a padded negative prompt: beams": Standin(patch=guidance_of_places),
    "queries that grow with their position: a row padded on the left": Standin(patch=row_positions),
    "gemma3n without a cache": Standin(_without("use_cache")),
    "guidance on granitemoehybrid, falcon_h1, nemotron_h and mamba2": Standin(patch=guidance_of_rows),
    "guidance on granitemoehybrid, falcon_h1, nemotron_h and mamba2: beams": Standin(patch=guidance_of_places),
    "models with recurrent layers: a batch of one row padded on the left": Standin(patch=masked_states),
    "models with recurrent layers: rows padded on the left where a bias": Standin(patch=masked_states),
    "models with recurrent layers: several tokens on top of a filled cache: chunks": Standin(_without("prefill_chunk_size")),
    "models with recurrent layers: several tokens on top of a filled cache: greedy drafts": Standin(_undrafted, tokens_only=True),
    "models with recurrent layers: several tokens on top of a filled cache: drawn drafts": Standin(patch=states_anew),
    "models with recurrent layers: several tokens on top of a filled cache: a call": Standin(_recomputing),
    "mamba2 with beams and a cache": Standin(_recomputing),
    "mamba2 with beams and a cache: embeddings": Standin(patch=embeddings_anew),
    "mamba2 with beams and a cache: its states": Standin(last_places=True),
    "hidden states of mamba2": Standin(patch=embedded_first),
    "lfm2, a prompt shorter than the convolution's window": Standin(_recomputing),
    "lfm2, a prompt shorter than the convolution's window: embeddings": Standin(patch=embeddings_anew),
    "lfm2, a prompt shorter than the convolution's window: its states": Standin(last_places=True),
    "dynamic rope with drafts: greedy": Standin(_undrafted, tokens_only=True),
    "dynamic rope with drafts: prompt lookup": Standin(patch=rope_of_steps),
    "dynamic rope with drafts: drawn": Standin(patch=rope_of_steps),
    "dynamic rope with drafts: its states": Standin(patch=rope_of_steps),
    "dynamic rope with guidance": Standin(patch=guidance_and_rope),
    "dynamic rope with guidance: drawn drafts": Standin(patch=guidance_and_rope),
    "dynamic rope with guidance: beams": Standin(patch=places_and_rope),
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


def _last_places(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of a pass that read every position again, what belongs to the last: the shape that a step has with a cache."""
    def of_step(name: str) -> bool:
        kind, step = name.split("/")[1:3]
        return kind in ("attentions", "hidden_states") and step != "0"
    return {n: t[..., -1:, :] if of_step(n) else t for n, t in tensors.items()}


def tensors_of(names: list[str], tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The stand-in's outputs, in the shape that Cadenza gives."""
    outputs = {n: t for n, t in tensors.items() if not n.startswith("input:")}
    return _last_places(outputs) if any(STANDINS[n].last_places for n in names) else outputs


def _tokens_only(names: list[str]) -> bool:
    return any(STANDINS[n].tokens_only for n in names)


def compared(names: list[str], expect: Json) -> Json:
    """What of the stand-in's answer is expected of Cadenza."""
    return {"sequences": expect["sequences"]} if _tokens_only(names) else expect


def recorded(names: list[str], case: Json) -> Json:
    """The case, without a record of what the stand-in says nothing of."""
    return {**case, "record": {}} if _tokens_only(names) else case
