#!/usr/bin/env python3
"""The shapes of bench_cuda in transformers on the same card: random weights in bf16, single-stream decode, a batch of 64, and
a prompt of 2048. Prints a table like bench_cuda's."""
import argparse
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {  # layers, hidden, heads, kv heads, inner, vocabulary
    "0.5B": (24, 896, 14, 2, 4864, 151936),
    "1B": (16, 2048, 32, 8, 8192, 128256),
    "8B": (32, 4096, 32, 8, 14336, 128256),
}


def make(name):
    layers, hidden, heads, kv_heads, inner, vocab = SHAPES[name]
    config = LlamaConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads,
                         intermediate_size=inner, vocab_size=vocab, max_position_embeddings=8192, tie_word_embeddings=True)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    return model.eval()


def timed(run):
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def decode(model, rows, context, steps):
    """Seconds a step: the difference of two lengths, so that the prompt cancels."""
    ids = torch.randint(0, 100, (rows, context), device="cuda")
    def run(new):
        model.generate(ids, do_sample=False, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)
    run(4)
    return (timed(lambda: run(steps + 4)) - timed(lambda: run(4))) / steps


def prefill(model, length):
    ids = torch.randint(0, 100, (1, length), device="cuda")
    def run():
        model(ids, logits_to_keep=1)
    run()
    return min(timed(run) for _ in range(3))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="0.5B,1B,8B")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--steps", type=int, default=64)
    options = parser.parse_args()
    print(f"transformers on {torch.cuda.get_device_name()}, weights bf16")
    print(f"{'shape':5} {'tokens/s':>9} {'batch 64, t/s':>15} {'prompt/s':>9}")
    with torch.inference_mode():
        for name in options.shapes.split(","):
            model = make(name)
            one = decode(model, 1, options.context, options.steps)
            many = decode(model, 64, options.context, options.steps)
            print(f"{name:5} {1 / one:9.1f} {64 / many:15.1f} {2048 / prefill(model, 2048):9.0f}", flush=True)
            del model
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
