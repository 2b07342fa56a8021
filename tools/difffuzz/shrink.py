"""Makes a case that shows a difference smaller, as long as it still shows it. Nothing here knows torch.

A candidate is the whole (description of the model, case) with one thing simpler. All candidates of a round are judged together,
since that costs one call of the program.
"""
from __future__ import annotations

import copy
from typing import Any, Callable, Iterator

Json = dict[str, Any]
Pair = tuple[Json, Json]  # the model's description, the case
NEEDED = {"max_new_tokens"}
# what one word of a configuration may become, for a model that is easier to look at
PLAIN_CONFIG = {"sliding_window": None, "use_sliding_window": False, "attention_bias": False, "mlp_bias": False, "use_qkv_bias": False,
                "tie_word_embeddings": False, "attn_logit_softcapping": None, "final_logit_softcapping": None,
                "scale_attn_by_inverse_layer_idx": False, "scale_embedding": False, "mlp_only_layers": []}
LAYERS = ("num_hidden_layers", "n_layer", "num_decoder_layers", "num_layers", "encoder_layers", "decoder_layers")


def _with(pair: Pair, change: Callable[[Json, Json], Any]) -> Pair:
    description, case = copy.deepcopy(pair)
    change(description, case)
    return description, case


def _rows(case: Json) -> int:
    return len(case["prompt_ids"] or [])


PER_ROW = ("negative_prompt_ids", "negative_prompt_attention_mask", "decoder_input_ids", "decoder_attention_mask")


def _drop_row(case: Json, row: int) -> None:
    n = _rows(case)
    del case["prompt_ids"][row]
    if isinstance(case.get("attention_mask"), list):
        del case["attention_mask"][row]
    for name in PER_ROW:
        rows = case["kwargs"].get(name)
        if rows and len(rows) % n == 0:
            each = len(rows) // n
            del rows[row * each : (row + 1) * each]
    cycles = (case["kwargs"].get("prefix_allowed_tokens") or {}).get("batch_cycles")
    if cycles:
        del cycles[row]
    for call in case.get("calls", []):
        if "append_ids" in call:
            del call["append_ids"][row]
    if "_embeds" in case:
        case["_embeds"]["shape"][0] -= 1


def _cut_prompt(case: Json, n: int, at_end: bool) -> None:
    part = slice(None, -n) if at_end else slice(n, None)
    case["prompt_ids"] = [r[part] for r in case["prompt_ids"]]
    if isinstance(case.get("attention_mask"), list):
        case["attention_mask"] = [r[part] for r in case["attention_mask"]]
    if "_embeds" in case:
        case["_embeds"]["shape"][1] -= n


def _simpler_kwargs(pair: Pair) -> Iterator[Pair]:
    kwargs = pair[1]["kwargs"]
    for name in kwargs:
        if name not in NEEDED:
            def drop(_: Json, case: Json, name: str = name) -> None:
                for kw in [case["kwargs"]] + [c["kwargs"] for c in case.get("calls", [])]:
                    kw.pop(name, None)
            yield _with(pair, drop)
        if isinstance(kwargs[name], list) and len(kwargs[name]) > 1 and name not in PER_ROW:
            for half in (slice(None, len(kwargs[name]) // 2), slice(len(kwargs[name]) // 2, None)):
                yield _with(pair, lambda _, case, name=name, half=half: case["kwargs"].update({name: kwargs[name][half]}))
    new = kwargs.get("max_new_tokens", 0)
    for fewer in {new // 2, new - 1}:
        if 0 < fewer < new:
            yield _with(pair, lambda _, case, fewer=fewer: case["kwargs"].update(max_new_tokens=fewer))
    beams = kwargs.get("num_beams", 1)
    if beams > 2:
        yield _with(pair, lambda _, case: case["kwargs"].update(num_beams=beams - 1))
    if kwargs.get("num_return_sequences", 1) > 1:
        yield _with(pair, lambda _, case: case["kwargs"].update(num_return_sequences=kwargs["num_return_sequences"] - 1))


def _simpler_case(pair: Pair) -> Iterator[Pair]:
    case = pair[1]
    if "calls" in case:
        yield _with(pair, lambda _, c: c.pop("calls"))
        if len(case["calls"]) > 1:
            yield _with(pair, lambda _, c: c["calls"].pop())
    if "assistant" in case:
        yield _with(pair, lambda _, c: (c.pop("assistant"), c.update(mode="sample" if c["kwargs"].get("do_sample") else "greedy")))
        for name in case["assistant"].get("generation_config", {}):
            yield _with(pair, lambda _, c, name=name: c["assistant"]["generation_config"].pop(name))
    if "inputs_embeds" in case and case["prompt_ids"] is not None:
        yield _with(pair, lambda _, c: (c.pop("inputs_embeds"), c.pop("_embeds", None)))
    ones = [[1] * len(r) for r in case["prompt_ids"] or []]
    if "attention_mask" in case and case["attention_mask"] != ones:
        yield _with(pair, lambda _, c: c.update(attention_mask=ones))
    for name in case.get("record", {}):
        yield _with(pair, lambda _, c, name=name: c["record"].pop(name))
    if _rows(case) > 1:
        for row in range(_rows(case)):
            yield _with(pair, lambda _, c, row=row: _drop_row(c, row))
    length = len(case["prompt_ids"][0]) if case["prompt_ids"] else 0
    for n in {length // 2, 1}:
        for at_end in (False, True):
            if 0 < n < length:
                yield _with(pair, lambda _, c, n=n, at_end=at_end: _cut_prompt(c, n, at_end))


def _simpler_model(pair: Pair) -> Iterator[Pair]:
    description = pair[0]
    config = description["config"]
    for name, plain in PLAIN_CONFIG.items():
        if name in config and config[name] != plain:
            yield _with(pair, lambda d, _, name=name, plain=plain: d["config"].update({name: plain}))
    layers = [k for k in LAYERS if config.get(k, 1) > 1]
    if layers:
        def one_layer(d: Json, _: Json) -> None:
            d["config"].update({k: 1 for k in layers})
            if d["config"].get("layer_types"):
                d["config"]["layer_types"] = d["config"]["layer_types"][:1]
        yield _with(pair, one_layer)
    rope = config.get("rope_parameters", {})
    if rope.get("rope_type", "default") != "default":
        yield _with(pair, lambda d, _: d["config"].update(rope_parameters={
            k: v for k, v in {**rope, "rope_type": "default"}.items() if k in ("rope_type", "rope_theta", "partial_rotary_factor")}))
    if description["dtype"] != "float32":
        yield _with(pair, lambda d, _: d.update(dtype="float32"))
    if description.get("old_style"):
        yield _with(pair, lambda d, _: d.update(old_style=False))
    for name in description.get("generation", {}):
        if name != "decoder_start_token_id":
            yield _with(pair, lambda d, _, name=name: d["generation"].pop(name))


def candidates(pair: Pair) -> list[Pair]:
    """Everything that is one step simpler, the largest steps first."""
    return [*_simpler_case(pair), *_simpler_kwargs(pair), *_simpler_model(pair)]


def shrink(pair: Pair, judge: Callable[[list[Pair]], list[bool]], questions: int = 200, at_once: int = 8) -> Pair:
    """judge says of each pair whether it still shows the difference. Passes over all that can go, until none can or it was asked
    so often: a busy machine makes nothing larger."""
    shrunk = True
    while shrunk:
        at, shrunk = 0, False
        while questions > 0 and (simpler := candidates(pair)[at : at + at_once]):
            questions -= 1
            found = next((i for i, shows in enumerate(judge(simpler)) if shows), None)
            if found is None:
                at += len(simpler)
            else:
                pair, at, shrunk = simpler[found], at + found, True
    return pair
