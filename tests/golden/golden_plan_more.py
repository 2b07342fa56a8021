"""Families that need little more than those of golden_plan.py: tiny models for make_goldens.py (`--plan more`), with the
suite of golden_plan_families.py.

    python make_goldens.py make --plan more [--only NAME,NAME]
"""
import numpy as np
import transformers as tf
from golden_plan_families import IDS, fam, families
from make_goldens import rope

SIZES = dict(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256)
TIED = dict(emb=0.6, gain=2.4, flip=True)
GPT = dict(vocab_size=256, n_embd=32, n_layer=3, n_head=4, n_positions=256)


def embeddings(n, p, z, u):
    """the names that GPT-2's relatives give them"""
    return (0.6 * z).astype(np.float32) if "wte" in n or "wpe" in n else None


def turned(n, p, z, u):
    """the same, and a last norm with negative entries: a tied model does not repeat itself then"""
    if n in ("transformer.ln_f.weight", "transformer.norm_f.weight"):
        return (np.where(u < 0.5, -1, 1) * np.clip(1 + 0.25 * z, 0.3, 1.8)).astype(np.float32)
    return embeddings(n, p, z, u)


def xielu(n, p, z, u):
    """alphas as they are stored, far from each other in each layer"""
    return (0.6 * z).astype(np.float32) if "alpha" in n else None


FALCON = dict(vocab_size=256, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256)
PARTED = dict(emb=0.6, gain=2.4, extra=turned)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.1, 1.3, 1.6], long_factor=[1.2, 1.7, 2.4, 3.5], short_mscale=1.1, long_mscale=1.25, original_max_position_embeddings=64, factor=4.0)

MODELS = {
    "ernie4_5": fam(lambda: tf.Ernie4_5Config(**SIZES, num_key_value_heads=2, head_dim=12, use_bias=True, tie_word_embeddings=False, rope_parameters=rope(500000.0), **IDS), 7101),
    "qwen2_moe": fam(lambda: tf.Qwen2MoeConfig(**SIZES, num_key_value_heads=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
                     mlp_only_layers=[1], use_sliding_window=True, sliding_window=9, max_window_layers=1, rope_parameters=rope(10000.0), **IDS), 7102),
    "olmoe": fam(lambda: tf.OlmoeConfig(**SIZES, num_key_value_heads=2, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, rope_parameters=rope(10000.0), **IDS), 7103),
    "cohere": fam(lambda: tf.CohereConfig(**SIZES, num_key_value_heads=2, logit_scale=0.3, attention_bias=True, rope_parameters=rope(10000.0), **IDS), 7104, dict(emb=0.9, gain=2.2, flip=True)),
    "gemma": fam(lambda: tf.GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=12, rope_parameters=rope(10000.0), **IDS), 7105, dict(emb=0.5, gain=1.8, zero=("norm",), flip=True)),
    "arcee": fam(lambda: tf.ArceeConfig(**SIZES, num_key_value_heads=2, mlp_bias=True, rope_parameters=rope(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32), **IDS), 7106),
    "olmo": fam(lambda: tf.OlmoConfig(**SIZES, num_key_value_heads=2, attention_bias=True, rope_parameters=rope(10000.0), **IDS), 7107),
    "nemotron": fam(lambda: tf.NemotronConfig(**SIZES, num_key_value_heads=2, head_dim=12, mlp_bias=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), **IDS), 7108, dict(zero=("norm",))),
    "phi": fam(lambda: tf.PhiConfig(**SIZES, num_key_value_heads=2, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), **IDS), 7109),
    "persimmon": fam(lambda: tf.PersimmonConfig(**SIZES, rope_parameters=rope(25000.0, partial_rotary_factor=0.5), **IDS), 7110),
    "gptj": fam(lambda: tf.GPTJConfig(**GPT, rotary_dim=4, **IDS), 7111, dict(extra=embeddings)),
    "gpt_bigcode": fam(lambda: tf.GPTBigCodeConfig(**GPT, n_inner=56, **IDS), 7112, dict(gain=2.4, flip=True, extra=embeddings)),
    "opt": fam(lambda: tf.OPTConfig(vocab_size=256, hidden_size=32, ffn_dim=56, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256, word_embed_proj_dim=32, **IDS), 7113,
               dict(emb=0.6, gain=2.4, flip=True)),
    "granitemoe": fam(lambda: tf.GraniteMoeConfig(**SIZES, num_key_value_heads=2, num_local_experts=4, embedding_multiplier=3.0, logits_scaling=1.6, residual_multiplier=0.5,
                      attention_multiplier=0.2, rope_parameters=rope(10000.0), **IDS), 7115),
    "ministral3": fam(lambda: tf.Ministral3Config(**SIZES, num_key_value_heads=2, head_dim=12, rope_parameters=rope(10000.0, rope_type="yarn", factor=8.0, mscale=1.0, mscale_all_dim=1.0,
                      llama_4_scaling_beta=0.3, original_max_position_embeddings=16), **IDS), 7116),
    "stablelm2": fam(lambda: tf.StableLmConfig(**SIZES, num_key_value_heads=2, qk_layernorm=True, use_parallel_residual=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), **IDS), 7117),
    "cohere_qk": fam(lambda: tf.CohereConfig(**SIZES, num_key_value_heads=2, logit_scale=0.3, use_qk_norm=True, rope_parameters=rope(10000.0), **IDS), 7118, dict(emb=0.9, gain=2.2, flip=True)),
    "codegen": fam(lambda: tf.CodeGenConfig(**GPT, n_ctx=256, rotary_dim=4, n_inner=56, **IDS), 7119, dict(extra=embeddings)),
    "falcon": fam(lambda: tf.FalconConfig(**FALCON, rope_parameters=rope(10000.0), **IDS), 7120, PARTED),
    "falcon_40b": fam(lambda: tf.FalconConfig(**FALCON, num_kv_heads=2, new_decoder_architecture=True, ffn_hidden_size=56, bias=True, tie_word_embeddings=False, rope_parameters=rope(10000.0), **IDS), 7121),
    "falcon_11b": fam(lambda: tf.FalconConfig(**FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, rope_parameters=rope(500000.0), **IDS), 7122, PARTED),
    "falcon_serial": fam(lambda: tf.FalconConfig(**FALCON, multi_query=False, parallel_attn=False, bias=True, rope_parameters=rope(10000.0), **IDS), 7123, PARTED),
    "mpt": fam(lambda: tf.MptConfig(vocab_size=256, d_model=36, n_heads=6, n_layers=3, max_seq_len=256, **IDS), 7124, PARTED),
    "bloom": fam(lambda: tf.BloomConfig(vocab_size=256, hidden_size=36, n_head=6, n_layer=3, **IDS), 7125, PARTED),
    "phimoe": fam(lambda: tf.PhimoeConfig(**SIZES, num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.2,
                  rope_parameters=rope(10000.0, **LONG), **IDS), 7126, dict(gate=0.45)),
    "apertus": fam(lambda: tf.ApertusConfig(**SIZES, num_key_value_heads=2, rope_parameters=rope(10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64), **IDS), 7127, dict(extra=xielu)),
}
PLANS = {n: families for n in MODELS}


def tempered(b):
    """queries grow with positions that count padding: only rows of one length are the same alone"""
    b.ctx.cfg.attn_temperature_tuning = True
    families(b)


PLANS["ministral3"] = tempered
PLANS["phimoe"] = lambda b: families(b, long=80)
