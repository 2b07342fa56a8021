"""What descriptions of small models share: sizes, heads, ropes, windows."""
from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

LAST_ID = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)


def maybe(rng: random.Random, p: float) -> bool:
    return rng.random() < p


def heads(rng: random.Random, explicit_dim: bool = False) -> Json:
    """hidden_size, heads and their size; key heads divide the heads."""
    heads = rng.choice([1, 2, 2, 3, 4, 4])
    dim = rng.choice([4, 6, 8, 8, 10, 12])
    kv = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    shape = dict(num_attention_heads=heads, num_key_value_heads=kv, hidden_size=heads * dim)
    if explicit_dim:
        shape.update(head_dim=dim, hidden_size=rng.choice([12, 16, 18, 24]))
    return shape


def draw_rope(rng: random.Random, kinds: tuple[str, ...] = ("default", "linear", "dynamic", "yarn", "llama3"),
          partial: float | None = None, context: int = 256) -> Json:
    kind = "default" if maybe(rng, 0.45) else rng.choice(kinds)
    rope: Json = {"rope_type": kind, "rope_theta": rng.choice([100.0, 10000.0, 500000.0])}
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        rope["factor"] = rng.choice([2.0, 4.0, 8.0])
    if kind == "yarn":
        rope["original_max_position_embeddings"] = rng.choice([8, 16, 32])
        if maybe(rng, 0.3):
            rope.update(beta_fast=rng.choice([16.0, 32.0]), beta_slow=rng.choice([1.0, 2.0]))
        if maybe(rng, 0.3):
            rope["attention_factor"] = rng.choice([0.8, 1.2])
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=rng.choice([2.0, 4.0]),
                    original_max_position_embeddings=rng.choice([16, 64]))
    if partial is not None:
        rope["partial_rotary_factor"] = partial
    return rope


def llama_like(rng: random.Random, name: str, explicit_dim: bool = False, **more: Any) -> Json:
    """What most decoders share."""
    rope = draw_rope(rng)
    context = rng.choice([12, 16, 24]) if rope["rope_type"] == "dynamic" else rng.choice([128, 256])
    config = dict(vocab_size=rng.choice([40, 48, 57, 64, 96]), intermediate_size=rng.choice([16, 24, 33]),
                  num_hidden_layers=rng.choice([1, 2, 2, 3]), max_position_embeddings=context,
                  rope_parameters=rope, tie_word_embeddings=maybe(rng, 0.3),
                  **heads(rng, explicit_dim), **LAST_ID, **more)
    if maybe(rng, 0.2):
        config["hidden_act"] = rng.choice(["gelu", "relu", "gelu_pytorch_tanh"])
    if maybe(rng, 0.3):
        config["rms_norm_eps"] = rng.choice([1e-5, 1e-3])
    init = dict(emb=0.6, gain=2.4, flip=True) if config["tie_word_embeddings"] else {}
    return {"class": name, "config": config, "init": init}


def window(rng: random.Random) -> int | None:
    return rng.choice([None, 3, 5, 7, 8, 12])


def experts_fit(d: Json, gate: float = 0.8) -> Json:
    """transformers' grouped product takes rows of 16 bytes alone."""
    d["init"]["gate"] = gate
    config = d["config"]
    unit = 4 if "head_dim" in config else 4 * config["num_attention_heads"]
    config["hidden_size"] = max(config["hidden_size"] // unit, 1) * unit
    config["intermediate_size"] = config["intermediate_size"] // 4 * 4
    return d


def by_family(d: Json, after: str | None = None, **init: Any) -> Json:
    d["init"], d["init_by"] = init, "family"
    if after:
        d["after"] = after
    return d


def experts(rng: random.Random, n: str, chosen: str) -> Json:
    """How many experts there are, and how many are asked."""
    experts = rng.choice([2, 4, 5, 6])
    return {n: experts, chosen: rng.choice([k for k in (1, 2, 3) if k < experts])}


def slides(d: Json, rng: random.Random) -> Json:
    """Windows in layers that are listed."""
    n = d["config"]["num_hidden_layers"]
    d["config"].update(sliding_window=rng.choice([3, 6, 9]),
                       layer_types=[rng.choice(["sliding_attention", "full_attention"]) for _ in range(n)])
    return d
