"""make_steer.py - records tests/steer/cases.json: what transformers says when PyTorch hooks edit hidden states.

    make_steer.py GOLDEN_FOLDER > cases.json

Models are those of GOLDEN_FOLDER; transformers 5.3.0, torch 2.9.1, float32. A case has the ids, the edits as
cadenza/ext/steer.h says them, and the logits of the last position. A call with a vector v keeps h's part along v to `scale`
lengths of v, one without keeps h's norm to `scale`. Vectors are drawn once for each model and kept in
multiples of 1/64, so that text holds them exactly."""
import json
import sys

import torch
import transformers

FOLDER = sys.argv[1]
ADD, REPLACE, SCALE, PROJECT_OUT, CALL = "add", "replace", "scale", "project_out", "call"

# Where a family keeps a layer's parts; None: it has no module of its own for it.
LIKE_LLAMA = ("model.layers", "self_attn", "mlp", "model.embed_tokens")
MODELS = {
    "llama_gqa": LIKE_LLAMA, "gemma2": LIKE_LLAMA, "qwen3": LIKE_LLAMA, "cohere": LIKE_LLAMA,
    "mixtral": ("model.layers", "self_attn", "mlp", "model.embed_tokens"),
    "phi": LIKE_LLAMA,
    "gpt2": ("transformer.h", "attn", "mlp", None),
    "mamba2": ("backbone.layers", "mixer", None, "backbone.embeddings"),
    "lfm2": ("model.layers", None, "feed_forward", "model.embed_tokens"),
}
SCALES_EMBEDDING = {"gemma2"}


def at(module, path):
    for name in path.split("."):
        module = module[int(name)] if name.isdigit() else getattr(module, name)
    return module


def changed(h, edit, vector):
    """h (positions, width), float32, from the edit's first position to its last."""
    part = h[edit["from"]:edit.get("to") or None]
    v = vector * torch.tensor(edit["scale"], dtype=torch.float32) if vector is not None else None
    if edit["op"] == ADD:
        new = part + v
    elif edit["op"] == REPLACE:
        new = v.expand_as(part)
    elif edit["op"] == SCALE:
        new = part * (v if v is not None else edit["scale"])
    elif edit["op"] == CALL and vector is None:
        new = part * (edit["scale"] / part.norm(dim=-1, keepdim=True)).clamp(max=1)
    elif edit["op"] == CALL:
        new = part - ((part @ vector) / vector.dot(vector) - edit["scale"]).clamp(min=0)[:, None] * vector
    else:
        unit = vector / vector.norm()
        new = part - edit["scale"] * (part @ unit)[:, None] * unit
    h[edit["from"]:edit.get("to") or None] = new


def hook(edit, vector):
    def run(_module, _inputs, out):
        h = (out[0] if isinstance(out, tuple) else out).clone()
        changed(h[0], edit, vector)
        return (h, *out[1:]) if isinstance(out, tuple) else h
    return run


def record(model, name, ids, edits, vectors):
    layers, attention, mlp, embed = MODELS[name]
    handles = []
    for edit in edits:
        place = edit["place"]
        layer = at(model, layers)[edit["layer"]]
        module = {"block": lambda: layer, "attention": lambda: at(layer, attention), "mlp": lambda: at(layer, mlp),
                  "embedding": lambda: at(model, embed)}[place]()
        vector = torch.tensor(vectors[edit["vector"]]) if "vector" in edit else None
        handles.append(module.register_forward_hook(hook(edit, vector)))
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
    for handle in handles:
        handle.remove()
    return [round(x, 6) for x in logits.tolist()]


def main():
    torch.manual_seed(20)
    torch.set_num_threads(1)
    out = {"transformers": transformers.__version__, "torch": torch.__version__, "models": []}
    for name, (_, attention, mlp, embed) in MODELS.items():
        model = transformers.AutoModelForCausalLM.from_pretrained(
            f"{FOLDER}/{name}", dtype=torch.float32, attn_implementation="eager").eval()
        width, depth = model.config.hidden_size, model.config.num_hidden_layers
        vectors = [(torch.randint(-64, 65, (width,)) / 64).tolist() for _ in range(3)]
        ids = torch.randint(3, 200, (11,)).tolist()
        last = depth - 1
        sets = [[],
                [dict(layer=0, place="block", op=ADD, scale=1.5, vector=0)],
                [dict(layer=last, place="block", op=ADD, scale=-0.75, vector=1)],
                [dict(layer=1, place="block", op=REPLACE, scale=2.0, vector=2, **{"from": 4, "to": 7})],
                [dict(layer=1, place="block", op=PROJECT_OUT, scale=1.0, vector=0)],
                [dict(layer=l, place="block", op=SCALE, scale=0.5) for l in range(depth)],
                [dict(layer=1, place="block", op=SCALE, scale=1.25, vector=1, **{"from": 3})]]
        if attention:
            sets += [[dict(layer=1, place="attention", op=SCALE, scale=0.0, **{"from": 2, "to": 9})],
                     [dict(layer=0, place="attention", op=ADD, scale=0.5, vector=2)]]
        if mlp:
            sets += [[dict(layer=last, place="mlp", op=SCALE, scale=0.0)],
                     [dict(layer=0, place="mlp", op=PROJECT_OUT, scale=1.0, vector=1)],
                     [dict(layer=0, place="mlp", op=REPLACE, scale=1.0, vector=0, **{"from": 10}),
                      dict(layer=1, place="block", op=ADD, scale=0.25, vector=2),
                      dict(layer=1, place="block", op=PROJECT_OUT, scale=0.5, vector=0)]]
        if embed and name not in SCALES_EMBEDDING:
            sets += [[dict(layer=0, place="embedding", op=ADD, scale=1.0, vector=0, **{"from": 1, "to": 2})]]
        sets += [[dict(layer=l, place="block", op=CALL, scale=1.5) for l in range(depth)],
                 [dict(layer=0, place="block", op=CALL, scale=-0.05, vector=0, **{"from": 2, "to": 9}),
                  dict(layer=0, place="block", op=ADD, scale=0.5, vector=1, **{"from": 5}),
                  dict(layer=0, place="block", op=CALL, scale=0.75)]]
        if mlp:
            sets += [[dict(layer=1, place="mlp", op=CALL, scale=0.01, vector=2),
                      dict(layer=last, place="mlp", op=CALL, scale=0.25, **{"from": 4})]]
        cases = []
        for edits in sets:
            for edit in edits:
                edit.setdefault("from", 0)
            cases.append({"edits": edits, "logits": record(model, name, ids, edits, vectors)})
        out["models"].append({"name": name, "ids": ids, "vectors": vectors, "cases": cases})
    json.dump(out, sys.stdout)
    print()


main()
