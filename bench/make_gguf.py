#!/usr/bin/env python3
"""Write a GGUF file with the very weights of a Hugging Face folder, for peers that read nothing else.

    make_gguf.py FOLDER OUT.gguf

Llama and Qwen2 folders; types are kept (norms and biases as float32, as those peers want them). No vocabulary goes
in: such a file is for timing with token ids. Needs gguf, safetensors, torch and numpy.
"""
import argparse
import json
import pathlib

import gguf
import torch
from safetensors.torch import load_file

LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
TYPES = {torch.float32: gguf.GGMLQuantizationType.F32, torch.float16: gguf.GGMLQuantizationType.F16,
         torch.bfloat16: gguf.GGMLQuantizationType.BF16}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem == "model.embed_tokens":
        return "token_embd." + kind
    if stem == "model.norm":
        return "output_norm." + kind
    if stem == "lm_head":
        return "output." + kind
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def pair_rows(t, heads):
    """Llama in GGUF rotates neighbouring pairs; the folder's rows are in halves."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("out")
    a = ap.parse_args()
    c = json.loads((a.folder / "config.json").read_text())
    arch = c["model_type"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    dim = c.get("head_dim") or c["hidden_size"] // heads
    w = gguf.GGUFWriter(a.out, arch)
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(dim)
    w.add_value_length(dim)
    w.add_rope_dimension_count(dim)
    w.add_rope_freq_base(c.get("rope_theta") or c["rope_parameters"]["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("none")
    for file in sorted(a.folder.glob("*.safetensors")):
        for name, t in load_file(file).items():
            if arch == "llama" and "q_proj" in name:
                t = pair_rows(t, heads)
            if arch == "llama" and "k_proj" in name:
                t = pair_rows(t, kv)
            if t.ndim == 1:
                t = t.float()
            kind = TYPES[t.dtype]
            data = t.contiguous().view(torch.uint8).numpy() if t.dtype == torch.bfloat16 else t.contiguous().numpy()
            w.add_tensor(gguf_name(name), data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
