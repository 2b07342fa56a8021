#!/usr/bin/env python3
"""Tiny checkpoints in float8_e4m3fn, and the logits of the weights they stand for.

    python make_fp8.py            transformers 5.3.0, torch 2.9.1, on a CPU

Folders beside this file:
    blocks    llama, factors of blocks of 128x128 (weight_scale_inv) that do not divide its 192 columns and rows
    tensor    the same, one factor a tensor (weight_scale_inv of no dimensions) and one of the activations, which is not read
    rows      the same, one a row in bfloat16 (weight_scale), as compressed-tensors stores them
    latent    deepseek_v3, blocks, so that kv_b_proj is turned
    experts   qwen3_5_moe whose experts lie in one tensor a layer, with factors that are powers of two (float8_e8m0fnu)
    narrow    llama whose feed-forward has rows of 80, which blocks of 64 do not divide
    ragged    the same of every matrix, rows of 136 and 200, in blocks of 128x128 whose last ones are smaller both ways
    ragged_latent  deepseek_v3 whose kv_b_proj has rows of 80 and heads of 48 rows
    between   llama with factors of blocks of 96 columns, which end within blocks of 64
logits.safetensors has "ids" and "logits", computed in float32 with the dequantised weights: what a product does to activations is
not the file's. values.safetensors has all codes but the two NaN as torch widens them.
"""
import json
import os

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA = dict(vocab_size=96, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             max_position_embeddings=128, initializer_range=0.12, **IDS)
BLOCK = 128


def llama(**kw):
    return tf.LlamaForCausalLM(tf.LlamaConfig(**{**LLAMA, **kw}))


def deepseek(**kw):
    return tf.DeepseekV3ForCausalLM(tf.DeepseekV3Config(
        vocab_size=96, hidden_size=128, intermediate_size=128, moe_intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1, first_k_dense_replace=1, max_position_embeddings=128, initializer_range=0.12,
        **IDS, **{**dict(kv_lora_rank=64, q_lora_rank=64, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64), **kw}))


def factors_of(w, kind, block=(BLOCK, BLOCK)):
    """what blocks, rows or the whole of w are multiplied by: the largest becomes 448; and the same for every number"""
    n, k = w.shape
    if kind == "tensor":
        s = (w.abs().max() / 448).reshape(())
        return s, s.expand(n, k)
    if kind == "rows":
        s = (w.abs().amax(1, keepdim=True) / 448).to(torch.bfloat16)
        return s, s.float().expand(n, k)
    high, wide = block
    s = torch.zeros((n + high - 1) // high, (k + wide - 1) // wide)
    for i in range(s.shape[0]):
        for j in range(s.shape[1]):
            s[i, j] = w[i * high:(i + 1) * high, j * wide:(j + 1) * wide].abs().max() / 448
    return s, s.repeat_interleave(high, 0)[:n].repeat_interleave(wide, 1)[:, :k]


def config_of(kind, block=(BLOCK, BLOCK)):
    if kind == "rows":
        weights = dict(num_bits=8, type="float", strategy="channel", symmetric=True, dynamic=False)
        return dict(quant_method="compressed-tensors", format="float-quantized", config_groups=dict(group_0=dict(weights=weights, targets=["Linear"])), ignore=["lm_head"])
    c = dict(quant_method="fp8", fmt="e4m3", activation_scheme="static" if kind == "tensor" else "dynamic")
    return dict(c, weight_block_size=None if kind == "tensor" else list(block))


def make(name, kind, model, seed, block=(BLOCK, BLOCK)):
    folder = os.path.join(HERE, name)
    torch.manual_seed(seed)
    m = model().float().eval()
    m.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    out = {}
    for n, w in load_file(path).items():
        plain = w.dim() != 2 or any(s in n for s in ("embed_tokens", "lm_head", "mlp.gate.weight"))
        if plain:
            out[n] = w
            continue
        w = w * (0.5 + torch.rand(w.shape[0], 1))  # rows, and so blocks, that differ
        s, every = factors_of(w, kind, block)
        q = (w / every).to(torch.float8_e4m3fn)
        out[n], out[n + ("_scale" if kind == "rows" else "_scale_inv")] = q, s.contiguous()
        if kind == "tensor":
            out[n[:-len("weight")] + "activation_scale"] = torch.tensor(0.01)
        wide = q.float() * every
        with torch.no_grad():
            put(m, n, wide)
    save_file(dict(sorted(out.items())), path, metadata={"format": "pt"})
    c = json.load(open(os.path.join(folder, "config.json")))
    c["quantization_config"] = config_of(kind, block)
    json.dump(c, open(os.path.join(folder, "config.json"), "w"), indent=2, sort_keys=True)
    ids = torch.randint(3, 90, (1, 24), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = m(input_ids=ids, use_cache=False).logits[0]
    save_file({"ids": ids[0].to(torch.int32), "logits": logits.contiguous()}, os.path.join(folder, "logits.safetensors"))


def put(m, name, w):
    """experts of transformers 5 lie in one tensor: gates, then ups"""
    parts = name.split(".")
    if "experts" not in parts or "shared_experts" in parts:
        m.get_parameter(name).copy_(w)
        return
    at = parts.index("experts")
    experts, e, which = m.get_submodule(".".join(parts[:at + 1])), int(parts[at + 1]), parts[at + 2]
    if which == "down_proj":
        experts.down_proj[e].copy_(w)
    else:
        n = w.shape[0]
        experts.gate_up_proj[e][(which == "up_proj") * n:][:n].copy_(w)


def qwen():
    return tf.Qwen3_5MoeForCausalLM(tf.Qwen3_5MoeTextConfig(
        vocab_size=96, hidden_size=192, moe_intermediate_size=64, shared_expert_intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, num_experts=4, num_experts_per_tok=2, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=16, layer_types=["linear_attention", "full_attention"], max_position_embeddings=128, initializer_range=0.08, tie_word_embeddings=True, **IDS))


def make_experts(name, seed):
    """Experts as they lie in memory and in published files, and those alone in float8."""
    folder = os.path.join(HERE, name)
    torch.manual_seed(seed)
    m = qwen().float().eval()
    m.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    out = {n: w for n, w in load_file(path).items() if ".mlp.experts." not in n}
    prefix = next(n for n in out if n.endswith("layers.0.input_layernorm.weight"))[:-len("layers.0.input_layernorm.weight")]
    for i, layer in enumerate(m.model.layers):
        for part in ("gate_up_proj", "down_proj"):
            w = getattr(layer.mlp.experts, part)
            q, s, wide = torch.empty_like(w, dtype=torch.float8_e4m3fn), [], torch.empty_like(w)
            for e in range(w.shape[0]):
                raw, _ = factors_of(w[e].detach() * (0.5 + torch.rand(w.shape[1], 1)), "blocks")
                power = torch.exp2(torch.ceil(torch.log2(raw)))
                every = power.repeat_interleave(BLOCK, 0)[:w.shape[1]].repeat_interleave(BLOCK, 1)[:, :w.shape[2]]
                q[e] = (w[e].detach() / every).to(torch.float8_e4m3fn)
                wide[e] = q[e].float() * every
                s.append(power.to(torch.float8_e8m0fnu))
            with torch.no_grad():
                w.copy_(wide)
            stem = "%slayers.%d.mlp.experts.%s" % (prefix, i, part)
            out[stem], out[stem + "_scale_inv"] = q, torch.stack(s)
    save_file(dict(sorted(out.items())), path, metadata={"format": "pt"})
    finish(folder, m, seed, config_of("blocks"))


def finish(folder, m, seed, quantised):
    if quantised:
        c = json.load(open(os.path.join(folder, "config.json")))
        c["quantization_config"] = quantised
        json.dump(c, open(os.path.join(folder, "config.json"), "w"), indent=2, sort_keys=True)
    ids = torch.randint(3, 90, (1, 24), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = m(input_ids=ids, use_cache=False).logits[0]
    save_file({"ids": ids[0].to(torch.int32), "logits": logits.contiguous()}, os.path.join(folder, "logits.safetensors"))


if __name__ == "__main__":
    make("blocks", "blocks", llama, 21)
    make("tensor", "tensor", llama, 22)
    make("rows", "rows", llama, 23)
    make("latent", "blocks", deepseek, 24)
    make("narrow", "blocks", lambda: llama(intermediate_size=80), 25)
    make_experts("experts", 26)
    make("ragged", "blocks", lambda: llama(hidden_size=136, intermediate_size=200, head_dim=34), 27)
    make("ragged_latent", "blocks", lambda: deepseek(kv_lora_rank=80, q_lora_rank=72, qk_nope_head_dim=48, v_head_dim=16), 28)
    make("between", "blocks", lambda: llama(intermediate_size=160), 29, (BLOCK, 96))
    codes = torch.tensor([c for c in range(256) if c & 127 != 127] + [0, 0], dtype=torch.uint8)
    save_file({"codes": codes, "values": codes.view(torch.float8_e4m3fn).float()}, os.path.join(HERE, "values.safetensors"))
