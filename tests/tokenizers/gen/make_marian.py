"""Writes ../marian: source.spm, target.spm and vocab.json as MarianTokenizer reads them, and what it makes of texts.

    python make_marian.py --corpus FOLDER

Needs transformers 5.3.0 and sentencepiece, no sacremoses; --corpus: UTF-8 text files to train the source's model on. The target's is trained
on the sentences of texts.py. vocab.json has the pieces of both, a language code, and all in the order of their texts, as marian writes it."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sentencepiece  # noqa: E402
import texts  # noqa: E402
from build import corpus_lines  # noqa: E402
from make_sentencepiece import RULES, train  # noqa: E402
from transformers import MarianTokenizer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = {"model_type": "unigram", "unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1, "rules": RULES, "hard_vocab_limit": False}


def pieces(path):
    p = sentencepiece.SentencePieceProcessor()
    p.Load(path)
    return [p.IdToPiece(i) for i in range(p.GetPieceSize())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    corpus = [line.rstrip("\n") for line in corpus_lines(parser.parse_args().corpus, 20000)]
    folder = os.path.join(HERE, "..", "marian")
    os.makedirs(folder, exist_ok=True)
    source, target = (os.path.join(folder, n) for n in ("source.spm", "target.spm"))
    train(source, [x for x in corpus if x.isascii()], vocab_size=400, **OPTIONS)
    train(target, [t for t in texts.PANGRAMS if t.strip()] * 20, vocab_size=500, **OPTIONS)
    every = sorted((set(pieces(source)) | set(pieces(target))) - {"</s>", "<unk>"}) + [">>fra<<"]
    vocab = {t: i for i, t in enumerate(["</s>", "<unk>"] + every + ["<pad>"])}
    json.dump(vocab, open(os.path.join(folder, "vocab.json"), "w"), ensure_ascii=False)
    json.dump({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr", "unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))
    tok = MarianTokenizer.from_pretrained(folder)
    cases = []
    more = [("code", ">>fra<< The quick brown fox."), ("code", ">>fra<<Quick"), ("unknown", "Stra\u00dfe na\u00efve \u0416\u0443\u043a \u0416 a\u0416b")]
    for kind, text in more + texts.all_texts(["</s>", "<pad>"], 13, 20):
        if len(text) <= 400 and "\u2581" not in text:  # that one is docs/departures.md's
            ids = tok(text)["input_ids"]
            cases.append({"kind": kind, "text": text, "ids": ids, "ids_no_special": tok(text, add_special_tokens=False)["input_ids"],
                          "decoded_skip_special": tok.decode(ids, skip_special_tokens=True)})
    json.dump(cases, open(os.path.join(folder, "cases.json"), "w"), separators=(",", ":"))
    print(len(vocab), len(cases))


if __name__ == "__main__":
    main()
