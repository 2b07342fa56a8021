#!/usr/bin/env python3
"""Tiny checkpoints as bitsandbytes stores them, and the logits of the weights they stand for.

    python make_bnb.py            transformers 5.3.0, torch 2.9.1, bitsandbytes 0.50.2, on a CPU

Each folder beside this file gets a llama of 64 wide whose feed-forward of 96 has rows that blocks of 64 do not divide:
nf4 with its factors quantised again, fp4 with plain ones, int8. logits.safetensors holds "ids" and "logits", computed in
float32 with the dequantised weights: what a product in int8 does to activations is not the file's. blocks.safetensors has
rows of float32 and the blocks that bitsandbytes makes of them.
"""
import json
import os
import tempfile

import bitsandbytes.functional as F
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
PLANS = {
    "nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                bnb_4bit_compute_dtype=torch.float32),
    "fp4": dict(load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_compute_dtype=torch.float32),
    "int8": dict(load_in_8bit=True),
}


def plain_model(folder):
    torch.manual_seed(11)
    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=16, max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
                         initializer_range=0.1)
    LlamaForCausalLM(config).save_pretrained(folder)


def four_bits(w, state):
    """By the package's general routine: the one for CPUs takes blocks to end with rows, which the stored ones do not."""
    absmax = state.absmax
    if state.nested:
        absmax = F.dequantize_blockwise(absmax, state.state2) + state.offset
    return _dequantize_4bit_compute(w.reshape(-1), absmax, state.code, state.blocksize, state.shape, torch.float32)


def widened(folder):
    """The model of a folder with plain layers of the numbers that bitsandbytes makes of its blocks."""
    stored = load_file(os.path.join(folder, "model.safetensors"))
    config = json.load(open(os.path.join(folder, "config.json")))
    config.pop("quantization_config")
    state = {}
    for name, w in stored.items():
        if not name.endswith(".weight"):
            continue
        beside = {k[len(name) + 1:]: t for k, t in stored.items() if k.startswith(name + ".")}
        if beside:
            w = four_bits(w, F.QuantState.from_dict(beside, torch.device("cpu")))
        elif w.dtype == torch.int8:
            w = F.int8_vectorwise_dequant(w, stored[name[:-len("weight")] + "SCB"])
        state[name] = w.float()
    out = LlamaForCausalLM(LlamaConfig.from_dict(config)).float()
    out.load_state_dict(state)
    return out


def main():
    with tempfile.TemporaryDirectory() as plain:
        plain_model(plain)
        ids = torch.tensor([[(3 + 29 * i) % 128 for i in range(24)]])
        for name, plan in PLANS.items():
            folder = os.path.join(HERE, name)
            model = AutoModelForCausalLM.from_pretrained(plain, quantization_config=BitsAndBytesConfig(**plan),
                                                         dtype=torch.float32, device_map="cpu")
            model.save_pretrained(folder)
            with torch.no_grad():
                logits = widened(folder)(ids).logits[0]
            save_file({"ids": ids[0].to(torch.int32), "logits": logits.float().contiguous()},
                      os.path.join(folder, "logits.safetensors"))
    torch.manual_seed(3)
    rows = torch.randn(4, 512) * torch.tensor([[1.0], [0.01], [30.0], [1.0]])
    rows[3, :64] = 0
    rows[3, 70] = 9
    out = {"rows": rows}
    for kind in ("nf4", "fp4"):
        packed, state = F.quantize_4bit(rows, blocksize=64, quant_type=kind)
        out[kind], out[kind + ".absmax"] = packed.reshape(4, -1).contiguous(), state.absmax.reshape(4, -1).contiguous()
    save_file(out, os.path.join(HERE, "blocks.safetensors"))


if __name__ == "__main__":
    main()
