"""Writes ../sentencepiece_*: folders with a SentencePiece model and no tokenizer.json, and what the reference makes of them.

    python make_sentencepiece.py --corpus FOLDER

Needs what build.py needs; --corpus: UTF-8 text files to train on."""
import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sentencepiece  # noqa: E402
from build import corpus_lines, write_cases  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
# A map of characters of our own: the usual ones take 240 KB.
RULES = {"\ufb01": "fi", "\uff76": "\u30ab", "\u2160": "I", "A\u0300": "\u00c0", "\u00a0": " ", "\t": " ", "\n": " ", "\u00ad": ""}
BPE = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
NAMES = {"unk_id": 3, "bos_id": 2, "eos_id": 1, "pad_id": 0, "unk_piece": "<unk>", "bos_piece": "<bos>", "eos_piece": "<eos>", "pad_piece": "<pad>"}
NEW = {"content": "<new>", "special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
FOLDERS = {
    "llama": ("tokenizer.model", {**BPE, "split_digits": True}, {
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None, "add_bos_token": True}),
    "llama_old": ("tokenizer.model", {**BPE, **NAMES, "user_defined_symbols": ["<sep>", "  "], "control_symbols": ["<ctl>"]}, {
        "tokenizer_class": "LlamaTokenizer", "legacy": True, "bos_token": {"__type": "AddedToken", **NEW, "content": "<bos>"}, "eos_token": "<eos>",
        "unk_token": "<unk>", "pad_token": "<pad>", "add_bos_token": True, "add_eos_token": True,
        "added_tokens_decoder": {"1000": NEW}}),
    "gemma": ("tokenizer.model", {**BPE, **NAMES, "add_dummy_prefix": False, "user_defined_symbols": ["<sep>", "  "]}, {
        "tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>", "add_bos_token": True}),
    "t5": ("spiece.model", {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "rules": RULES}, {
        "tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 7}),
}


def train(path, corpus, rules=None, vocab_size=1000, **options):
    with tempfile.TemporaryDirectory() as folder:
        if rules:
            options["normalization_rule_tsv"] = os.path.join(folder, "rules.tsv")
            with open(options["normalization_rule_tsv"], "w") as f:
                for a, b in rules.items():
                    f.write("\t".join(" ".join(f"{ord(c):X}" for c in s) for s in (a, b)) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_prefix=os.path.join(folder, "m"), vocab_size=vocab_size, character_coverage=0.98, minloglevel=2, num_threads=1, **options)
        shutil.copy(os.path.join(folder, "m.model"), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    corpus = [line.rstrip("\n") for line in corpus_lines(parser.parse_args().corpus, 20000)]
    for name, (file, options, config) in FOLDERS.items():
        folder = os.path.join(HERE, "..", "sentencepiece_" + name)
        os.makedirs(folder, exist_ok=True)
        train(os.path.join(folder, file), corpus, **options)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump(config, f, indent=1)
        with tempfile.TemporaryDirectory() as made:
            AutoTokenizer.from_pretrained(folder)._tokenizer.save(os.path.join(made, "tokenizer.json"))
            shutil.copy(os.path.join(folder, "tokenizer_config.json"), made)
            write_cases(made, 11, nfuzz=20, pairs=False)
            shutil.copy(os.path.join(made, "facts.json"), folder)
            with open(os.path.join(made, "cases.json")) as f:
                cases = [c for c in json.load(f) if len(c["text"]) <= 400] # the long ones are the other folders'
            with open(os.path.join(folder, "cases.json"), "w") as f:
                json.dump(cases, f, separators=(",", ":"))
            print(name, len(cases))


if __name__ == "__main__":
    main()
