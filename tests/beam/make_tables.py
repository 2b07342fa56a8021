#!/usr/bin/env python3
"""Models that are tables: the next token's probabilities depend on the last token alone.

A Llama of one layer that adds nothing to its embeddings: token i is the i-th unit vector, the final norm scales it back
to length one, and column i of the head holds the logarithms of row i of the table. So its logits are exact and can be
followed by hand. The tables and what transformers 5.3.0 does with them are in beam search's worked trace and test
vectors; cases.json beside each model has the latter, in the form of the golden cases. Needs nothing but Python.
"""
import argparse, json, math, os, struct

HIDDEN = 16

TRANSITIONS = [
    [0.10, 0.40, 0.30, 0.15, 0.05],
    [0.05, 0.10, 0.45, 0.15, 0.25],
    [0.10, 0.20, 0.05, 0.30, 0.35],
    [0.05, 0.35, 0.25, 0.10, 0.25],
    [0.20, 0.20, 0.20, 0.20, 0.20],
]
WEIGHTS = [[3, 1, 7, 5, 5], [1, 7, 5, 6, 7], [2, 3, 3, 5, 6], [3, 2, 4, 7, 7], [7, 3, 5, 5, 6]]
STOPPING = [[w / sum(row) for w in row] for row in WEIGHTS]


def tensors(table):
    n = len(table)
    zero = [0.0] * (HIDDEN * HIDDEN)
    unit = [float(i == j) for i in range(n) for j in range(HIDDEN)]
    head = [math.log(table[j][i]) if j < n else 0.0 for i in range(n) for j in range(HIDDEN)]
    layer = "model.layers.0."
    yield "model.embed_tokens.weight", (n, HIDDEN), unit
    yield "lm_head.weight", (n, HIDDEN), head
    yield "model.norm.weight", (HIDDEN,), [1 / math.sqrt(HIDDEN)] * HIDDEN
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{layer}{name}.weight", (HIDDEN,), [1.0] * HIDDEN
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        yield f"{layer}{name}.weight", (HIDDEN, HIDDEN), zero


def write_model(folder, table):
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b""
    for name, shape, values in tensors(table):
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(table),
        "hidden_size": HIDDEN, "intermediate_size": HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": HIDDEN // 2,
        "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-12,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "tie_word_embeddings": False,
    }
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


# ---------------------------------------------------------------- cases
END = {"eos_token_id": 4, "pad_token_id": 3, "top_k": 0}


def case(name, prompts, kwargs, sequences, seed=None, **expect):
    c = {"id": name, "prompt_ids": prompts, "kwargs": {**END, **kwargs}, "expect": {"sequences": sequences, **expect}}
    if seed is not None:
        c["seed"] = seed
    if c["kwargs"]["pad_token_id"] == 0:
        c["attention_mask"] = [[1] * len(p) for p in prompts]  # the prompt's 0 is a token
    words = ["beam"] * (kwargs.get("num_beams", 1) > 1) + ["sample"] * kwargs.get("do_sample", False)
    c["mode"] = "_".join(words) or "greedy"
    return c


def fill(prompt, rows, pad=3):
    width = max(map(len, rows))
    return [prompt + row + [pad] * (width - len(row)) for row in rows]


def transition_cases():
    yield case("greedy", [[0], [1]], {"max_new_tokens": 5}, [[0, 1, 2, 4], [1, 2, 4, 3]])
    for seed, rows in enumerate([[[0, 2, 1, 2, 3, 1, 2], [2, 4, 3, 3, 3, 3, 3]],
                                 [[0, 0, 1, 2, 1, 2, 1], [2, 0, 2, 1, 2, 4, 3]],
                                 [[0, 1, 0, 1, 0, 1, 4], [2, 1, 4, 3, 3, 3, 3]]]):
        yield case(f"sample/{seed}", [[0], [2]], {"max_new_tokens": 6, "do_sample": True}, rows, seed)
    yield case("sample/returns", [[0]], {"max_new_tokens": 5, "do_sample": True, "num_return_sequences": 2},
               [[0, 2, 1, 2, 3, 1], [0, 1, 2, 4, 3, 3]], 0)
    drawn = [([[0, 1, 2, 4, 3], [0, 1, 2, 3, 2]], [-0.9215, -1.0763]),
             ([[0, 2, 3, 1, 2], [0, 1, 4, 3, 3]], [-1.0641, -1.1513]),
             ([[0, 1, 2, 4, 3], [0, 1, 2, 3, 1]], [-0.9215, -0.9921])]
    for seed, (rows, scores) in enumerate(drawn):
        yield case(f"beam_sample/{seed}", [[0]],
                   {"max_new_tokens": 4, "do_sample": True, "num_beams": 2, "num_return_sequences": 2}, rows, seed,
                   sequences_scores=scores)

    # The worked trace. The pad token 0 counts as none, so that 4 fills.
    trace = {"num_beams": 2, "num_return_sequences": 2, "pad_token_id": 0, "max_new_tokens": 3}
    yield case("trace", [[0]], {**trace, "length_penalty": 1.0}, [[0, 1, 2, 4], [0, 1, 2, 3]],
               sequences_scores=[-0.921540, -0.972924], beam_indices=[[0, 0, 0], [0, 0, 0]], n_steps=3,
               transition_scores=[[-0.916291, -0.798508, -1.049822], [-0.916291, -0.798508, -1.203973]])
    yield case("trace/no_penalty", [[0]], {**trace, "length_penalty": 0.0}, [[0, 2, 4, 4], [0, 1, 2, 4]],
               sequences_scores=[-2.253795, -2.764621], beam_indices=[[0, 1, -1], [0, 0, 0]], n_steps=3,
               transition_scores=[[-1.203973, -1.049822, 0], [-0.916291, -0.798508, -1.049822]])

    table = [
        (0.0, [False, True, "never"], 3, [[2, 4], [1, 4], [1, 2, 4]], [-2.253795, -2.302585, -2.764621]),
        (1.0, [False, "never"], 6, [[1, 2, 4], [1, 2, 3, 1, 2, 4], [1, 2, 3, 1, 2, 3]],
         [-0.921540, -0.969487, -0.995179]),
        (1.0, [True], 3, [[1, 2, 4], [2, 4], [1, 4]], [-0.921540, -1.126897, -1.151293]),
        (2.0, [False, "never"], 6, [[1, 2, 3, 1, 2, 4], [1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 2, 1]],
         [-0.161581, -0.165863, -0.177126]),
        (2.0, [True], 3, [[1, 2, 4], [2, 4], [1, 4]], [-0.307180, -0.563449, -0.575646]),
        (-1.0, [False, True, "never"], 3, [[2, 4], [1, 4], [1, 2, 4]], [-4.507590, -4.605170, -8.293861]),
    ]
    for penalty, rules, steps, rows, scores in table:
        for rule in rules:
            yield case(f"beam/{penalty}/{rule}".lower(), [[0]],
                       {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 6, "length_penalty": penalty,
                        "early_stopping": rule}, fill([0], rows), sequences_scores=scores, n_steps=steps)


def stopping_cases():
    table = [
        (True, 2, [[2, 4], [4]], [-1.125646, -1.435085]),
        (False, 3, [[2, 4], [2, 3, 4]], [-1.125646, -1.207733]),
        ("never", 8, [[2, 4], [2, 3, 3, 3, 3, 3, 3, 3]], [-1.125646, -1.196390]),
    ]
    for rule, steps, rows, scores in table:
        yield case(f"rule/{rule}".lower(), [[0]],
                   {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 8, "length_penalty": 1.0,
                    "early_stopping": rule}, fill([0], rows), sequences_scores=scores, n_steps=steps)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", nargs="?", default=os.path.dirname(os.path.abspath(__file__)), help="another place for them")
    here = ap.parse_args().folder
    for name, table, cases in (("transitions", TRANSITIONS, transition_cases()), ("stopping", STOPPING, stopping_cases())):
        folder = os.path.join(here, name)
        write_model(folder, table)
        with open(os.path.join(folder, "cases.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
