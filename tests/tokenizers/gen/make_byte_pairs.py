"""Writes ../pairs_*: folders with vocab.json and merges.txt and no tokenizer.json, and what the reference makes of them.

    python make_byte_pairs.py [NAME ...]

Needs what build.py needs. The vocabulary is that of ../gpt2. BlenderbotTokenizer of 5.3.0 puts no end behind a text, unlike what its
documentation shows and its models were trained on: it is given the processor that BlenderbotConverter has."""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import texts  # noqa: E402
from tokenizers import processors  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
PLAIN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
MASK = {**PLAIN, "content": "<mask>", "lstrip": True, "normalized": True}
# Tokens before the vocabulary, model_type, and the files beside.
FOLDERS = {
    "blenderbot": (FAIRSEQ, "blenderbot", {"tokenizer_config.json": {"tokenizer_class": "BlenderbotTokenizer"}}),
    "bart": (FAIRSEQ, "bart", {
        "special_tokens_map.json": {"bos_token": "<s>", "mask_token": MASK, "additional_special_tokens": ["<third>", "<s>"]},
        "added_tokens.json": {"<other>": 1005, "<new>": 1004}}),
    "opt": (FAIRSEQ, "opt", {"tokenizer_config.json": {
        "tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": False, "bos_token": {"__type": "AddedToken", **PLAIN, "content": "</s>"},
        "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}}),
    "qwen2": ([], "qwen2", {"tokenizer_config.json": {
        "tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<new>", "extra_special_tokens": ["<third>"],
        "added_tokens_decoder": {"1000": {**PLAIN, "content": "<|endoftext|>", "special": True}, "1001": {**PLAIN, "content": "<new>", "special": True},
                                 "1002": {**PLAIN, "content": "<other>", "special": False, "rstrip": True, "single_word": True}}}}),
}


def write_folder(folder, before, model_type, files):
    with open(os.path.join(HERE, "..", "gpt2", "tokenizer.json")) as f:
        model = json.load(f)["model"]
    vocab = {t: i for i, t in enumerate(before + [t for t in model["vocab"] if t not in before])}
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "\n".join(merges) + "\n")
    for name, value in {"vocab.json": vocab, "config.json": {"model_type": model_type}, **files}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f, ensure_ascii=False)


def main():
    for name in sys.argv[1:] or FOLDERS:
        folder = os.path.join(HERE, "..", "pairs_" + name)
        write_folder(folder, *FOLDERS[name])
        tok = AutoTokenizer.from_pretrained(folder)
        if name == "blenderbot":
            tok._tokenizer.post_processor = processors.TemplateProcessing(single="$A:0 </s>:0", special_tokens=[("</s>", tok.eos_token_id)])
        cases = []
        for kind, text in texts.all_texts(["<s>", "</s>", "<mask>", "<new>", "<other>", "<third>"], 17, 20):
            if len(text) > 400:
                continue
            ids = tok(text)["input_ids"]
            cases.append({"kind": kind, "text": text, "ids": ids, "ids_no_special": tok(text, add_special_tokens=False)["input_ids"],
                          "decoded": tok.decode(ids), "decoded_skip_special": tok.decode(ids, skip_special_tokens=True)})
        with open(os.path.join(folder, "cases.json"), "w") as f:
            json.dump(cases, f, separators=(",", ":"))
        print(name, len(cases))


if __name__ == "__main__":
    main()
