#!/usr/bin/env python3
"""GGUF files of the models in tests/golden, made without any of Cadenza's code.

    python make_gguf.py [NAME ...] [--out DIR] [--type f32|f16|bf16|q8_0|...]

Needs numpy, safetensors and llama.cpp's Python package gguf. What is stored where, and how it is laid out, follows
llama.cpp's converter: q and k of llama are permuted for rotation in neighbouring pairs, gemma's norms have the 1 added,
gpt2's weights are transposed, q, k and v of gpt_neox lie one after the other, experts lie in one tensor, llama3's rope
is a tensor of divisors. Without NAME: those that are committed beside this file (test_gguf_model).
"""
import argparse
import json
import math
import os
import re

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
COMMITTED = ["llama_bf16", "llama_tied_l3", "mistral_sw", "mixtral", "gemma3", "gpt_neox", "phi3", "qwen2_sw", "cohere2", "glm4_moe",
             "granite", "granitemoe", "llama4", "olmo3", "qwen2_moe", "gpt_oss_mxfp4", "deepseek_v2", "deepseek_v3", "stablelm2", "falcon_40b", "bloom", "apertus"]

ARCH = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
        "qwen3_moe": "qwen3moe", "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "gpt2": "gpt2",
        "gpt_neox": "gptneox", "olmo2": "olmo2", "smollm3": "smollm3", "olmo3": "olmo2", "exaone4": "exaone4",
        "cohere2": "cohere2", "cohere": "command-r", "glm4": "glm4", "glm4_moe": "glm4moe", "granite": "granite",
        "granitemoe": "granitemoe", "seed_oss": "seed_oss", "hunyuan_v1_dense": "hunyuan-dense", "ernie4_5": "ernie4_5",
        "ernie4_5_moe": "ernie4_5-moe", "minimax_m2": "minimax-m2", "qwen2_moe": "qwen2moe", "olmoe": "olmoe",
        "gemma": "gemma", "arcee": "arcee", "olmo": "olmo", "nemotron": "nemotron", "llama4_text": "llama4", "phi": "phi2",
        "gpt_bigcode": "starcoder", "gpt_oss": "gpt-oss", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2",
        "stablelm": "stablelm", "falcon": "falcon", "mpt": "mpt", "bloom": "bloom", "phimoe": "phimoe", "apertus": "apertus"}
PERMUTED = ("llama", "smollm3", "granite", "granitemoe", "arcee", "olmo")
LAYER_NORM = ("gpt2", "gpt_neox", "cohere", "cohere2", "nemotron", "phi", "olmo", "gpt_bigcode", "stablelm", "falcon", "mpt", "bloom")

NAMES = [
    (r"(model|transformer|gpt_neox)\.(embed_tokens|wte|embed_in|word_embeddings)", "token_embd"),
    (r"transformer\.word_embeddings_layernorm", "token_embd_norm"),
    (r"transformer\.wpe", "position_embd"),
    (r"(model\.norm|model\.final_layernorm|transformer\.ln_f|transformer\.norm_f|gpt_neox\.final_layer_norm)", "output_norm"),
    (r"(lm_head|embed_out)", "output"),
    (r"(?:model\.layers|transformer\.(?:h|blocks)|gpt_neox\.layers)\.(\d+)\.(.*)", None),
]
LAYER = [
    (r"self_attn\.(q|k)_layernorm", r"attn_\1_norm"), (r"attention_layernorm|norm_1|ln_mlp", "attn_norm"), (r"feedforward_layernorm|norm_2", "ffn_norm"),
    (r"ln_attn", "attn_norm_2"), (r"self_attention\.query_key_value|attn\.Wqkv", "attn_qkv"), (r"self_attention\.dense|attn\.out_proj", "attn_output"),
    (r"ffn\.(up|down)_proj", r"ffn_\1"),
    (r"self_attn\.(q_a|q_b|kv_b)_proj", r"attn_\1"), (r"self_attn\.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    (r"self_attn\.(q_a|kv_a)_layernorm", r"attn_\1_norm"), (r"mlp\.router", "ffn_gate_inp"),
    (r"(self_attn|attn|attention)\.(q|k|v)_proj", r"attn_\2"), (r"self_attn\.qkv_proj|attn\.c_attn|attention\.query_key_value", "attn_qkv"),
    (r"self_attn\.o_proj|attn\.c_proj|attention\.dense", "attn_output"), (r"self_attn\.(q|k)_norm", r"attn_\1_norm"),
    (r"self_attn\.(q|k)(?:uery|ey)_layernorm", r"attn_\1_norm"), (r"self_attn\.dense", "attn_output"),
    (r"mlp\.fc1", "ffn_up"), (r"mlp\.fc2", "ffn_down"), (r"feed_forward\.(gate|up|down)_proj", r"ffn_\1"),
    (r"(?:mlp\.shared_experts?|feed_forward\.shared_expert)\.(gate|up|down)_proj", r"ffn_\1_shexp"),
    (r"mlp\.shared_expert_gate", "ffn_gate_inp_shexp"), (r"feed_forward\.router|block_sparse_moe\.router\.layer", "ffn_gate_inp"),
    (r"post_self_attn_layernorm", "post_attention_norm"), (r"post_mlp_layernorm", "post_ffw_norm"),
    (r"input_layernorm|ln_1", "attn_norm"), (r"ln_2", "ffn_norm"), (r"pre_feedforward_layernorm", "ffn_norm"),
    (r"post_feedforward_layernorm", "post_ffw_norm"),
    (r"mlp\.gate_up_proj", "ffn_up"), (r"mlp\.(gate|up|down)_proj", r"ffn_\1"),
    (r"mlp\.(c_fc|dense_h_to_4h)", "ffn_up"), (r"mlp\.(c_proj|dense_4h_to_h)", "ffn_down"),
    (r"(block_sparse_moe|mlp)\.gate", "ffn_gate_inp"),
    (r"(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(?:w1|gate_proj)", r"ffn_gate.\1"),
    (r"(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(?:w3|up_proj)", r"ffn_up.\1"),
    (r"(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(?:w2|down_proj)", r"ffn_down.\1"),
]


def name_of(name, sandwich):
    bias = re.fullmatch(r"model\.layers\.(\d+)\..*e_score_correction_bias", name)
    if bias:
        return "blk.%s.exp_probs_b.bias" % bias[1]
    stem, suffix = name.rsplit(".", 1)
    for pattern, to in NAMES:
        m = re.fullmatch(pattern, stem)
        if m and to:
            return to + "." + suffix
        if m:
            if m[2] == "post_attention_layernorm":
                return "blk.%s.%s.%s" % (m[1], "post_attention_norm" if sandwich else "ffn_norm", suffix)
            for p, t in LAYER:
                if re.fullmatch(p, m[2]):
                    return "blk.%s.%s.%s" % (m[1], re.sub(p, t, m[2]), suffix)
    raise SystemExit("no name for " + name)


def permute(t, heads):
    """(head, 2, half) rows to (head, half, 2): pairs i and i + half become neighbours."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).transpose(1, 2).reshape(t.shape)


class Mxfp4:
    """Blocks of the format: an exponent, then bytes of elements i and i + 16."""

    def __init__(self, nibbles, exponents):
        """nibbles (..., blocks, 16), element 2 b low and 2 b + 1 high in byte b; exponents (..., blocks)"""
        each = torch.stack((nibbles & 15, nibbles >> 4), -1).flatten(-2)
        data = torch.cat((exponents[..., None], each[..., :16] | each[..., 16:] << 4), -1)
        self.data = data.flatten(-2).numpy()

    def dim(self):
        return self.data.ndim

    dtype = torch.uint8


def gpt_oss_tensors(stored):
    """Of gpt_oss: a gate's row and an up's row alternate; as floats experts are (inputs, outputs), in blocks (outputs, inputs)."""
    out = {}
    own = {n: stored.pop(n) for n in list(stored) if ".self_attn.sinks" in n or ".mlp.experts." in n}
    for name, t in own.items():
        i = name.split(".")[2]
        if name.endswith("sinks"):
            out["blk.%s.attn_sinks.weight" % i] = t
            continue
        part = name.rsplit(".", 1)[1]
        if part.endswith("_scales"):
            continue
        suffix = "bias" if part.endswith("_bias") else "weight"
        if part.endswith("_blocks"):
            scales = own[name.replace("_blocks", "_scales")]
            pick = lambda step: Mxfp4(t[:, step].contiguous(), scales[:, step].contiguous())
        else:
            t = t if suffix == "bias" else t.transpose(1, 2).contiguous()
            pick = lambda step: t[:, step].contiguous()
        if part.startswith("gate_up"):
            out["blk.%s.ffn_gate_exps.%s" % (i, suffix)] = pick(slice(0, None, 2))
            out["blk.%s.ffn_up_exps.%s" % (i, suffix)] = pick(slice(1, None, 2))
        else:
            out["blk.%s.ffn_down_exps.%s" % (i, suffix)] = pick(slice(None))
    return out


def deepseek_tensors(stored, config):
    """Keys' and values' maps of heads apart, the former transposed."""
    out = {}
    for name in [n for n in stored if n.endswith("kv_b_proj.weight")]:
        t, i = stored.pop(name), name.split(".")[2]
        heads, plain = config["num_attention_heads"], config["qk_nope_head_dim"]
        t = t.reshape(heads, plain + config["v_head_dim"], -1)
        out["blk.%s.attn_k_b.weight" % i] = t[:, :plain].transpose(1, 2).contiguous()
        out["blk.%s.attn_v_b.weight" % i] = t[:, plain:].contiguous()
    return out


def tensors_of(folder, config):
    files = sorted(f for f in os.listdir(folder) if f.startswith("model") and f.endswith(".safetensors"))
    stored = {}
    for f in files:
        stored.update(load_file(os.path.join(folder, f)))
    kind = config["model_type"]
    heads = config.get("num_attention_heads", config.get("n_head"))
    kv = config.get("num_key_value_heads", heads)
    out = gpt_oss_tensors(stored) if kind == "gpt_oss" else deepseek_tensors(stored, config) if config.get("kv_lora_rank") else {}
    for name in [n for n in stored if ".norms.0." in n]:  # of each head, to one tensor
        each = [stored.pop(name.replace(".norms.0.", ".norms.%d." % h)) for h in range(kv if "k_layernorm" in name else heads)]
        stored[name.replace(".norms.0.", ".")] = torch.stack(each)
    for name, t in stored.items():
        if ".act_fn." in name:
            continue
        if kind == "gpt2" and name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        stacked = re.fullmatch(r"model\.layers\.(\d+)\..*\.(gate_up_proj|down_proj|input_linear\.weight|output_linear\.weight)", name)
        if stacked and t.dim() == 3:  # llama4 has (inputs, outputs), granitemoe (outputs, inputs)
            t = t.transpose(1, 2).contiguous() if kind == "llama4_text" else t
            if stacked[2] in ("gate_up_proj", "input_linear.weight"):
                half = t.shape[1] // 2
                out["blk.%s.ffn_gate_exps.weight" % stacked[1]] = t[:, :half].contiguous()
                out["blk.%s.ffn_up_exps.weight" % stacked[1]] = t[:, half:].contiguous()
            else:
                out["blk.%s.ffn_down_exps.weight" % stacked[1]] = t
            continue
        after = kind in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "glm4_moe", "seed_oss", "gpt_oss")
        new = name_of(name, after)
        if new.endswith("exp_probs_b.bias"):
            t = t.reshape(-1)
        if "ffn_gate_inp_shexp" in new:
            t = t.reshape(-1)
        if ARCH[kind] in PERMUTED:
            if ".attn_q." in new:
                t = permute(t, heads)
            if ".attn_k." in new:
                t = permute(t, kv)
        if (kind.startswith("gemma") or kind == "nemotron") and new.endswith("norm.weight"):
            t = t.float() + 1
        if kind == "gpt2" and t.dim() == 2 and new.startswith("blk."):
            t = t.T.contiguous()
        if kind in ("gpt_neox", "bloom") and ".attn_qkv." in new:
            t = t.reshape(heads, 3, t.shape[0] // heads // 3, *t.shape[1:]).transpose(0, 1).reshape(t.shape)
        if kind == "falcon" and ".attn_qkv." in new:
            groups = config["num_kv_heads"] if config["new_decoder_architecture"] else 1
            each = t.reshape(groups, heads // groups + 2, -1, *t.shape[1:])
            t = torch.cat([each[:, :-2].reshape(-1, *t.shape[1:]), each[:, -2].reshape(-1, *t.shape[1:]), each[:, -1].reshape(-1, *t.shape[1:])])
        out[new] = t
    if config.get("tie_word_embeddings", kind in ("gpt2", "smollm3") or kind.startswith("gemma")):
        out.pop("output.weight", None)
    experts = {}
    for name in [n for n in out if re.search(r"ffn_(gate|up|down)\.\d+\.", n)]:
        m = re.fullmatch(r"(blk\.\d+\.ffn_\w+)\.(\d+)\.weight", name)
        experts.setdefault(m[1] + "_exps.weight", {})[int(m[2])] = out.pop(name)
    for name, parts in experts.items():
        out[name] = torch.stack([parts[i] for i in range(len(parts))])
    return out


def rope_divisors(rope, dim):
    base, factor = rope["rope_theta"], rope["factor"]
    low, high, old = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    out = []
    for f in [base ** (-i / dim) for i in range(0, dim, 2)]:
        wave = 2 * math.pi / f
        if wave < old / high:
            out.append(1)
        elif wave > old / low:
            out.append(factor)
        else:
            smooth = (old / wave - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(out, dtype=torch.float32)


def one_key(c):
    """Of the older falcons, whose num_kv_heads says nothing."""
    return c["model_type"] == "falcon" and not c["new_decoder_architecture"] and c["multi_query"]


def write_metadata(w, c, rope):
    kind, a = c["model_type"], ARCH[c["model_type"]]
    get = lambda *names: next((c[n] for n in names if c.get(n) is not None), None)
    heads, width = get("num_attention_heads", "n_head", "n_heads"), get("hidden_size", "n_embd", "d_model")
    w.add_context_length(get("max_position_embeddings", "n_positions", "max_seq_len") or 2048)
    w.add_embedding_length(width)
    w.add_vocab_size(c["vocab_size"])
    foretelling = kind == "glm4_moe"  # published files count a layer that predicts further tokens, and have it
    w.add_block_count(get("num_hidden_layers", "n_layer", "n_layers") + foretelling)
    if foretelling:
        w.add_nextn_predict_layers(1)
    w.add_feed_forward_length(get("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size") or 4 * width)
    w.add_head_count(heads)
    if kind not in ("gpt2", "gpt_neox"):
        w.add_head_count_kv(1 if c.get("kv_lora_rank") or one_key(c) else get("num_key_value_heads", "num_kv_heads") or heads)
    if c.get("kv_lora_rank"):
        rotated, rank = c["qk_rope_head_dim"], c["kv_lora_rank"]
        w.add_key_length(rank + rotated)
        w.add_value_length(rank)
        w.add_key_length_mla(c["qk_nope_head_dim"] + rotated)
        w.add_value_length_mla(c["v_head_dim"])
        w.add_kv_lora_rank(rank)
        if c["q_lora_rank"]:
            w.add_q_lora_rank(c["q_lora_rank"])
        w.add_leading_dense_block_count(c["first_k_dense_replace"])
        w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_weights_norm(c["norm_topk_prob"])
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if kind == "deepseek_v3" else gguf.ExpertGatingFuncType.SOFTMAX)
        if c["n_group"]:
            w.add_expert_group_count(c["n_group"])
            w.add_expert_group_used_count(c["topk_group"])
        if rope.get("mscale_all_dim"):
            w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    elif get("head_dim"):
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    eps = get("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
    (w.add_layer_norm_eps if kind in LAYER_NORM else w.add_layer_norm_rms_eps)(eps or 1e-5)
    if kind == "mpt":
        w.add_max_alibi_bias(8)
    if kind not in ("gpt2", "gpt_bigcode", "mpt", "bloom"):
        full = rope.get("full_attention", rope)
        dim = c.get("head_dim") or width // heads
        w.add_rope_freq_base(full["rope_theta"] * full.get("alpha", 1) ** (dim / (dim - 2)))
        share = full.get("partial_rotary_factor", c.get("rotary_pct", c.get("partial_rotary_factor", 1)))
        w.add_rope_dimension_count(int((c.get("head_dim") or width // heads) * share))
        if full.get("rope_type") in ("linear", "yarn"):
            w.add_rope_scaling_type(gguf.RopeScalingType(full["rope_type"]))
            w.add_rope_scaling_factor(full["factor"])
            if "original_max_position_embeddings" in full:
                w.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
        if "sliding_attention" in rope:
            w.add_float32(a + ".rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
    if kind in ("gpt_neox", "stablelm"):
        w.add_parallel_residual(c.get("use_parallel_residual", True))
    slides = [t == "sliding_attention" for t in c.get("layer_types") or []]
    if c.get("sliding_window_pattern"):
        slides = [(i + 1) % c["sliding_window_pattern"] != 0 for i in range(c["num_hidden_layers"])]
    if c.get("sliding_window") and (c.get("use_sliding_window", True) or any(slides)):
        w.add_sliding_window(c["sliding_window"])
        if slides:
            w.add_sliding_window_pattern(slides)
    if kind == "llama4_text":  # llama.cpp has them as constants, and no keys for them; small models need others
        w.add_uint32(a + ".attention.chunk_size", c["attention_chunk_size"])
        w.add_uint32(a + ".attention.temperature_length", c["floor_scale"])
        w.add_float32(a + ".attention.temperature_scale", c["attn_scale"])
    if kind in ("cohere", "cohere2"):
        w.add_float32(a + ".logit_scale", c["logit_scale"])
    if kind in ("granite", "granitemoe"):
        for key, name in (("embedding_multiplier", "embedding_scale"), ("residual_multiplier", "residual_scale"),
                          ("attention_multiplier", "attention.scale"), ("logits_scaling", "logit_scale")):
            w.add_float32(a + "." + name, c[key])
    if kind in ("gemma2", "gemma3_text"):
        w.add_float32(a + ".attention.scale", c["query_pre_attn_scalar"] ** -0.5)
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            if c.get(key):
                w.add_float32(a + "." + key, c[key])
    if get("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"):
        w.add_expert_count(get("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"))
        w.add_expert_used_count(get("num_experts_per_tok", "moe_k"))
        if get("n_shared_experts", "moe_num_shared_experts"):
            w.add_expert_shared_count(get("n_shared_experts", "moe_num_shared_experts"))
        if c.get("shared_expert_intermediate_size"):
            w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
        if kind in ("glm4_moe", "olmoe"):
            w.add_expert_weights_norm(c["norm_topk_prob"])
        if kind == "glm4_moe":
            w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_feed_forward_length(get("moe_intermediate_size", "intermediate_size"))
    for key in ("bos", "eos", "pad"):
        if isinstance(c.get(key + "_token_id"), int):
            getattr(w, "add_%s_token_id" % key)(c[key + "_token_id"])


def convert(name, out, kind, wide=False):
    """wide: quantised and back, stored as float32."""
    folder = os.path.join(GOLDEN, name)
    config = json.load(open(os.path.join(folder, "config.json")))
    rope = config.get("rope_parameters") or {
        "rope_theta": config.get("rope_theta", config.get("rotary_emb_base", 10000.0)), **(config.get("rope_scaling") or {})}
    if "rope_local_base_freq" in config:
        rope = {"full_attention": rope, "sliding_attention": {"rope_theta": config["rope_local_base_freq"]}}
    w = gguf.GGUFWriter(out, ARCH[config["model_type"]])
    w.add_name(name)
    write_metadata(w, config, rope)
    w.add_tokenizer_model("none")
    tensors = tensors_of(folder, config)
    if config["model_type"] == "apertus":
        stored = load_file(os.path.join(folder, "model.safetensors"))
        for key in ("alpha_p", "alpha_n", "beta", "eps"):
            w.add_array("xielu." + key, [float(stored["model.layers.%d.mlp.act_fn.%s" % (i, key)].float()) for i in range(config["num_hidden_layers"])])
    if rope.get("rope_type") == "longrope":
        for key in ("long", "short"):
            tensors["rope_factors_%s.weight" % key] = torch.tensor(rope[key + "_factor"])
        w.add_rope_scaling_attn_factors(rope["short_mscale"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope.get("rope_type") == "llama3":
        dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        tensors["rope_freqs.weight"] = rope_divisors(rope, dim)
    types = gguf.GGMLQuantizationType
    for n, t in tensors.items():
        plain = t.dim() == 1 or n.startswith("position_embd") or "ffn_gate_inp" in n
        wanted = "f32" if plain else kind or {torch.bfloat16: "bf16", torch.float16: "f16"}.get(t.dtype, "f32")
        if isinstance(t, Mxfp4):
            w.add_tensor(n, t.data, raw_dtype=types.MXFP4)
            continue
        data = t.float().numpy()
        if wanted == "bf16":
            w.add_tensor(n, t.to(torch.bfloat16).view(torch.uint16).numpy().view(np.uint8), raw_dtype=types.BF16)
        elif wanted in ("f32", "f16"):
            w.add_tensor(n, data.astype(np.float16 if wanted == "f16" else np.float32))
        else:
            blocks = gguf.quants.quantize(data, types[wanted.upper()])
            if wide:
                w.add_tensor(n, gguf.quants.dequantize(blocks, types[wanted.upper()]))
            else:
                w.add_tensor(n, blocks, raw_dtype=types[wanted.upper()])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def vocabulary(name, out):
    """A file of a vocabulary alone, from a folder of tests/tokenizers."""
    folder = os.path.join(HERE, "..", "tokenizers", name)
    t = json.load(open(os.path.join(folder, "tokenizer.json"), encoding="utf-8"))
    added = {a["id"]: a for a in t["added_tokens"]}
    texts = {i: text for text, i in t["model"]["vocab"].items()} | {i: a["content"] for i, a in added.items()}
    n = max(texts) + 1
    tokens = [texts.get(i, "[unused %d]" % i) for i in range(n)]
    kinds = [gguf.TokenType.UNUSED if i not in texts else gguf.TokenType.NORMAL if i not in added else
             gguf.TokenType.CONTROL if added[i]["special"] else gguf.TokenType.USER_DEFINED for i in range(n)]
    merges = [m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]]
    w = gguf.GGUFWriter(out, "llama")
    w.add_token_list(tokens)
    if t["model"].get("byte_fallback"):
        # Scores as sentencepiece writes them: the earlier a token was made, the higher.
        made = {}
        for rank, m in enumerate(merges):
            made.setdefault(m.replace(" ", ""), -float(rank))
        w.add_tokenizer_model("llama")
        w.add_token_scores([made.get(text, 0.0) for text in tokens])
        for i, text in enumerate(tokens):
            if re.fullmatch("<0x[0-9A-F]{2}>", text):
                kinds[i] = gguf.TokenType.BYTE
            if text == t["model"]["unk_token"]:
                w.add_unk_token_id(i)
        w.add_bos_token_id(tokens.index("<s>"))
        w.add_eos_token_id(tokens.index("</s>"))
        w.add_chat_template([{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"},
                             {"name": "tool_use", "template": "tools: {{ messages[0].content }}"}])
    else:
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(name)
        w.add_token_merges(merges)
    w.add_token_types(kinds)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


# Where a block has its float16 factors.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [], "IQ4_NL": [0], "IQ4_XS": [0]}


def blocks(out):
    """Random blocks of every quantised type, and what the package makes of them."""
    random = np.random.default_rng(1)
    w = gguf.GGUFWriter(out, "none")
    for name, places in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        length, size = gguf.GGML_QUANT_SIZES[kind]
        n = 1024 // length
        data = random.integers(0, 256, (n, size), dtype=np.uint8)
        for at in places:
            data[:, at:at + 2] = random.uniform(-2, 2, (n, 1)).astype(np.float16).view(np.uint8)
        if name == "MXFP4":
            data[:4, 0] = 0, 1, 2, 253
            data[4:, 0] %= 250
        data = data.reshape(2, -1)
        w.add_tensor(name, data, raw_dtype=kind)
        w.add_tensor(name + ".wide", gguf.quants.dequantize(data, kind))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("names", nargs="*")
    ap.add_argument("--out", default=HERE)
    ap.add_argument("--type")
    args = ap.parse_args()
    if not args.names:
        blocks(os.path.join(args.out, "blocks.gguf"))
        for kind in ("q8_0", "q4_0", "q5_1"):
            convert("llama_bf16", os.path.join(args.out, "llama_bf16_%s.gguf" % kind), kind)
            convert("llama_bf16", os.path.join(args.out, "llama_bf16_%s_wide.gguf" % kind), kind, wide=True)
    for name in [] if args.names else ["qwen2", "llama2"]:
        vocabulary(name, os.path.join(args.out, "vocab_%s.gguf" % name))
    for name in args.names or COMMITTED:
        convert(name, os.path.join(args.out, name + (("_" + args.type) if args.type else "") + ".gguf"), args.type)
