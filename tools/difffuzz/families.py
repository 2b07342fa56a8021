"""Random small models of every family: a description that is plain JSON, and the folder it stands for.

A description can be changed key by key, which is how a difference is shown with a smaller model.
This file draws; models.py builds.
"""
from __future__ import annotations

import random
from typing import Any

from families_more import MORE
from families_recurrent import RECURRENT
from shapes import LAST_ID, Json, draw_rope, experts_fit, heads, llama_like, maybe, slides, window


def llama(rng: random.Random) -> Json:
    return llama_like(rng, "LlamaConfig", maybe(rng, 0.3), attention_bias=maybe(rng, 0.3), mlp_bias=maybe(rng, 0.3))


def mistral(rng: random.Random) -> Json:
    return llama_like(rng, "MistralConfig", maybe(rng, 0.3), sliding_window=window(rng))


def mixtral(rng: random.Random) -> Json:
    experts = rng.choice([2, 3, 4])
    d = llama_like(rng, "MixtralConfig", True, num_local_experts=experts, sliding_window=window(rng),
                    num_experts_per_tok=rng.choice([k for k in (1, 2) if k < experts]))
    experts_fit(d)
    return d


def qwen2(rng: random.Random) -> Json:
    return llama_like(rng, "Qwen2Config", **_layer_window(rng))


def _layer_window(rng: random.Random) -> Json:
    if maybe(rng, 0.5):
        return {}
    return dict(use_sliding_window=True, sliding_window=rng.choice([3, 6, 9]), max_window_layers=rng.choice([0, 1, 2]))


def qwen3(rng: random.Random) -> Json:
    return llama_like(rng, "Qwen3Config", True, attention_bias=maybe(rng, 0.3), **_layer_window(rng))


def qwen3_moe(rng: random.Random) -> Json:
    experts = rng.choice([2, 4, 5])
    d = llama_like(rng, "Qwen3MoeConfig", True, attention_bias=maybe(rng, 0.3), num_experts=experts,
                    num_experts_per_tok=rng.choice([k for k in (1, 2, 3) if k < experts]),
                    moe_intermediate_size=rng.choice([8, 12]), norm_topk_prob=maybe(rng, 0.5),
                    decoder_sparse_step=rng.choice([1, 1, 2]), mlp_only_layers=rng.choice([[], [], [0], [1]]))
    experts_fit(d)
    return d


def smollm3(rng: random.Random) -> Json:
    return llama_like(rng, "SmolLM3Config", attention_bias=maybe(rng, 0.3), mlp_bias=maybe(rng, 0.3),
                       no_rope_layer_interval=rng.choice([2, 3, 4]))


def olmo2(rng: random.Random) -> Json:
    return llama_like(rng, "Olmo2Config", attention_bias=maybe(rng, 0.3))


def phi3(rng: random.Random) -> Json:
    d = llama_like(rng, "Phi3Config", sliding_window=window(rng))
    config = d["config"]
    dim = config["hidden_size"] // config["num_attention_heads"]
    partial = 0.5 if dim in (4, 8, 12) and maybe(rng, 0.3) else 1.0
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": partial}
    config["partial_rotary_factor"] = partial
    config["max_position_embeddings"] = config["original_max_position_embeddings"] = 256
    if maybe(rng, 0.5):
        n, original = int(dim * partial) // 2, rng.choice([12, 16, 64])
        config["original_max_position_embeddings"] = original
        config["rope_parameters"] = {
            "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": partial,
            "original_max_position_embeddings": original,
            "short_factor": [round(1 + 0.1 * i, 2) for i in range(n)],
            "long_factor": [round(1 + 0.9 * i, 2) for i in range(n)]}
    return d


def _gemma(rng: random.Random, name: str, **more: Any) -> Json:
    shape = heads(rng, True)
    config = dict(vocab_size=rng.choice([48, 64]), intermediate_size=rng.choice([16, 24]),
                  num_hidden_layers=rng.choice([1, 2, 3]), max_position_embeddings=256,
                  query_pre_attn_scalar=rng.choice([8, 10, 16]), sliding_window=rng.choice([3, 5, 8, 16]),
                  attention_bias=maybe(rng, 0.2), bos_token_id=2, eos_token_id=1, pad_token_id=0, **shape, **more)
    init = dict(emb=0.15, norm_zero=True, gain=1.8, post=1.0, final=3.5, flip=True)
    return {"class": name, "config": config, "init": init}


def gemma2(rng: random.Random) -> Json:
    return _gemma(rng, "Gemma2Config", rope_parameters=draw_rope(rng, ("linear", "yarn")),
                  attn_logit_softcapping=rng.choice([None, 4.0, 20.0]), final_logit_softcapping=rng.choice([None, 9.0, 30.0]))


def gemma3(rng: random.Random) -> Json:
    full = draw_rope(rng, ("linear",))
    d = _gemma(rng, "Gemma3TextConfig",
               rope_parameters={"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
    n = d["config"]["num_hidden_layers"]
    d["config"]["layer_types"] = [rng.choice(["sliding_attention", "full_attention"]) for _ in range(n)]
    return d


def gpt2(rng: random.Random) -> Json:
    heads = rng.choice([1, 2, 3, 4])
    config = dict(vocab_size=rng.choice([40, 57, 64]), n_embd=heads * rng.choice([4, 6, 8]), n_layer=rng.choice([1, 2, 3]),
                  n_head=heads, n_positions=128, n_inner=rng.choice([None, 20]),
                  scale_attn_by_inverse_layer_idx=maybe(rng, 0.3), bos_token_id=1, eos_token_id=2,
                  pad_token_id=rng.choice([None, 0]), tie_word_embeddings=True)
    if maybe(rng, 0.3):
        config["activation_function"] = rng.choice(["gelu", "relu"])
    if maybe(rng, 0.2):
        config["scale_attn_weights"] = False
    return {"class": "GPT2Config", "config": config, "init": dict(emb=0.55, gain=2.2, pos=0.4, flip=maybe(rng, 0.6))}


def gpt_neox(rng: random.Random) -> Json:
    heads, dim = rng.choice([1, 2, 3]), rng.choice([8, 16])  # a quarter of which, what saving makes of all, is even
    partial = rng.choice([0.25, 0.5, 1.0])
    config = dict(vocab_size=rng.choice([40, 57, 64]), hidden_size=heads * dim, intermediate_size=rng.choice([24, 32]),
                  num_hidden_layers=rng.choice([1, 2]), num_attention_heads=heads, max_position_embeddings=128,
                  use_parallel_residual=maybe(rng, 0.6), attention_bias=maybe(rng, 0.6),
                  rope_parameters=draw_rope(rng, ("linear",), partial), tie_word_embeddings=maybe(rng, 0.2), **LAST_ID)
    if maybe(rng, 0.3):
        config["hidden_act"] = rng.choice(["gelu_new", "relu"])
    return {"class": "GPTNeoXConfig", "config": config, "init": {}}


def stablelm(rng: random.Random) -> Json:
    d = llama_like(rng, "StableLmConfig", use_qkv_bias=maybe(rng, 0.5), layer_norm_eps=rng.choice([1e-5, 1e-4]))
    config = d["config"]
    config.pop("rms_norm_eps", None)
    dim = config["hidden_size"] // config["num_attention_heads"]
    config["max_position_embeddings"] = 128
    partial = rng.choice([0.5, 1.0]) if dim in (4, 8, 12) else 1.0
    config["rope_parameters"] = draw_rope(rng, ("linear",), partial)
    if maybe(rng, 0.8) or dim // 4 % 2:  # else both places have one, and the family's default, 0.25, stands at the top
        config["partial_rotary_factor"] = partial
    d["init"]["bias"] = 0.4
    return d


def starcoder2(rng: random.Random) -> Json:
    d = llama_like(rng, "Starcoder2Config", sliding_window=window(rng), use_bias=maybe(rng, 0.8), norm_epsilon=1e-4)
    d["config"].pop("rms_norm_eps", None)
    d["init"]["bias"] = 0.4
    return d


def t5(rng: random.Random) -> Json:
    gated = rng.choice([None, "gated-gelu", "gated-silu"])
    layers = rng.choice([1, 2, 2])
    config = dict(vocab_size=rng.choice([48, 64]), d_model=rng.choice([16, 20, 24]), d_kv=rng.choice([4, 6, 8]),
                  num_heads=rng.choice([1, 2, 3]), d_ff=rng.choice([20, 32]), num_layers=layers,
                  num_decoder_layers=rng.choice([k for k in (1, 2) if k <= layers]),
                  relative_attention_num_buckets=rng.choice([8, 16, 32]),
                  relative_attention_max_distance=rng.choice([20, 40, 128]), feed_forward_proj=gated or "relu",
                  tie_word_embeddings=gated is None, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    init = dict(t5=True, emb=0.3, cross=0.6, ff=4.0) if gated else \
        dict(t5=True, emb=1.0, cross=0.3, ff=3.0, flip=True, final=3.0, qk=2.0, center=True)
    return {"class": "T5Config", "config": config, "init": init, "generation": {"decoder_start_token_id": 0}}


def _bart_shape(rng: random.Random) -> Json:
    heads = rng.choice([1, 2, 4])
    return dict(vocab_size=rng.choice([48, 64]), d_model=rng.choice([16, 24]) if heads != 4 else 24,
                encoder_layers=rng.choice([1, 2]), decoder_layers=rng.choice([1, 2]), encoder_attention_heads=heads,
                decoder_attention_heads=rng.choice([1, 2, 4]), encoder_ffn_dim=rng.choice([20, 32]),
                decoder_ffn_dim=rng.choice([20, 32]), max_position_embeddings=96, forced_eos_token_id=None,
                scale_embedding=maybe(rng, 0.5))


def bart(rng: random.Random) -> Json:
    config = dict(**_bart_shape(rng), bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2)
    if maybe(rng, 0.3):
        config["activation_function"] = rng.choice(["relu", "gelu_new"])
    generation: Json = {"decoder_start_token_id": 2}
    if maybe(rng, 0.5):
        generation.update(forced_bos_token_id=0, forced_eos_token_id=2)
    return {"class": "BartConfig", "config": config, "generation": generation,
            "init": dict(emb=0.6, pos=0.8, cross=0.5, ff=1.5, flip=True, bias=0.05, center=True, gain=1.0)}


def marian(rng: random.Random) -> Json:
    config = _bart_shape(rng)
    last = config["vocab_size"] - 1
    config.update(decoder_vocab_size=config["vocab_size"], activation_function=rng.choice(["swish", "relu"]),
                  static_position_embeddings=True, pad_token_id=last, eos_token_id=0, decoder_start_token_id=last)
    generation: Json = {"decoder_start_token_id": last, "bad_words_ids": [[last]]}
    if maybe(rng, 0.5):
        generation["forced_eos_token_id"] = 0
    return {"class": "MarianConfig", "config": config, "generation": generation,
            "init": dict(emb=0.3, gain=1.0, cross=0.5, ff=1.5, flip=True, bias=0.05, final=1.5, center=True)}


def olmo3(rng: random.Random) -> Json:
    return slides(llama_like(rng, "Olmo3Config", attention_bias=maybe(rng, 0.3)), rng)


def exaone4(rng: random.Random) -> Json:
    return slides(llama_like(rng, "Exaone4Config"), rng)


def cohere2(rng: random.Random) -> Json:
    d = llama_like(rng, "Cohere2Config", attention_bias=maybe(rng, 0.3), logit_scale=rng.choice([0.3, 1.0]))
    d["config"].pop("rms_norm_eps", None)
    return slides(d, rng)


def granite(rng: random.Random) -> Json:
    return llama_like(rng, "GraniteConfig", attention_bias=maybe(rng, 0.3), mlp_bias=maybe(rng, 0.3),
                       embedding_multiplier=rng.choice([1.0, 3.0]), residual_multiplier=rng.choice([0.5, 1.0]),
                       attention_multiplier=rng.choice([0.2, 0.4]), logits_scaling=rng.choice([1.0, 1.6]))


def seed_oss(rng: random.Random) -> Json:
    return llama_like(rng, "SeedOssConfig", True, attention_bias=maybe(rng, 0.7), attention_out_bias=maybe(rng, 0.3))


def gemma(rng: random.Random) -> Json:
    d = llama_like(rng, "GemmaConfig", True)
    d["config"].pop("hidden_act", None)
    d["config"]["tie_word_embeddings"] = True
    d["init"] = dict(emb=0.6, gain=2.4, flip=True)
    return d


def minimax_m2(rng: random.Random) -> Json:
    experts = rng.choice([2, 4, 5])
    d = llama_like(rng, "MiniMaxM2Config", True, num_local_experts=experts,
                    num_experts_per_tok=rng.choice([k for k in (1, 2, 3) if k < experts]))
    experts_fit(d)
    return d


FAMILIES = dict(llama=llama, mistral=mistral, mixtral=mixtral, qwen2=qwen2, qwen3=qwen3, qwen3_moe=qwen3_moe, smollm3=smollm3,
                olmo2=olmo2, phi3=phi3, gemma2=gemma2, gemma3=gemma3, gpt2=gpt2, gpt_neox=gpt_neox, stablelm=stablelm,
                starcoder2=starcoder2, t5=t5, bart=bart, marian=marian, olmo3=olmo3, exaone4=exaone4, cohere2=cohere2,
                granite=granite, seed_oss=seed_oss, gemma=gemma, minimax_m2=minimax_m2, **MORE, **RECURRENT)
WHOLE_DRAFTS = ("gemma3n", *RECURRENT)  # whose layers hang together: a draft has them all
PAIRS = ("t5", "bart", "marian")
OLD_STYLE = ("llama", "mistral", "qwen2", "qwen3", "gpt_neox")  # config.json as before transformers 5, where that says the same


def draw_model(rng: random.Random, families: tuple[str, ...] = ()) -> Json:
    """A description of a model and of the draft beside it."""
    family = rng.choice(families or tuple(FAMILIES))
    d = FAMILIES[family](rng)
    d.update(family=family, seed=rng.randrange(1 << 30), dtype=rng.choice(["float32", "float32", "float32", "bfloat16", "float16"]))
    d["draft"] = {**({"whole": True} if family in WHOLE_DRAFTS else {}), "noise": rng.choice([0.02, 0.05, 0.2]), "layers": rng.choice([1, 1, 2]), "seed": rng.randrange(1 << 30)}
    d["generation"] = {**d.get("generation", {}), **_own_generation(rng)}
    d["old_style"] = family in OLD_STYLE and maybe(rng, 0.2)
    return d


def _own_generation(rng: random.Random) -> Json:
    """What the model's own generation_config.json sets beside its special tokens."""
    if maybe(rng, 0.8):
        return {}
    return rng.choice([dict(temperature=0.7, top_p=0.9, top_k=10), dict(repetition_penalty=1.1), dict(do_sample=True, top_k=7),
                       dict(num_beams=2), dict(max_new_tokens=7), dict(no_repeat_ngram_size=3), dict(min_new_tokens=3)])
