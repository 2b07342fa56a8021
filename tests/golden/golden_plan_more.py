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
}
PLANS = {n: families for n in MODELS}


def tempered(b):
    """queries grow with positions that count padding: only rows of one length are the same alone"""
    b.ctx.cfg.attn_temperature_tuning = True
    families(b)


PLANS["ministral3"] = tempered
