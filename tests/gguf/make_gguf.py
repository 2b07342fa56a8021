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
             "granite", "granitemoe", "llama4", "olmo3", "qwen2_moe", "starcoder2", "gpt_oss_mxfp4", "deepseek_v2", "deepseek_v3", "stablelm2", "falcon_40b", "bloom", "apertus",
             "mamba2", "granitemoehybrid", "nemotron_h", "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma3n"]

ARCH = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
        "qwen3_moe": "qwen3moe", "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "gpt2": "gpt2",
        "gpt_neox": "gptneox", "olmo2": "olmo2", "smollm3": "smollm3", "olmo3": "olmo2", "exaone4": "exaone4",
        "cohere2": "cohere2", "cohere": "command-r", "glm4": "glm4", "glm4_moe": "glm4moe", "granite": "granite",
        "granitemoe": "granitemoe", "seed_oss": "seed_oss", "hunyuan_v1_dense": "hunyuan-dense", "ernie4_5": "ernie4_5",
        "ernie4_5_moe": "ernie4_5-moe", "minimax_m2": "minimax-m2", "qwen2_moe": "qwen2moe", "olmoe": "olmoe",
        "gemma": "gemma", "arcee": "arcee", "olmo": "olmo", "nemotron": "nemotron", "llama4_text": "llama4", "phi": "phi2",
        "gpt_bigcode": "starcoder", "starcoder2": "starcoder2", "gpt_oss": "gpt-oss", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2",
        "stablelm": "stablelm", "falcon": "falcon", "mpt": "mpt", "bloom": "bloom", "phimoe": "phimoe", "apertus": "apertus",
        "mamba2": "mamba2", "granitemoehybrid": "granitehybrid", "falcon_h1": "falcon-h1", "nemotron_h": "nemotron_h_moe", "lfm2": "lfm2",
        "lfm2_moe": "lfm2moe", "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "gemma3n_text": "gemma3n"}
RECURRENT = ("mamba2", "granitemoehybrid", "falcon_h1", "nemotron_h", "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
PERMUTED = ("llama", "smollm3", "granite", "granitemoe", "granitehybrid", "arcee", "olmo")
LAYER_NORM = ("gpt2", "starcoder2", "gpt_neox", "cohere", "cohere2", "nemotron", "phi", "olmo", "gpt_bigcode", "stablelm", "falcon", "mpt", "bloom")

NAMES = [
    (r"(model|transformer|gpt_neox)\.(embed_tokens|wte|embed_in|word_embeddings)", "token_embd"),
    (r"transformer\.word_embeddings_layernorm", "token_embd_norm"),
    (r"transformer\.wpe", "position_embd"),
    (r"(model\.norm|model\.final_layernorm|transformer\.ln_f|transformer\.norm_f|gpt_neox\.final_layer_norm)", "output_norm"),
    (r"(lm_head|embed_out)", "output"),
    (r"backbone\.embeddings", "token_embd"), (r"backbone\.norm_f", "output_norm"), (r"model\.embedding_norm", "token_embd_norm"),
    (r"model\.embed_tokens_per_layer", "per_layer_token_embd"), (r"model\.per_layer_model_projection", "per_layer_model_proj"),
    (r"model\.per_layer_projection_norm", "per_layer_proj_norm"),
    (r"(?:model\.layers|backbone\.layers|transformer\.(?:h|blocks)|gpt_neox\.layers)\.(\d+)\.(.*)", None),
]
LAYER = [
    (r"(?:mamba|mixer)\.in_proj", "ssm_in"), (r"(?:mamba|mixer|linear_attn)\.conv1d", "ssm_conv1d"), (r"(?:mamba|mixer|linear_attn)\.norm", "ssm_norm"),
    (r"(?:mamba|mixer|linear_attn)\.out_proj", "ssm_out"), (r"conv\.conv", "shortconv.conv"), (r"conv\.(in|out)_proj", r"shortconv.\1_proj"),
    (r"linear_attn\.in_proj_qkv", "attn_qkv"), (r"linear_attn\.in_proj_z", "attn_gate"), (r"linear_attn\.in_proj_b", "ssm_beta"),
    (r"linear_attn\.in_proj_a", "ssm_alpha"), (r"linear_attn\.in_proj_ba", "ssm_ba"),
    (r"norm|operator_norm", "attn_norm"), (r"pre_ff_layernorm|ffn_norm", "ffn_norm"), (r"mixer\.gate|feed_forward\.gate", "ffn_gate_inp"),
    (r"mixer\.(q|k|v)_proj", r"attn_\1"), (r"(?:mixer\.o_proj|self_attn\.out_proj)", "attn_output"),
    (r"feed_forward\.w1", "ffn_gate"), (r"feed_forward\.w3", "ffn_up"), (r"feed_forward\.w2", "ffn_down"),
    (r"feed_forward\.experts\.(\d+)\.w1", r"ffn_gate.\1"), (r"feed_forward\.experts\.(\d+)\.w3", r"ffn_up.\1"),
    (r"feed_forward\.experts\.(\d+)\.w2", r"ffn_down.\1"), (r"mixer\.experts\.(\d+)\.(up|down)_proj", r"ffn_\2.\1"),
    (r"mixer\.shared_experts\.(up|down)_proj", r"ffn_\1_shexp"),
    (r"altup\.correction_coefs", "altup_correct_coef"), (r"altup\.prediction_coefs", "altup_predict_coef"), (r"altup\.modality_router", "altup_router"),
    (r"altup\.router_norm", "altup_router_norm"), (r"laurel\.linear_left", "laurel_l"), (r"laurel\.linear_right", "laurel_r"),
    (r"laurel\.post_laurel_norm", "laurel_post_norm"), (r"per_layer_input_gate", "inp_gate"), (r"per_layer_projection", "proj"),
    (r"post_per_layer_input_norm", "post_norm"),
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
    bias = re.fullmatch(r"(?:model|backbone)\.layers\.(\d+)\..*(?:e_score_correction_bias|expert_bias)", name)
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


def order_of_heads(config):
    """Where value heads come from that lie by key heads in a folder, and by their number among a key head's in qwen35's files."""
    keys = config["linear_num_key_heads"]
    each = config["linear_num_value_heads"] // keys
    return [i * each + j for j in range(each) for i in range(keys)]


def rows_by_head(t, order):
    return t.reshape(len(order), -1, *t.shape[1:])[order].reshape(t.shape)


def recurrent_tensors(stored, config):
    """Rates as they are used, with a column; qkvz of qwen3next taken apart; qwen35's value heads in another order."""
    kind, out = config["model_type"], {}
    for name in [n for n in stored if n.endswith((".A_log", ".dt_bias", ".D"))]:
        t, i, part = stored.pop(name), name.split(".")[2], name.rsplit(".", 1)[1]
        delta = "linear_attn" in name
        if delta and kind != "qwen3_next":
            t = t[order_of_heads(config)]
        if part == "dt_bias":
            out["blk.%s.ssm_dt.bias" % i] = t
        else:
            t = -torch.exp(t.float()) if part == "A_log" else t
            out["blk.%s.%s" % (i, "ssm_a" if part == "A_log" else "ssm_d")] = t if delta else t[:, None]
    for name in [n for n in stored if n.endswith(".linear_attn.in_proj_qkvz.weight")]:
        keys, k, v = config["linear_num_key_heads"], config["linear_key_head_dim"], config["linear_value_head_dim"]
        each = v * config["linear_num_value_heads"] // keys
        t, i = stored.pop(name), name.split(".")[2]
        parts = t.reshape(keys, -1, t.shape[1]).split([k, k, each, each], 1)
        q, k, v, z = (p.reshape(-1, t.shape[1]) for p in parts)
        out["blk.%s.attn_qkv.weight" % i] = torch.cat([q, k, v])
        out["blk.%s.attn_gate.weight" % i] = z
    for name, t in stored.items():
        if ".conv1d.weight" in name or ".conv.conv.weight" in name:
            stored[name] = t[:, 0]
        if name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
            stored[name] = t.reshape(config.get("n_groups", config.get("mamba_n_groups")), -1)
    if kind in ("qwen3_5_text", "qwen3_5_moe_text"):
        order = order_of_heads(config)
        before = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
        for name, t in stored.items():
            if "linear_attn.in_proj_qkv" in name or "linear_attn.conv1d" in name:
                stored[name] = torch.cat([t[:before], rows_by_head(t[before:], order)])
            elif re.search(r"linear_attn\.in_proj_[zab]\.", name):
                stored[name] = rows_by_head(t, order)
            elif "linear_attn.out_proj" in name:
                stored[name] = rows_by_head(t.T, order).T.contiguous()
    if kind == "falcon_h1":
        fold_multipliers(stored, config)
    return out


def fold_multipliers(stored, c):
    """Falcon-H1's numbers are in its weights."""
    inner, states, heads = c["mamba_d_ssm"], c["mamba_n_groups"] * c["mamba_d_state"], c["mamba_n_heads"]
    parts = torch.cat([torch.full((n,), f) for n, f in zip((inner, inner, states, states, heads), c["ssm_multipliers"])])
    by = {"self_attn.q_proj": c["attention_in_multiplier"], "self_attn.k_proj": c["attention_in_multiplier"] * c["key_multiplier"],
          "self_attn.v_proj": c["attention_in_multiplier"], "self_attn.o_proj": c["attention_out_multiplier"],
          "mamba.in_proj": c["ssm_in_multiplier"] * parts[:, None], "mamba.out_proj": c["ssm_out_multiplier"],
          "feed_forward.gate_proj": c["mlp_multipliers"][0], "feed_forward.down_proj": c["mlp_multipliers"][1],
          "embed_tokens": c["embedding_multiplier"], "lm_head": c["lm_head_multiplier"]}
    for name, t in stored.items():
        for part, factor in by.items():
            if part + ".weight" in name:
                stored[name] = t.float() * factor


def stream_tensors(stored):
    """Gemma 3n's maps of streams, in one tensor each."""
    out = {}
    for part, to in (("altup_projections", "altup_proj"), ("altup_unembed_projections", "altup_unembd_proj")):
        names = sorted(n for n in stored if "model.%s." % part in n)
        out[to + ".weight"] = torch.stack([stored.pop(n) for n in names])
    for name in [n for n in stored if n.endswith(".correct_output_scale")]:
        out["blk.%s.altup_correct_scale.weight" % name.split(".")[2]] = stored.pop(name)
    return out


def tensors_of(folder, config):
    files = sorted(f for f in os.listdir(folder) if f.startswith("model") and f.endswith(".safetensors"))
    stored = {}
    for f in files:
        stored.update({n.replace("model.language_model.", "model."): t for n, t in load_file(os.path.join(folder, f)).items()})
    kind = config["model_type"]
    heads = config.get("num_attention_heads", config.get("n_head"))
    kv = config.get("num_key_value_heads", heads)
    out = gpt_oss_tensors(stored) if kind == "gpt_oss" else deepseek_tensors(stored, config) if config.get("kv_lora_rank") else {}
    out |= recurrent_tensors(stored, config) if kind in RECURRENT else stream_tensors(stored) if kind == "gemma3n_text" else {}
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
        shared = re.fullmatch(r"model\.layers\.(\d+)\.shared_mlp\.(input|output)_linear\.weight", name)
        if shared:
            end = "_shexp.weight" if config["num_local_experts"] else ".weight"
            for part, rows in zip(("gate", "up"), t.chunk(2)) if shared[2] == "input" else (("down", t),):
                out["blk.%s.ffn_%s%s" % (shared[1], part, end)] = rows.contiguous()
            continue
        after = kind in ("gemma2", "gemma3_text", "gemma3n_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo2", "olmo3", "exaone4", "glm4_moe", "seed_oss", "gpt_oss")
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
        counts = kind in ("gemma", "gemma2", "gemma3_text", "nemotron") or kind in RECURRENT[6:] and "ssm_norm" not in new
        if counts and new.endswith("norm.weight"):
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
    if config.get("tie_word_embeddings", kind in ("gpt2", "smollm3") or kind.startswith("gemma") or kind.startswith("lfm2")):
        out.pop("output.weight", None)
    experts = {}
    for name in [n for n in out if re.search(r"ffn_(gate|up|down)\.\d+\.", n)]:
        m = re.fullmatch(r"(blk\.\d+\.ffn_\w+)\.(\d+)\.weight", name)
        experts.setdefault(m[1] + "_exps.weight", {})[int(m[2])] = out.pop(name)
    for name, parts in experts.items():
        out[name] = torch.stack([parts[i] for i in range(len(parts))])
    if kind == "falcon_h1":  # the converter leaves out the end of this name
        out = {n.replace("ffn_norm.weight", "ffn_norm"): t for n, t in out.items()}
    if kind == "qwen3_5_moe_text":  # as the converter does where it is asked to
        for name in [n for n in out if n.endswith("ffn_gate_exps.weight")]:
            out[name.replace("gate_exps", "gate_up_exps")] = torch.cat([out.pop(name), out.pop(name.replace("gate", "up"))], 1)
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


def write_recurrent(w, c):
    """Of recurrent layers: sizes of states; which layers have attention, as an array of their keys' heads."""
    kind = c["model_type"]
    get = lambda *names: next((c[n] for n in names if c.get(n) is not None), None)
    if kind.startswith("lfm2"):
        w.add_shortconv_l_cache(c["conv_L_cache"])
    else:
        w.add_ssm_conv_kernel(get("conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"))
        w.add_ssm_state_size(get("state_size", "mamba_d_state", "ssm_state_size", "linear_key_head_dim"))
        w.add_ssm_group_count(get("n_groups", "mamba_n_groups", "linear_num_key_heads"))
        heads = get("num_heads", "mamba_n_heads", "mamba_num_heads", "linear_num_value_heads")
        w.add_ssm_time_step_rank(heads)
        w.add_ssm_inner_size(heads * (get("mamba_d_head", "mamba_head_dim", "linear_value_head_dim") or c.get("head_dim")))
    if kind.startswith("qwen3"):
        w.add_uint32(ARCH[kind] + ".full_attention_interval", 4)
    types = c.get("layers_block_type") or c.get("layer_types")
    if kind in ("granitemoehybrid", "nemotron_h", "lfm2", "lfm2_moe"):
        w.add_head_count_kv([c["num_key_value_heads"] if "attention" in t else 0 for t in types])
    if kind == "granitemoehybrid":
        w.add_rope_scaling_finetuned(c["position_embedding_type"] == "rope")


def inner_of(c):
    """Of LFM2, whose feed-forwards are not as wide as it says."""
    if not c.get("block_auto_adjust_ff_dim"):
        return None
    n, by = int(c["block_ffn_dim_multiplier"] * int(2 * c["intermediate_size"] / 3)), c["block_multiple_of"]
    return by * ((n + by - 1) // by)


def write_streams(w, c):
    normal = torch.distributions.normal.Normal(0, 1)
    w.add_altup_active_idx(c["altup_active_idx"])
    w.add_altup_num_inputs(c["altup_num_inputs"])
    w.add_embedding_length_per_layer_input(c["hidden_size_per_layer_input"])
    w.add_shared_kv_layers(c["num_kv_shared_layers"])
    w.add_activation_sparsity_scale([normal.icdf(torch.tensor(s)).item() for s in c["activation_sparsity_pattern"]])
    w.add_float32("gemma3n.final_logit_softcapping", c["final_logit_softcapping"])


def write_metadata(w, c, rope):
    kind, a = c["model_type"], ARCH[c["model_type"]]
    get = lambda *names: next((c[n] for n in names if c.get(n) is not None), None)
    heads, width = get("num_attention_heads", "n_head", "n_heads"), get("hidden_size", "n_embd", "d_model")
    w.add_context_length(get("max_position_embeddings", "n_positions", "max_seq_len") or 2048)
    w.add_embedding_length(width)
    w.add_vocab_size(c["vocab_size"])
    foretelling = kind == "glm4_moe"  # published files count a layer that predicts further tokens, and have it
    w.add_block_count((get("num_hidden_layers", "n_layer", "n_layers") or len(c["layers_block_type"])) + foretelling)
    if foretelling:
        w.add_nextn_predict_layers(1)
    if kind in RECURRENT:
        write_recurrent(w, c)
    if kind == "gemma3n_text":
        write_streams(w, c)
    w.add_feed_forward_length(inner_of(c) or get("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size") or 4 * width)
    w.add_head_count(heads or 0)
    if kind not in ("gpt2", "gpt_neox", "mamba2", "granitemoehybrid", "nemotron_h", "lfm2", "lfm2_moe"):
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
    elif get("head_dim") and kind != "mamba2":
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    eps = get("norm_epsilon", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
    (w.add_layer_norm_eps if kind in LAYER_NORM else w.add_layer_norm_rms_eps)(eps or 1e-5)
    if kind == "mpt":
        w.add_max_alibi_bias(8)
    if kind not in ("gpt2", "gpt_bigcode", "mpt", "bloom", "mamba2", "nemotron_h"):
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
    if kind in ("granite", "granitemoe", "granitemoehybrid"):
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
        if c.get("shared_intermediate_size") or c.get("moe_shared_expert_intermediate_size"):
            w.add_expert_shared_feed_forward_length(get("shared_intermediate_size", "moe_shared_expert_intermediate_size"))
        if kind in ("glm4_moe", "olmoe", "nemotron_h", "lfm2_moe"):
            w.add_expert_weights_norm(c["norm_topk_prob"])
        if kind in ("glm4_moe", "nemotron_h", "lfm2_moe"):
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
