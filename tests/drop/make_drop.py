"""make_drop.py - records tests/drop/cases.json: what transformers says after positions were taken out of its cache.

    make_drop.py GOLDEN_FOLDER > cases.json

Models are those of GOLDEN_FOLDER; transformers 5.3.0, torch 2.9.1, float32. A case reads ids in pieces with a DynamicCache; behind
each piece but the last some positions are cut out of its keys and values. With "renumber" what is left is turned to the positions
0, 1, 2 and so on, and later tokens go on behind it; else every position stays what it was. Recorded are 100 logits of the
last position, every fourth key and value of one layer and head, and what the last query's last head there gives to all that is left."""
import json
import sys

import torch
import transformers

FOLDER = sys.argv[1]
N = 72
MODELS = ["llama_gqa", "qwen3", "phi", "gptj", "gpt2"]
# Of each drop: positions read by then, from, to.
SETS = [[(40, 4, 24)],
        [(40, 0, 33)],
        [(33, 8, 9), (34, 9, 20), (64, 25, 60)],
        [(20, 2, 20), (50, 1, 40)]]


def turning(model, name):
    """Frequencies, whether pairs are neighbours, and how many numbers of a head turn."""
    config = model.config
    if name == "gptj":
        n = config.rotary_dim
        return 1.0 / (10000 ** (torch.arange(0, n, 2, dtype=torch.float64) / n)), True
    return model.model.rotary_emb.inv_freq.to(torch.float64), False


def turn(keys, by, freq, neighbours):
    """keys (heads, n, d), by (n) places."""
    angle = by[:, None].to(torch.float64) * freq
    c, s = angle.cos(), angle.sin()
    k, out = keys.to(torch.float64), keys.to(torch.float64).clone()
    half = len(freq)
    if neighbours:
        x, y = k[..., 0:2 * half:2], k[..., 1:2 * half:2]
        out[..., 0:2 * half:2], out[..., 1:2 * half:2] = x * c - y * s, y * c + x * s
    else:
        x, y = k[..., :half], k[..., half:2 * half]
        out[..., :half], out[..., half:2 * half] = x * c - y * s, y * c + x * s
    return out.to(keys.dtype)


def record(model, name, ids, drops, renumber):
    cache = transformers.DynamicCache()
    held, place, read = [], [], 0  # positions that are there; where their keys are turned to
    for at, cut_from, cut_to in [*drops, (N, 0, 0)]:
        first = (place[-1] + 1 if place else 0) if renumber else read
        new = list(range(first, first + at - read))
        with torch.no_grad():
            out = model(torch.tensor([ids[read:at]]), past_key_values=cache, use_cache=True,
                        position_ids=torch.tensor([new]), output_attentions=True)
        held, place, read = held + list(range(read, at)), place + new, at
        keep = [i for i, p in enumerate(held) if not cut_from <= p < cut_to]
        held, place = [held[i] for i in keep], [place[i] for i in keep]
        by = torch.arange(len(place)) - torch.tensor(place, dtype=torch.int64)
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[:, :, keep], layer.values[:, :, keep]
            if renumber and at < N:
                layer.keys = turn(layer.keys[0], by, *turning(model, name))[None]
        if renumber and at < N:
            place = list(range(len(place)))
    layer, head = len(cache.layers) - 1, cache.layers[0].keys.shape[1] - 1
    attention = out.attentions[layer][0, -1, -1].tolist()
    short = lambda rows: [[round(x, 5) for x in row] for row in rows.tolist()]
    return {"drops": drops, "renumber": renumber, "layer": layer, "head": head, "held": held,
            "keys": short(cache.layers[layer].keys[0, head, ::4]), "values": short(cache.layers[layer].values[0, head, ::4]),
            "attention": [round(x, 6) for x in attention], "logits": [round(x, 5) for x in out.logits[0, -1, :100].tolist()]}


def plain(model, ids):
    """What the cache holds of some ids: keys and values by layer, head and position."""
    with torch.no_grad():
        cache = model(torch.tensor([ids]), use_cache=True).past_key_values
    flat = lambda which: [[round(x, 5) for x in getattr(layer, which)[0].flatten().tolist()] for layer in cache.layers]
    return {"ids": ids, "keys": flat("keys"), "values": flat("values")}


def main():
    torch.manual_seed(24)
    torch.set_num_threads(1)
    models = []
    for name in MODELS:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            f"{FOLDER}/{name}", dtype=torch.float32, attn_implementation="eager").eval()
        ids = torch.randint(3, min(200, model.config.vocab_size), (N,)).tolist()
        models.append({"name": name, "ids": ids, "plain": plain(model, ids[:7]),
                       "cases": [record(model, name, ids, drops, renumber) for drops in SETS
                                 for renumber in ((False, True) if name != "gpt2" else (False,))]})
    head = {"transformers": transformers.__version__, "torch": torch.__version__}
    print(json.dumps({**head, "models": models}).replace('{"drops"', '\n{"drops"').replace('{"name"', '\n{"name"'))


main()
