"""Writes ../m2m100_*: sentencepiece.bpe.model and vocab.json as M2M100Tokenizer reads them, and what it makes of texts.

    python make_m2m100.py --corpus FOLDER

Needs transformers 5.3.0 and sentencepiece; --corpus: UTF-8 text files to train on. vocab.json has the pieces in another order, without some that are
found in texts, and with some that the model lacks."""
import argparse
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import texts  # noqa: E402
from build import corpus_lines  # noqa: E402
from make_marian import pieces  # noqa: E402
from make_sentencepiece import RULES, train  # noqa: E402
from transformers import M2M100Tokenizer  # noqa: E402
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LISTED = [f"__{x}__" for x in FAIRSEQ_LANGUAGE_CODES["m2m100"]]
# Published checkpoints list their languages as special tokens; without a list they are ordinary text.
FOLDERS = {
    "bpe": ("bpe", {"tokenizer_class": "M2M100Tokenizer", "src_lang": "de", "tgt_lang": None, "additional_special_tokens": LISTED}),
    "unigram": ("unigram", {"tokenizer_class": "M2M100Tokenizer"}),
    "wmt21": ("bpe", {"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21", "src_lang": "is"}),
}


def write_folder(folder, kind, config, corpus):
    os.makedirs(folder, exist_ok=True)
    model = os.path.join(folder, "sentencepiece.bpe.model")
    train(model, corpus, model_type=kind, rules=RULES)
    front = ["<s>", "<pad>", "</s>", "<unk>"]
    every = [p for p in pieces(model) if p not in front]
    random.Random(5).shuffle(every)
    gone = [p for p in every if len(p) in (2, 3)][:12]
    vocab = {t: i for i, t in enumerate(front + [p for p in every if p not in gone] + ["extra", "\u2581extra"])}
    json.dump(vocab, open(os.path.join(folder, "vocab.json"), "w"))
    json.dump(config, open(os.path.join(folder, "tokenizer_config.json"), "w"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    corpus = [line.rstrip("\n") for line in corpus_lines(parser.parse_args().corpus, 20000)]
    for name, (kind, config) in FOLDERS.items():
        folder = os.path.join(HERE, "..", "m2m100_" + name)
        write_folder(folder, kind, config, corpus)
        tok = M2M100Tokenizer.from_pretrained(folder)
        cases = []
        for what, text in texts.all_texts(["</s>", "<pad>", "__de__", "__fr__"], 19, 20):
            if len(text) > 400 or "\u2581" in text:  # that one is docs/departures.md's
                continue
            ids = tok(text)["input_ids"]
            cases.append({"kind": what, "text": text, "ids": ids, "ids_no_special": tok(text, add_special_tokens=False)["input_ids"],
                          "decoded": tok.decode(ids), "decoded_skip_special": tok.decode(ids, skip_special_tokens=True)})
        json.dump(cases, open(os.path.join(folder, "cases.json"), "w"), separators=(",", ":"))
        print(name, len(tok), len(cases))


if __name__ == "__main__":
    main()
