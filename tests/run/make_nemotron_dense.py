#!/usr/bin/env python3
"""A tiny Nemotron-H whose feed-forwards have no experts, and its logits.

    python make_nemotron_dense.py        transformers 5.3.0, torch 2.9.1, on a CPU

The class of 5.3.0 knows no such layer; its block does with an entry in its table of mixers, and its feed-forward is the one of
shared experts. Names are those of published files.
"""
import json
import os

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)


def make(folder, seed):
    from transformers.models.nemotron_h import configuration_nemotron_h as c, modeling_nemotron_h as n
    n.MIXER_TYPES["mlp"] = lambda config, layer_idx: n.NemotronHMLP(config, intermediate_size=config.intermediate_size)
    types = ["mamba", "mlp", "attention", "mlp"]
    config = c.NemotronHConfig(vocab_size=96, hidden_size=48, intermediate_size=72, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                               mamba_num_heads=6, mamba_head_dim=8, ssm_state_size=12, n_groups=2, layers_block_type=["mamba", "moe", "attention", "moe"],
                               max_position_embeddings=128, initializer_range=0.1, use_mamba_kernels=False, **IDS)
    config.__dict__["layers_block_type"] = types
    torch.manual_seed(seed)
    m = n.NemotronHForCausalLM(config).float().eval()
    for layer in m.model.layers:  # forward() has masks for the types it knows
        layer.block_type = "moe" if layer.block_type == "mlp" else layer.block_type
    os.makedirs(folder, exist_ok=True)
    stored = {k.replace("model.", "backbone.", 1): v.contiguous() for k, v in m.state_dict().items()}
    save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    keep = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "mamba_num_heads", "mamba_head_dim",
            "ssm_state_size", "n_groups", "conv_kernel", "use_conv_bias", "use_bias", "layer_norm_epsilon", "max_position_embeddings", "mlp_hidden_act",
            "mamba_hidden_act", "bos_token_id", "eos_token_id", "pad_token_id")
    c = {k: getattr(config, k) for k in keep} | dict(model_type="nemotron_h", architectures=["NemotronHForCausalLM"], tie_word_embeddings=False,
                                                     num_hidden_layers=4, hybrid_override_pattern="M-*-", torch_dtype="float32",
                                                     time_step_limit=[0.0, float("inf")])  # bare Infinity, as published files have it
    json.dump(c, open(os.path.join(folder, "config.json"), "w"), indent=2, sort_keys=True)
    ids = torch.randint(3, 90, (1, 24), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = m(input_ids=ids, use_cache=False).logits[0]
    save_file({"ids": ids[0].to(torch.int32), "logits": logits.contiguous()}, os.path.join(folder, "logits.safetensors"))


if __name__ == "__main__":
    make(os.path.join(HERE, "nemotron_dense"), 27)
