"""Random small models of the families that golden_plan_families.py and golden_plan_more.py have, with those plans' weights.

"init_by": "family" in a description says so: "init" is then what init_family takes, "extra" and "after" being names.
"""
from __future__ import annotations

import random
from typing import Any

from shapes import LAST_ID, Json, by_family, draw_rope, experts, experts_fit, heads, llama_like, maybe, slides, window

TIED = dict(emb=0.6, gain=2.4, flip=True)


def _plain(rng: random.Random, name: str, explicit_dim: bool = False, **more: Any) -> Json:
    """What most decoders share, with init_family's weights."""
    d = llama_like(rng, name, explicit_dim, **more)
    return by_family(d, **(TIED if d["config"]["tie_word_embeddings"] else {}))


def _without(d: Json, *keys: str) -> Json:
    for key in keys:
        d["config"].pop(key, None)
    return d


def _partly(d: Json, rng: random.Random, factors: tuple[float, ...] = (0.5, 1.0)) -> Json:
    """Rotates a part of a head, an even number of places."""
    config = d["config"]
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    context = config["max_position_embeddings"]
    part = rng.choice([f for f in factors if dim * f % 2 == 0] or [1.0])
    config["rope_parameters"], config["partial_rotary_factor"] = draw_rope(rng, ("linear", "llama3"), part), part  # else the family's default stands at the top
    config["max_position_embeddings"] = max(context, 128)
    return d


def _groups(rng: random.Random, experts: int, most: int) -> Json:
    """Groups of experts of which some are looked at; those hold as many as are chosen."""
    fits = [(g, k) for g in (1, 2, 3) for k in range(1, g + 1) if experts % g == 0 and experts // g >= 2 and experts // g * k >= most]
    n, kept = rng.choice(fits or [(1, 1)])
    return {"n_group": n, "topk_group": kept}


# ---------------------------------------------------------------- dense
def cohere(rng: random.Random) -> Json:
    return _without(_plain(rng, "CohereConfig", attention_bias=maybe(rng, 0.3), logit_scale=rng.choice([0.3, 1.0]),
                           use_qk_norm=maybe(rng, 0.4)), "rms_norm_eps")


def glm4(rng: random.Random) -> Json:
    return _partly(_plain(rng, "Glm4Config", True, attention_bias=maybe(rng, 0.5)), rng)


def ernie4_5(rng: random.Random) -> Json:
    return _plain(rng, "Ernie4_5Config", True, use_bias=maybe(rng, 0.5))


def hunyuan_v1_dense(rng: random.Random) -> Json:
    d = _plain(rng, "HunYuanDenseV1Config", True)
    if maybe(rng, 0.5):
        d["config"]["rope_parameters"] = dict(rope_type="dynamic", rope_theta=10000.0, alpha=rng.choice([50.0, 1000.0]), factor=1.0)
        d["config"]["max_position_embeddings"] = 256
    return d


def arcee(rng: random.Random) -> Json:
    return _without(_plain(rng, "ArceeConfig", mlp_bias=maybe(rng, 0.4), attention_bias=maybe(rng, 0.3)), "hidden_act")


def olmo(rng: random.Random) -> Json:
    return _without(_plain(rng, "OlmoConfig", attention_bias=maybe(rng, 0.3)), "rms_norm_eps")


def nemotron(rng: random.Random) -> Json:
    d = _partly(_without(_plain(rng, "NemotronConfig", True, attention_bias=maybe(rng, 0.3), mlp_bias=maybe(rng, 0.4)), "rms_norm_eps", "hidden_act"), rng)
    d["init"]["zero"] = ("norm",)
    return d


def phi(rng: random.Random) -> Json:
    return _partly(_without(_plain(rng, "PhiConfig"), "rms_norm_eps"), rng)


def persimmon(rng: random.Random) -> Json:
    return _partly(_without(_plain(rng, "PersimmonConfig"), "rms_norm_eps", "num_key_value_heads", "hidden_act"), rng)


def ministral3(rng: random.Random) -> Json:
    d = _plain(rng, "Ministral3Config", True, sliding_window=window(rng))
    original = rng.choice([8, 16, 64])
    d["config"]["rope_parameters"] = dict(rope_type="yarn", rope_theta=10000.0, factor=rng.choice([4.0, 8.0]), mscale=1.0, mscale_all_dim=1.0,
                                          llama_4_scaling_beta=rng.choice([0.1, 0.3]), original_max_position_embeddings=original)
    d["config"]["max_position_embeddings"] = 256
    return d


def stablelm2(rng: random.Random) -> Json:
    d = _without(_plain(rng, "StableLmConfig", qk_layernorm=True, use_parallel_residual=maybe(rng, 0.6), use_qkv_bias=maybe(rng, 0.4)), "rms_norm_eps")
    return _partly(d, rng)


def apertus(rng: random.Random) -> Json:
    d = _without(_plain(rng, "ApertusConfig", attention_bias=maybe(rng, 0.3)), "hidden_act")
    d["init"]["extra"] = "xielu"
    return d


def _gpt(rng: random.Random, name: str, **more: Any) -> Json:
    """The relatives of GPT-2."""
    n = rng.choice([1, 2, 3, 4])
    config = dict(vocab_size=rng.choice([40, 57, 64]), n_embd=n * rng.choice([4, 8, 12]), n_layer=rng.choice([1, 2, 3]), n_head=n, n_positions=128,
                  n_inner=rng.choice([20, 56]), **LAST_ID, **more)
    return by_family({"class": name, "config": config}, extra="embeddings")


def gptj(rng: random.Random) -> Json:
    d = _gpt(rng, "GPTJConfig", tie_word_embeddings=False)
    d["config"]["rotary_dim"] = rng.choice([2, 4])
    return d


def codegen(rng: random.Random) -> Json:
    d = _gpt(rng, "CodeGenConfig", n_ctx=128, tie_word_embeddings=False)
    d["config"].update(n_head=4, n_embd=4 * rng.choice([4, 8]), rotary_dim=rng.choice([2, 4]))
    return d


def gpt_bigcode(rng: random.Random) -> Json:
    d = _gpt(rng, "GPTBigCodeConfig", multi_query=True)
    d["init"].update(gain=2.4, flip=True)
    return d


def opt(rng: random.Random) -> Json:
    n, dim = rng.choice([1, 2, 4]), rng.choice([4, 8])
    config = dict(vocab_size=rng.choice([40, 57, 64]), hidden_size=n * dim, ffn_dim=rng.choice([24, 40]), num_hidden_layers=rng.choice([1, 2, 3]),
                  num_attention_heads=n, max_position_embeddings=128, word_embed_proj_dim=n * dim, **LAST_ID)
    return by_family({"class": "OPTConfig", "config": config}, **TIED)


def falcon(rng: random.Random) -> Json:
    n, dim = rng.choice([2, 4]), rng.choice([4, 8])
    config: Json = dict(vocab_size=rng.choice([40, 57, 64]), hidden_size=n * dim, num_hidden_layers=rng.choice([1, 2, 3]), num_attention_heads=n,
                        max_position_embeddings=128, rope_parameters=draw_rope(rng, ("linear", "llama3")), bias=maybe(rng, 0.4),
                        tie_word_embeddings=maybe(rng, 0.5), **LAST_ID)
    config.update(rng.choice([dict(), dict(multi_query=False), dict(multi_query=False, parallel_attn=False), dict(parallel_attn=False),
                              dict(new_decoder_architecture=True, num_kv_heads=2), dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)]))
    if maybe(rng, 0.4):
        config["ffn_hidden_size"] = rng.choice([24, 40])
    return by_family({"class": "FalconConfig", "config": config}, **(dict(emb=0.6, gain=2.4, extra="turned") if config["tie_word_embeddings"] else {}))


def mpt(rng: random.Random) -> Json:
    n = rng.choice([1, 2, 3, 4, 6])
    config = dict(vocab_size=rng.choice([40, 57, 64]), d_model=n * rng.choice([4, 6]), n_heads=n, n_layers=rng.choice([1, 2, 3]), max_seq_len=128,
                  expansion_ratio=rng.choice([2, 4]), **LAST_ID)
    return by_family({"class": "MptConfig", "config": config}, emb=0.6, gain=2.4, extra="turned")


def bloom(rng: random.Random) -> Json:
    n = rng.choice([1, 2, 3, 4, 6])
    config = dict(vocab_size=rng.choice([40, 57, 64]), hidden_size=n * rng.choice([4, 6]), n_head=n, n_layer=rng.choice([1, 2, 3]), **LAST_ID)
    return by_family({"class": "BloomConfig", "config": config}, emb=0.6, gain=2.4, extra="turned")


def gemma3n(rng: random.Random) -> Json:
    n = rng.choice([2, 3, 4])
    types = [rng.choice(["sliding_attention", "full_attention"]) for _ in range(n)]
    types[0], types[-1] = "sliding_attention", "full_attention"
    shared = rng.choice([k for k in range(0, n - 1) if set(types[n - k:]) <= set(types[:n - k])] or [0])
    vocab = rng.choice([48, 64])
    config = dict(vocab_size=vocab, vocab_size_per_layer_input=vocab, hidden_size_per_layer_input=rng.choice([4, 8]), intermediate_size=[rng.choice([24, 40])] * n,
                  num_hidden_layers=n, sliding_window=rng.choice([4, 8]), layer_types=types, final_logit_softcapping=rng.choice([9.0, 30.0]),
                  altup_num_inputs=rng.choice([2, 3, 4]), num_kv_shared_layers=shared, laurel_rank=rng.choice([4, 8]),
                  activation_sparsity_pattern=[rng.choice([0.0, 0.8]) for _ in range(n)], max_position_embeddings=256, pad_token_id=0, eos_token_id=1, bos_token_id=2,
                  rope_parameters={"full_attention": dict(rope_type="default", rope_theta=1000000.0),
                                   "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}, **heads(rng, True))
    config["intermediate_size"] = [config["intermediate_size"][0]] * n
    return by_family({"class": "Gemma3nTextConfig", "config": config}, "G3N", emb=0.5, gain=1.6, flip=True)


# ---------------------------------------------------------------- experts
def qwen2_moe(rng: random.Random) -> Json:
    d = _plain(rng, "Qwen2MoeConfig", norm_topk_prob=maybe(rng, 0.5), moe_intermediate_size=rng.choice([8, 16]), shared_expert_intermediate_size=rng.choice([8, 24]),
               mlp_only_layers=rng.choice([[], [0], [1]]), decoder_sparse_step=rng.choice([1, 1, 2]), **experts(rng, "num_experts", "num_experts_per_tok"))
    if maybe(rng, 0.4):
        d["config"].update(use_sliding_window=True, sliding_window=rng.choice([3, 6, 9]), max_window_layers=rng.choice([0, 1]))
    return experts_fit(d)


def olmoe(rng: random.Random) -> Json:
    return experts_fit(_plain(rng, "OlmoeConfig", norm_topk_prob=maybe(rng, 0.5), attention_bias=maybe(rng, 0.3), **experts(rng, "num_experts", "num_experts_per_tok")))


def granitemoe(rng: random.Random) -> Json:
    return experts_fit(_plain(rng, "GraniteMoeConfig", attention_bias=maybe(rng, 0.3), embedding_multiplier=rng.choice([1.0, 3.0]), residual_multiplier=rng.choice([0.5, 1.0]),
                       attention_multiplier=rng.choice([0.2, 0.4]), logits_scaling=rng.choice([1.0, 1.6]), **experts(rng, "num_local_experts", "num_experts_per_tok")))


def glm4_moe(rng: random.Random) -> Json:
    some = experts(rng, "n_routed_experts", "num_experts_per_tok")
    d = _plain(rng, "Glm4MoeConfig", True, attention_bias=maybe(rng, 0.5), moe_intermediate_size=rng.choice([8, 16]), n_shared_experts=rng.choice([1, 2]),
               routed_scaling_factor=rng.choice([1.0, 1.6]), first_k_dense_replace=rng.choice([0, 1]), norm_topk_prob=maybe(rng, 0.6), use_qk_norm=maybe(rng, 0.5),
               **some, **_groups(rng, some["n_routed_experts"], some["num_experts_per_tok"]))
    return experts_fit(_partly(d, rng), 0.45)


def ernie4_5_moe(rng: random.Random) -> Json:
    d = _plain(rng, "Ernie4_5_MoeConfig", use_bias=maybe(rng, 0.4), moe_intermediate_size=rng.choice([8, 16]), moe_num_shared_experts=rng.choice([1, 2]),
               moe_layer_start_index=rng.choice([0, 1]), **experts(rng, "moe_num_experts", "moe_k"))
    return experts_fit(d, 0.3)


def phimoe(rng: random.Random) -> Json:
    d = _plain(rng, "PhimoeConfig", num_local_experts=rng.choice([3, 5]), num_experts_per_tok=2, attention_bias=maybe(rng, 0.5), lm_head_bias=maybe(rng, 0.5),
               router_jitter_noise=rng.choice([0.01, 0.2]))
    config = d["config"]
    n = config["hidden_size"] // config["num_attention_heads"] // 2
    config["max_position_embeddings"] = 256
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    if maybe(rng, 0.6):
        config["rope_parameters"] = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[round(1 + 0.1 * i, 2) for i in range(n)],
                                         long_factor=[round(1.2 + 0.8 * i, 2) for i in range(n)], short_mscale=1.1, long_mscale=1.25,
                                         original_max_position_embeddings=rng.choice([12, 16, 64]), factor=4.0)
    return experts_fit(d, 0.45)


def llama4(rng: random.Random) -> Json:
    d = _plain(rng, "Llama4TextConfig", True, intermediate_size_mlp=rng.choice([24, 40]), num_experts_per_tok=1, num_local_experts=rng.choice([2, 4]),
               interleave_moe_layer_step=rng.choice([1, 2]), use_qk_norm=maybe(rng, 0.6), no_rope_layer_interval=rng.choice([2, 4]), attention_chunk_size=rng.choice([4, 8, 64]),
               attn_temperature_tuning=maybe(rng, 0.5), floor_scale=rng.choice([4, 8]), attn_scale=0.3)
    return experts_fit(d)


def gpt_oss(rng: random.Random) -> Json:
    d = _plain(rng, "GptOssConfig", True, sliding_window=rng.choice([3, 8]), **experts(rng, "num_local_experts", "num_experts_per_tok"))
    experts_fit(slides(d, rng))
    d["config"]["max_position_embeddings"] = 256
    d["config"]["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    if maybe(rng, 0.6):
        d["config"]["rope_parameters"] = dict(rope_type="yarn", rope_theta=150000.0, factor=rng.choice([4.0, 8.0]), beta_fast=32.0, beta_slow=1.0,
                                              truncate=maybe(rng, 0.4), original_max_position_embeddings=rng.choice([16, 32]))
    d["init"].update(up=2.0, bias=0.3)
    return d


def _latent(rng: random.Random, name: str, **more: Any) -> Json:
    some = experts(rng, "n_routed_experts", "num_experts_per_tok")
    n = rng.choice([1, 2, 4])
    d = _plain(rng, name, num_experts_per_tok=some["num_experts_per_tok"], n_routed_experts=some["n_routed_experts"], moe_intermediate_size=rng.choice([8, 16]),
               n_shared_experts=rng.choice([1, 2]), routed_scaling_factor=rng.choice([1.0, 1.8]), kv_lora_rank=rng.choice([8, 16]), q_lora_rank=rng.choice([None, 12, 20]),
               qk_rope_head_dim=rng.choice([4, 8]), v_head_dim=rng.choice([6, 10, 12]), qk_nope_head_dim=rng.choice([6, 12]), first_k_dense_replace=rng.choice([0, 1]), **more)
    d["config"].update(num_attention_heads=n, num_key_value_heads=n, hidden_size=n * 8)
    d["config"].update(_groups(rng, some["n_routed_experts"], some["num_experts_per_tok"]))
    d["config"]["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    d["config"]["max_position_embeddings"] = 256
    if maybe(rng, 0.4):
        d["config"]["rope_parameters"] = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                              mscale_all_dim=rng.choice([0.0, 1.0]), original_max_position_embeddings=32)
    return experts_fit(d, 0.45)


def deepseek_v2(rng: random.Random) -> Json:
    d = _latent(rng, "DeepseekV2Config", topk_method="greedy", norm_topk_prob=False)
    rope_parameters = d["config"]["rope_parameters"]
    if "mscale_all_dim" in rope_parameters:  # a departure of every score: left to the recorded cases
        rope_parameters["mscale_all_dim"] = 0.0
        rope_parameters["mscale"] = 0.0
    return d


def deepseek_v3(rng: random.Random) -> Json:
    return _latent(rng, "DeepseekV3Config", norm_topk_prob=maybe(rng, 0.6), rope_interleave=maybe(rng, 0.7))


MORE = dict(cohere=cohere, glm4=glm4, ernie4_5=ernie4_5, hunyuan_v1_dense=hunyuan_v1_dense, arcee=arcee, olmo=olmo, nemotron=nemotron, phi=phi, persimmon=persimmon,
            ministral3=ministral3, stablelm2=stablelm2, apertus=apertus, gptj=gptj, codegen=codegen, gpt_bigcode=gpt_bigcode, opt=opt, falcon=falcon, mpt=mpt, bloom=bloom,
            gemma3n=gemma3n, qwen2_moe=qwen2_moe, olmoe=olmoe, granitemoe=granitemoe, glm4_moe=glm4_moe, ernie4_5_moe=ernie4_5_moe, phimoe=phimoe, llama4=llama4,
            gpt_oss=gpt_oss, deepseek_v2=deepseek_v2, deepseek_v3=deepseek_v3)
