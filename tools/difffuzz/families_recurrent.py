"""Random small models of the families with recurrent layers, with the weights of golden_plan_families.py."""
from __future__ import annotations

import random
from typing import Any

from shapes import LAST_ID, Json, by_family, experts, experts_fit, heads, maybe

QZERO = ("layernorm", "q_norm", "k_norm", "model.norm")  # 1 + w; the gated norm of the delta net counts from one


def _sizes(rng: random.Random, explicit_dim: bool = True) -> Json:
    return dict(vocab_size=rng.choice([40, 57, 64]), intermediate_size=rng.choice([16, 24, 40]), max_position_embeddings=256, **heads(rng, explicit_dim), **LAST_ID)


def _rope(theta: float = 10000.0, **more: Any) -> Json:
    return dict(rope_type="default", rope_theta=theta, **more)


def _kinds(rng: random.Random, recurrent: str, attention: str) -> list[str]:
    """Of each layer; one of either kind at least where there are two."""
    n = rng.choice([1, 2, 3, 4])
    kinds = [rng.choice([recurrent, attention]) for _ in range(n)]
    kinds[rng.randrange(n)] = recurrent
    if n > 1 and attention not in kinds:
        kinds[kinds.index(recurrent)] = attention
    return kinds


def _lfm2(rng: random.Random, name: str, **more: Any) -> Json:
    kinds = _kinds(rng, "conv", "full_attention")
    if "full_attention" not in kinds:
        kinds.append("full_attention")  # transformers looks for one
    config = dict(_sizes(rng, False), layer_types=kinds, num_hidden_layers=len(kinds), conv_L_cache=rng.choice([2, 3, 4]), conv_bias=maybe(rng, 0.3),
                  tie_word_embeddings=True, rope_parameters=_rope(1000000.0), **more)
    return by_family({"class": name, "config": config}, emb=0.5, gain=2.2, flip=True)


def lfm2(rng: random.Random) -> Json:
    return _lfm2(rng, "Lfm2Config", block_multiple_of=rng.choice([4, 16]), block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=maybe(rng, 0.7))


def lfm2_moe(rng: random.Random) -> Json:
    d = _lfm2(rng, "Lfm2MoeConfig", moe_intermediate_size=rng.choice([8, 16]), num_dense_layers=rng.choice([0, 1]), use_expert_bias=maybe(rng, 0.7),
              routed_scaling_factor=rng.choice([1.0, 1.3]), norm_topk_prob=maybe(rng, 0.7), **experts(rng, "num_experts", "num_experts_per_tok"))
    experts_fit(d, 0.45)
    return d


def _ssm(rng: random.Random, prefix: str = "mamba_", count: str = "n_heads", dim: str = "d_head", state: str = "d_state", groups: str = "n_groups") -> Json:
    n_groups = rng.choice([1, 2])
    return {prefix + count: n_groups * rng.choice([2, 4]), prefix + dim: 8, prefix + state: rng.choice([8, 12, 16]), prefix + groups: n_groups}


def mamba2(rng: random.Random) -> Json:
    n_groups, n_heads = rng.choice([1, 2]), rng.choice([4, 8])
    config = dict(vocab_size=rng.choice([40, 57, 64]), hidden_size=n_heads * 4, num_heads=n_heads, head_dim=8, expand=2, state_size=rng.choice([8, 16]), n_groups=n_groups,
                  num_hidden_layers=rng.choice([1, 2, 3]), conv_kernel=rng.choice([2, 4]), chunk_size=rng.choice([4, 8, 64]), use_conv_bias=maybe(rng, 0.7), use_bias=maybe(rng, 0.3),
                  tie_word_embeddings=False, **LAST_ID)
    return by_family({"class": "Mamba2Config", "config": config}, gain=2.0, head=0.6)


def granitemoehybrid(rng: random.Random) -> Json:
    kinds = _kinds(rng, "mamba", "attention")
    sizes = _sizes(rng, False)
    sizes["hidden_size"] = sizes["num_attention_heads"] * 8
    width = sizes["hidden_size"]
    config = dict(sizes, layer_types=kinds, num_hidden_layers=len(kinds), embedding_multiplier=rng.choice([1.0, 3.0]), logits_scaling=rng.choice([1.0, 2.0]),
                  residual_multiplier=rng.choice([0.6, 1.0]), attention_multiplier=rng.choice([0.2, 0.4]), shared_intermediate_size=rng.choice([16, 28]),
                  position_embedding_type=rng.choice(["nope", "rope"]), mamba_n_heads=width * 2 // 8, mamba_d_head=8, mamba_n_groups=1, mamba_expand=2,
                  mamba_d_state=rng.choice([8, 12]), mamba_d_conv=rng.choice([2, 4]), mamba_chunk_size=rng.choice([4, 8, 64]), tie_word_embeddings=maybe(rng, 0.3),
                  rope_parameters=_rope(), **experts(rng, "num_local_experts", "num_experts_per_tok"))
    d = by_family({"class": "GraniteMoeHybridConfig", "config": config}, head=1.0, gain=2.0)
    config["intermediate_size"] = config["intermediate_size"] // 4 * 4
    d["init"]["gate"] = 0.5
    return d


def falcon_h1(rng: random.Random) -> Json:
    n = rng.choice([2, 4, 6])
    config = dict(_sizes(rng), num_hidden_layers=rng.choice([1, 2, 3]), mamba_d_ssm=n * 8, mamba_n_heads=n, mamba_d_head=8, mamba_n_groups=rng.choice([1, 2]),
                  mamba_d_state=rng.choice([8, 16]), mamba_d_conv=rng.choice([2, 4]), mamba_chunk_size=rng.choice([4, 8, 64]), mamba_rms_norm=False,
                  rope_parameters=_rope(100000.0), lm_head_multiplier=0.8, embedding_multiplier=1.7, mlp_multipliers=[0.9, 0.6], key_multiplier=0.7,
                  attention_out_multiplier=0.8, attention_in_multiplier=1.1, ssm_multipliers=[0.8, 0.6, 1.2, 0.7, 0.9], ssm_in_multiplier=1.3, ssm_out_multiplier=0.9)
    return by_family({"class": "FalconH1Config", "config": config}, gain=2.0, head=0.8)


def nemotron_h(rng: random.Random) -> Json:
    kinds = rng.choice([["mamba"], ["mamba", "attention"], ["mamba", "moe"], ["mamba", "moe", "attention"], ["attention", "mamba", "moe"]])
    n, some = rng.choice([2, 4]), experts(rng, "n_routed_experts", "num_experts_per_tok")
    config = dict(_sizes(rng), layers_block_type=kinds, ssm_state_size=rng.choice([8, 12]), mamba_num_heads=n, mamba_n_groups=rng.choice([1, 2]), mamba_head_dim=8,
                  mamba_d_conv=rng.choice([2, 4]), mamba_chunk_size=256, n_shared_experts=1, moe_intermediate_size=rng.choice([12, 20]),
                  moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.5, n_group=1, topk_group=1, use_mamba_kernels=False, **some)
    config["hidden_size"] = config["hidden_size"] // 4 * 4
    return by_family({"class": "NemotronHConfig", "config": config}, "NEMO", gain=1.8)


def _delta(rng: random.Random, name: str, **more: Any) -> Json:
    kinds = _kinds(rng, "linear_attention", "full_attention")
    if "full_attention" not in kinds:
        kinds.append("full_attention")
    keys = rng.choice([1, 2])
    config = dict(_sizes(rng), layer_types=kinds, num_hidden_layers=len(kinds), head_dim=16, linear_conv_kernel_dim=rng.choice([2, 4]), linear_key_head_dim=8,
                  linear_value_head_dim=rng.choice([8, 12]), linear_num_key_heads=keys, linear_num_value_heads=keys * rng.choice([1, 2]), rms_norm_eps=rng.choice([1e-5, 1e-4]), **more)
    config["hidden_size"] = config["hidden_size"] // 4 * 4
    return by_family({"class": name, "config": config}, zero=QZERO, gain=1.3, ssm=0.5)


def _some_experts(rng: random.Random) -> Json:
    return dict(moe_intermediate_size=rng.choice([8, 16]), shared_expert_intermediate_size=rng.choice([8, 16]), **experts(rng, "num_experts", "num_experts_per_tok"))


def qwen3_next(rng: random.Random) -> Json:
    return _delta(rng, "Qwen3NextConfig", norm_topk_prob=maybe(rng, 0.6), mlp_only_layers=rng.choice([[], [0]]),
                  rope_parameters=_rope(partial_rotary_factor=rng.choice([0.25, 0.5])), **_some_experts(rng))


def _sections() -> Json:
    return _rope(1000000.0, partial_rotary_factor=0.25, mrope_section=[1, 1, 0], mrope_interleaved=True)


def qwen3_5(rng: random.Random) -> Json:
    d = _delta(rng, "Qwen3_5TextConfig", tie_word_embeddings=maybe(rng, 0.5), rope_parameters=_sections())
    if d["config"]["tie_word_embeddings"]:
        d["init"].update(emb=0.5, flip=True)
    return d


def qwen3_5_moe(rng: random.Random) -> Json:
    return _delta(rng, "Qwen3_5MoeTextConfig", rope_parameters=_sections(), **_some_experts(rng))


RECURRENT = dict(lfm2=lfm2, lfm2_moe=lfm2_moe, mamba2=mamba2, granitemoehybrid=granitemoehybrid, falcon_h1=falcon_h1, nemotron_h=nemotron_h, qwen3_next=qwen3_next,
                 qwen3_5=qwen3_5, qwen3_5_moe=qwen3_5_moe)
