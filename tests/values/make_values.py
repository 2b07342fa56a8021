"""make_values.py - makes the models of this folder and records values.json: what transformers and TRL's value head say of texts.

    make_values.py FOLDER

transformers 5.3.0, torch 2.9.1, float32; weights are random, of a fixed seed. A case has the ids of a text, pads behind it too,
and the values at its last token that is no pad (`score`), or of TRL's head at every place: TRL's ValueHead is a linear
map, `summary`, of the last hidden state, saved beside the model's own tensors as v_head.summary.weight and .bias. `pocket_labels`
has the shipped models' tokens, for examples; their tokenizer.json belongs to it."""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(sys.argv[1])
SHIPPED = HERE.parent.parent / "models" / "pocket-dictionary"
SMALL = dict(vocab_size=96, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)


def configs():
    yield "llama_reward", transformers.LlamaConfig(**SMALL, num_labels=1, pad_token_id=None)
    yield "qwen2_labels", transformers.Qwen2Config(**SMALL, num_labels=3, pad_token_id=0, tie_word_embeddings=True)
    yield "gemma2_labels", transformers.Gemma2Config(**SMALL, head_dim=8, num_labels=4)
    yield "gpt2_labels", transformers.GPT2Config(vocab_size=96, n_embd=16, n_layer=2, n_head=4, n_positions=128, num_labels=2,
                                                 pad_token_id=95)
    yield "neox_labels", transformers.GPTNeoXConfig(vocab_size=96, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                                                    num_attention_heads=4, max_position_embeddings=128, num_labels=2,
                                                    pad_token_id=1, rotary_pct=0.5)


def randomise(model):
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(1 + noise / 8 if p.ndim == 1 and "bias" not in name else noise / (2 if "score" in name else 4))


def texts(pad):
    draw = torch.Generator().manual_seed(3)
    for length in (1, 5, 12, 33):
        ids = torch.randint(2, 90, (length,), generator=draw).tolist()
        yield ids
        if pad is not None:
            yield ids + [pad] * 3
            yield ids[:1] + [pad] + ids[1:]


def record(model, ids):
    with torch.no_grad():
        return [round(x, 6) for x in model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].tolist()]


def save(model, name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    return folder


def classifiers():
    for name, config in configs():
        model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
        randomise(model)
        save(model, name)
        yield {"name": name, "n": config.num_labels, "head": "score", "alone": True,
               "cases": [{"ids": ids, "values": record(model, ids)} for ids in texts(config.pad_token_id)]}


def value_head():
    config = transformers.LlamaConfig(**SMALL, pad_token_id=None)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    randomise(model)
    draw = torch.Generator().manual_seed(11)
    weight, bias = torch.randn((1, 16), generator=draw) / 2, torch.randn((1,), generator=draw)
    folder = save(model, "llama_v_head")
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"v_head.summary.weight": weight, "v_head.summary.bias": bias}, folder / "model.safetensors",
              metadata={"format": "pt"})
    cases = []
    for ids in texts(None):
        with torch.no_grad():
            last = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
            value = torch.nn.functional.linear(last, weight, bias)[0, -1, 0].item()
        cases.append({"ids": ids, "values": [round(value, 6)]})
    return {"name": "llama_v_head", "n": 1, "head": "v_head.summary", "alone": False, "cases": cases}


def pocket_labels():
    shipped = json.loads((SHIPPED / "config.json").read_text())
    config = transformers.LlamaConfig(**(SMALL | dict(vocab_size=shipped["vocab_size"], max_position_embeddings=512)), num_labels=2,
                                      pad_token_id=None, id2label={0: "dull", 1: "lively"})
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
    randomise(model)
    save(model.to(torch.bfloat16), "pocket_labels")


def main():
    models = [*classifiers(), value_head()]
    pocket_labels()
    (HERE / "values.json").write_text(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__,
                                                  "models": models}, indent=None, separators=(", ", ": ")) + "\n")


main()
