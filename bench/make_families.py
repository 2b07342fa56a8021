#!/usr/bin/env python3
"""Write a model folder of a family of 2025 or 2026: the published shape cut to a few layers, random weights.

    make_families.py NAME OUT

NAME: gpt-oss-20b, qwen3-next, deepseek-v2-lite, granite-4-h-tiny, lfm2-1.2b, gemma-3n-e2b. Weights are bfloat16, experts of
gpt-oss MXFP4. Of experts there are only some: a step reads those that are active, however many there are. The weights are pieces of
one random block, so that a folder is written as fast as the disk takes it.
Needs numpy.
"""
import argparse, sys
import json
import os
import struct
from collections import namedtuple

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("make_families.py: numpy is missing; install it (python3-numpy), or run this with a Python that has it")

POOL = 1 << 24  # numbers of the random block
Want = namedtuple("Want", "dtype shape")
BYTES = {"BF16": 2, "F32": 4, "U8": 1}


def bf16(*shape):
    return Want("BF16", list(shape))


def linear(name, n, k):
    return {name + ".weight": bf16(n, k)}


def norms(prefix, width, *names):
    return {f"{prefix}{n}.weight": bf16(width) for n in names}


def attention(p, hidden, heads, kv, d, out="o_proj", bias=False, q=None):
    rows = {"q_proj": q or heads * d, "k_proj": kv * d, "v_proj": kv * d}
    t = {}
    for n, r in rows.items():
        t.update(linear(p + n, r, hidden))
    t.update(linear(p + out, hidden, heads * d))
    if bias:
        t.update({f"{p}{n}.bias": bf16(r) for n, r in {**rows, out: hidden}.items()})
    return t


def gated(p, hidden, inner, names=("gate_proj", "up_proj", "down_proj")):
    g, u, d = names
    return {**linear(p + g, inner, hidden), **linear(p + u, inner, hidden), **linear(p + d, hidden, inner)}


def ends(hidden, vocab, tied, norm="model.norm", embed="model.embed_tokens"):
    t = {**linear(embed, vocab, hidden), norm + ".weight": bf16(hidden)}
    return t if tied else {**t, **linear("lm_head", vocab, hidden)}


def gpt_oss():
    D, E, L = 2880, 16, 2
    t = ends(D, 201088, False)
    for i in range(L):
        p = f"model.layers.{i}."
        t.update(norms(p, D, "input_layernorm", "post_attention_layernorm"))
        t.update(attention(p + "self_attn.", D, 64, 8, 64, bias=True))
        t[p + "self_attn.sinks"] = bf16(64)
        t.update({**linear(p + "mlp.router", E, D), p + "mlp.router.bias": bf16(E)})
        for n, rows in (("gate_up_proj", 2 * D), ("down_proj", D)):
            e = p + "mlp.experts." + n
            t[e + "_blocks"], t[e + "_scales"] = Want("U8", [E, rows, D // 32, 16]), Want("U8", [E, rows, D // 32])
            t[e + "_bias"] = bf16(E, rows)
    return dict(model_type="gpt_oss", architectures=["GptOssForCausalLM"], hidden_size=D, intermediate_size=D, num_hidden_layers=L, num_attention_heads=64,
                num_key_value_heads=8, head_dim=64, vocab_size=201088, num_local_experts=E, num_experts_per_tok=4, sliding_window=128, attention_bias=True,
                rope_theta=150000.0, max_position_embeddings=4096, tie_word_embeddings=False, quantization_config=dict(quant_method="mxfp4")), t


def qwen3_next():
    D, E, L, Hk, Hv, d = 2048, 32, 4, 16, 32, 128
    t = ends(D, 151936, False)
    for i in range(L):
        p = f"model.layers.{i}."
        t.update(norms(p, D, "input_layernorm", "post_attention_layernorm"))
        if i == 3:
            t.update(attention(p + "self_attn.", D, 16, 2, 256, q=2 * 16 * 256))
            t.update(norms(p + "self_attn.", 256, "q_norm", "k_norm"))
        else:
            a = p + "linear_attn."
            t.update({**linear(a + "in_proj_qkvz", 2 * Hk * d + 2 * Hv * d, D), **linear(a + "in_proj_ba", 2 * Hv, D), **linear(a + "out_proj", D, Hv * d)})
            t.update({a + "conv1d.weight": bf16(2 * Hk * d + Hv * d, 1, 4), a + "A_log": bf16(Hv), a + "dt_bias": bf16(Hv), a + "norm.weight": bf16(d)})
        t.update({**linear(p + "mlp.gate", E, D), **linear(p + "mlp.shared_expert_gate", 1, D), **gated(p + "mlp.shared_expert.", D, 512)})
        for e in range(E):
            t.update(gated(f"{p}mlp.experts.{e}.", D, 512))
    return dict(model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"], hidden_size=D, intermediate_size=5120, num_hidden_layers=L, num_attention_heads=16,
                num_key_value_heads=2, head_dim=256, vocab_size=151936, num_experts=E, num_experts_per_tok=10, moe_intermediate_size=512,
                shared_expert_intermediate_size=512, norm_topk_prob=True, rope_theta=1e7, partial_rotary_factor=0.25, max_position_embeddings=4096,
                tie_word_embeddings=False), t


def deepseek_v2_lite():
    D, E, L, H, R, n, r, v = 2048, 16, 3, 16, 512, 128, 64, 128
    t = ends(D, 102400, False)
    for i in range(L):
        p = f"model.layers.{i}."
        t.update(norms(p, D, "input_layernorm", "post_attention_layernorm"))
        a = p + "self_attn."
        t.update({**linear(a + "q_proj", H * (n + r), D), **linear(a + "kv_a_proj_with_mqa", R + r, D), **linear(a + "kv_b_proj", H * (n + v), R), **linear(a + "o_proj", D, H * v)})
        t.update(norms(a, R, "kv_a_layernorm"))
        if i == 0:
            t.update(gated(p + "mlp.", D, 10944))
            continue
        t.update({**linear(p + "mlp.gate", E, D), **gated(p + "mlp.shared_experts.", D, 2 * 1408)})
        for e in range(E):
            t.update(gated(f"{p}mlp.experts.{e}.", D, 1408))
    return dict(model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"], hidden_size=D, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=L,
                num_attention_heads=H, num_key_value_heads=H, vocab_size=102400, n_routed_experts=E, num_experts_per_tok=6, n_shared_experts=2, first_k_dense_replace=1,
                kv_lora_rank=R, q_lora_rank=None, qk_nope_head_dim=n, qk_rope_head_dim=r, v_head_dim=v, topk_method="greedy", n_group=1, topk_group=1,
                max_position_embeddings=4096, tie_word_embeddings=False), t


def granite_4_h_tiny():
    D, E, L, H, P, N = 1536, 16, 4, 48, 64, 128
    t = ends(D, 100352, True)
    for i in range(L):
        p = f"model.layers.{i}."
        t.update(norms(p, D, "input_layernorm", "post_attention_layernorm"))
        if i == 3:
            t.update(attention(p + "self_attn.", D, 12, 4, 128))
        else:
            a, width = p + "mamba.", H * P
            t.update({**linear(a + "in_proj", 2 * width + 2 * N + H, D), **linear(a + "out_proj", D, width), a + "norm.weight": bf16(width)})
            t.update({a + "conv1d.weight": bf16(width + 2 * N, 1, 4), a + "conv1d.bias": bf16(width + 2 * N), a + "A_log": bf16(H), a + "D": bf16(H), a + "dt_bias": bf16(H)})
        m = p + "block_sparse_moe."
        t.update({**linear(m + "router.layer", E, D), m + "input_linear.weight": bf16(E, 1024, D), m + "output_linear.weight": bf16(E, D, 512)})
        t.update({**linear(p + "shared_mlp.input_linear", 2048, D), **linear(p + "shared_mlp.output_linear", D, 1024)})
    return dict(model_type="granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], hidden_size=D, intermediate_size=512, shared_intermediate_size=1024,
                num_hidden_layers=L, num_attention_heads=12, num_key_value_heads=4, vocab_size=100352, num_local_experts=E, num_experts_per_tok=6,
                layer_types=["mamba"] * 3 + ["attention"], rms_norm_eps=1e-5, mamba_n_heads=H, mamba_d_head=P, mamba_d_state=N, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2,
                position_embedding_type="nope", embedding_multiplier=12.0, logits_scaling=6.0, residual_multiplier=0.22, attention_multiplier=0.0078125,
                max_position_embeddings=4096, tie_word_embeddings=True), t


def lfm2():
    D, L, inner = 2048, 4, 8192
    t = ends(D, 65536, True, norm="model.embedding_norm")
    for i in range(L):
        p = f"model.layers.{i}."
        t.update(norms(p, D, "operator_norm", "ffn_norm"))
        if i == 2:
            t.update(attention(p + "self_attn.", D, 32, 8, 64, out="out_proj"))
            t.update(norms(p + "self_attn.", 64, "q_layernorm", "k_layernorm"))
        else:
            t.update({**linear(p + "conv.in_proj", 3 * D, D), **linear(p + "conv.out_proj", D, D), p + "conv.conv.weight": bf16(D, 1, 3)})
        t.update(gated(p + "feed_forward.", D, inner, ("w1", "w3", "w2")))
    return dict(model_type="lfm2", architectures=["Lfm2ForCausalLM"], hidden_size=D, intermediate_size=inner, block_auto_adjust_ff_dim=False, num_hidden_layers=L,
                num_attention_heads=32, num_key_value_heads=8, vocab_size=65536, conv_L_cache=3, layer_types=["conv", "conv", "full_attention", "conv"], rope_theta=1e6,
                max_position_embeddings=4096, tie_word_embeddings=True), t


def gemma_3n():
    D, L, A, p_, inner, rank = 2048, 4, 4, 256, 8192, 64
    m = "model.language_model."
    t = ends(D, 262400, True, norm=m + "norm", embed=m + "embed_tokens")
    t.update({**linear(m + "embed_tokens_per_layer", 262144, L * p_), **linear(m + "per_layer_model_projection", L * p_, D), m + "per_layer_projection_norm.weight": bf16(p_)})
    for i in range(A - 1):
        t.update({**linear(f"{m}altup_projections.{i}", D, D), **linear(f"{m}altup_unembed_projections.{i}", D, D)})
    for i in range(L):
        p = f"{m}layers.{i}."
        t.update(norms(p, D, "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm", "post_per_layer_input_norm",
                       "altup.router_norm", "laurel.post_laurel_norm"))
        t.update({**linear(p + "altup.modality_router", A, D), **linear(p + "altup.prediction_coefs", A * A, A), **linear(p + "altup.correction_coefs", A, A),
                  p + "altup.correct_output_scale": bf16(D), **linear(p + "laurel.linear_left", rank, D), **linear(p + "laurel.linear_right", D, rank),
                  **linear(p + "per_layer_input_gate", p_, D), **linear(p + "per_layer_projection", D, p_)})
        t.update(attention(p + "self_attn.", D, 8, 2, 256))
        t.update(norms(p + "self_attn.", 256, "q_norm", "k_norm"))
        t.update(gated(p + "mlp.", D, inner))
    kinds = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    return dict(model_type="gemma3n_text", architectures=["Gemma3nForCausalLM"], hidden_size=D, intermediate_size=[inner] * L, num_hidden_layers=L, num_attention_heads=8,
                num_key_value_heads=2, head_dim=256, vocab_size=262400, vocab_size_per_layer_input=262144, hidden_size_per_layer_input=p_, altup_num_inputs=A,
                altup_active_idx=0, altup_correct_scale=True, laurel_rank=rank, num_kv_shared_layers=0, layer_types=kinds, sliding_window=512,
                activation_sparsity_pattern=[0.95] * 2 + [0.0] * 2, rope_theta=1e6, rope_local_base_freq=1e4, final_logit_softcapping=30.0, max_position_embeddings=4096,
                tie_word_embeddings=True), t


SHAPES = {"gpt-oss-20b": gpt_oss, "qwen3-next": qwen3_next, "deepseek-v2-lite": deepseek_v2_lite, "granite-4-h-tiny": granite_4_h_tiny, "lfm2-1.2b": lfm2, "gemma-3n-e2b": gemma_3n}


def pools():
    r = np.random.default_rng(1)
    half = (r.standard_normal(POOL).astype(np.float32) * 0.02).view(np.uint32) >> 16
    return {"BF16": half.astype(np.uint16).tobytes(), "ones": np.full(1 << 20, 0x3F80, np.uint16).tobytes(), "U8": r.integers(0, 256, POOL, dtype=np.uint8).tobytes(),
            "scales": r.integers(116, 119, POOL, dtype=np.uint8).tobytes()}


def write(folder, config, tensors):
    os.makedirs(folder, exist_ok=True)
    header, at, pool = {"__metadata__": {"format": "pt"}}, 0, pools()
    for name, w in tensors.items():
        size = int(np.prod(w.shape)) * BYTES[w.dtype]
        header[name] = {"dtype": w.dtype, "shape": w.shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)  # so that the first tensor lies at a multiple of 64
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i, (name, w) in enumerate(tensors.items()):
            left = int(np.prod(w.shape)) * BYTES[w.dtype]
            source = pool["scales" if name.endswith("_scales") else "ones" if "norm" in name else w.dtype]
            begin = i * 4099 * 64 % (len(source) // 2)
            while left:
                piece = source[begin:begin + left]
                f.write(piece)
                left, begin = left - len(piece), 0
    for name, content in (("config.json", dict(config, torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2, pad_token_id=0)),
                          ("generation_config.json", dict(bos_token_id=1, eos_token_id=2, pad_token_id=0))):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f, indent=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name", choices=SHAPES)
    ap.add_argument("out")
    a = ap.parse_args()
    write(a.out, *SHAPES[a.name]())


if __name__ == "__main__":
    main()
