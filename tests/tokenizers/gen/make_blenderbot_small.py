"""Writes ../words_blenderbot_small: vocab.json and merges.txt of BlenderbotSmallTokenizer, trained here, and what the reference makes of them.

    python make_blenderbot_small.py

Needs what build.py needs. Some tokens that merges make are left out of the vocabulary, as in the published one: they are unknown."""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import texts  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "words_blenderbot_small")
SPECIAL = ["__null__", "__start__", "__end__", "__unk__"]
SIZE, EVERY = 900, 17
PLAIN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True}
SETTINGS = {"tokenizer_class": "BlenderbotSmallTokenizer", "added_tokens_decoder": {
    "0": {**PLAIN, "content": "__null__", "special": True}, "1": {**PLAIN, "content": "__start__", "special": True},
    "2": {**PLAIN, "content": "__end__", "special": True}, "3": {**PLAIN, "content": "__unk__", "special": True}},
    "extra_special_tokens": ["<Third>"]}
ODD = [
    "", " ", "\n", "\n\n", "a\n", "a\nb", "a \n b", "a\n\nb", "a.\nb", "don't\n", "it's 'quoted'\n'\nyes", "''''", "'.'", "...", "?!.,()", "(a)(b).c",
    "Hello, WORLD! How are you?", "a@@ b@@", "@@", "x@@y", "</w>", "a</w> b", "__newln__", "__NEWLN__ x", "__start__hi__end__", "__start__ hi __end__",
    "hi\n__end__\nthere", "__START__ __Unk__", "<Third>a", "a<Third>\nb", "<third>", "\u0391\u03a3 \u039f\u0394\u039f\u03a3. \u03a3\u0391\u03a3\u0391 \u03a3 \u0391\u03a31 \u0391\u03a3\u0391",
    "\u0391\u03a3'\u0391 \u0391\u03a3.\u0391 \u0391\u03a3:\u0391 \u0391\u0301\u03a3\u0301 \u0391\u03a3\u0301\u0391 \u0391\u03a3\u2019\u0391", "\u0130stanbul I\u0307 \u01c5 \u1e9e \u03f4 \u2126", "a\x1cb a\x85b a\xa0b\n",
    "tab\tand\r\nreturn\r", "\ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e", "caf\u00e9 cafe\u0301 \U0001f600\U0001f468\u200d\U0001f469", "-'-", "end'", "'\n", "a'\nb", "a,\n,b", "\u3000x\u2028y",
]


def train(sentences):
    tok = Tokenizer(models.BPE(unk_token="__unk__", end_of_word_suffix="</w>"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tok.train_from_iterator(sentences, trainers.BpeTrainer(vocab_size=SIZE, limit_alphabet=150, end_of_word_suffix="</w>", special_tokens=["__unk__"], show_progress=False))
    model = json.loads(tok.to_str())["model"]
    return model["vocab"], [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]


def as_words(text):
    text = re.sub(r"(?<=[^\s'])\n", " __newln__ ", text).lower()
    return re.sub(r"'", " ' ", re.sub(r"([.,!?()])", r" \1", text))


def spell(symbol):
    return symbol[:-4] if symbol.endswith("</w>") else symbol + "@@"


def write_folder():
    sentences = [as_words(t) for _, t in texts.all_texts(SPECIAL, 5, 40)] + ["__newln__"] * 500
    vocab, merges = train(sentences)
    made = {m.replace(" ", "") for m in merges}
    names = [spell(s) for i, s in enumerate(vocab) if s != "__unk__" and not (s in made and i % EVERY == 0)]
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    with open(os.path.join(FOLDER, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "\n".join(merges) + "\n")
    numbered = {t: i for i, t in enumerate(dict.fromkeys(SPECIAL + names))}
    for name, value in {"vocab.json": numbered, "config.json": {"model_type": "blenderbot-small"}, "tokenizer_config.json": SETTINGS}.items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
            json.dump(value, f, ensure_ascii=False)


def main():
    write_folder()
    tok = AutoTokenizer.from_pretrained(FOLDER)
    assert type(tok).__name__ == "BlenderbotSmallTokenizer", type(tok)
    cases = []
    for kind, text in [("odd", t) for t in ODD] + list(texts.all_texts(SPECIAL + ["<Third>"], 17, 20)):
        if len(text) > 400:
            continue
        ids = tok(text)["input_ids"]
        cases.append({"kind": kind, "text": text, "ids": ids, "ids_no_special": tok(text, add_special_tokens=False)["input_ids"],
                      "decoded": tok.decode(ids), "decoded_skip_special": tok.decode(ids, skip_special_tokens=True)})
    with open(os.path.join(FOLDER, "cases.json"), "w") as f:
        json.dump(cases, f, separators=(",", ":"))
    print(len(cases), len(tok), sum(3 in c["ids"] for c in cases), "cases with an unknown token")


if __name__ == "__main__":
    main()
