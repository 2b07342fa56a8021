"""make_control.py - records tests/steer/control.json: control vectors of the shipped model by numpy and PyTorch hooks.

    make_control.py models/pocket-dictionary > control.json

transformers 5.3.0, torch 2.9.1, float32. direction N is the difference that layer N, counted from 0, leaves behind the last
token of the texts: of the means; or the first right singular vector of the differences line by line, times their mean
along it. The logits are those of a prompt's last position with the sum of both, scaled, added to what the layers leave."""
import json
import sys

import numpy as np
import torch
import transformers

FOLDER = sys.argv[1]
POSITIVE = ["river (noun): a large", "dog (noun): a big", "house (noun): a great", "tree (noun): a huge"]
NEGATIVE = ["river (noun): a small", "dog (noun): a little", "house (noun): a tiny", "tree (noun): a minute"]
PROMPT, SCALE_OF_MEAN, SCALE_OF_PCA = "cat (noun): a", 0.25, -0.125


def main():
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
    layers = range(1, model.config.num_hidden_layers - 1)

    def states(text):
        with torch.no_grad():
            out = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True, use_cache=False)
        return np.stack([out.hidden_states[layer + 1][0, -1].numpy().astype(np.float64) for layer in layers])

    positive, negative = (np.stack([states(text) for text in texts]) for texts in (POSITIVE, NEGATIVE))
    mean = positive.mean(axis=0) - negative.mean(axis=0)
    pca = []
    for at in range(len(layers)):
        differences = positive[:, at] - negative[:, at]
        v = np.linalg.svd(differences, full_matrices=False)[2][0]
        pca.append(v * (differences @ v).mean())

    def add(direction):
        return lambda _module, _inputs, out: (out[0] + direction, *out[1:]) if isinstance(out, tuple) else out + direction

    for at, layer in enumerate(layers):
        both = mean[at].astype(np.float32) * SCALE_OF_MEAN + pca[at].astype(np.float32) * SCALE_OF_PCA
        model.model.layers[layer].register_forward_hook(add(torch.tensor(both, dtype=torch.float32)))
    with torch.no_grad():
        logits = model(**tokenizer(PROMPT, return_tensors="pt"), use_cache=False).logits[0, -1]
    print("{" + ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in {
        "transformers": transformers.__version__, "torch": torch.__version__, "positive": POSITIVE, "negative": NEGATIVE,
        "mean": [[round(x, 5) for x in row] for row in mean.tolist()],
        "pca": [[round(x, 5) for x in row] for row in np.stack(pca).tolist()],
        "prompt": PROMPT, "scale_of_mean": SCALE_OF_MEAN, "scale_of_pca": SCALE_OF_PCA,
        "logits": [round(x, 5) for x in logits.tolist()]}.items()) + "}")


main()
