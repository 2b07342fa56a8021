"""Writes ../sentencepiece_*: folders with a SentencePiece model and no tokenizer.json, and what the reference makes of them.

    python make_sentencepiece.py --corpus FOLDER [NAME ...]

Needs what build.py needs; --corpus: UTF-8 text files to train on.

PegasusTokenizer and NllbTokenizer of 5.3.0 number the pieces of a bare SentencePiece model as the file has them, and NllbTokenizer knows no languages then:
not as the models were trained, nor as the published tokenizer.json files are. Those two classes are given the vocabulary that such a file has."""
import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sentencepiece  # noqa: E402
from tokenizers import AddedToken, models  # noqa: E402
from build import corpus_lines, write_cases  # noqa: E402
from transformers import AutoTokenizer, NllbTokenizer, PegasusTokenizer  # noqa: E402
from transformers.convert_slow_tokenizer import SentencePieceExtractor  # noqa: E402
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES  # noqa: E402

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
    "mbart": ("sentencepiece.bpe.model", {"model_type": "unigram", "rules": RULES}, {"tokenizer_class": "MBartTokenizer"}),
    "mbart50": ("sentencepiece.bpe.model", {"model_type": "unigram", "rules": RULES}, {"tokenizer_class": "MBart50Tokenizer", "src_lang": "de_DE"}),
    "pegasus": ("spiece.model", {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "rules": RULES, "user_defined_symbols": ["<n>"]}, {
        "tokenizer_class": "PegasusTokenizer"}),
    "nllb": ("sentencepiece.bpe.model", {"model_type": "bpe", "rules": RULES}, {"tokenizer_class": "NllbTokenizer", "src_lang": "deu_Latn"}),
    "nllb_old": ("sentencepiece.bpe.model", {"model_type": "bpe", "rules": RULES}, {"tokenizer_class": "NllbTokenizer", "legacy_behaviour": True}),
}


def pegasus(proto, merges, config):
    front = [("<pad>", 0.0), ("</s>", 0.0), ("<mask_1>", 0.0), ("<mask_2>", 0.0)] + [(f"<unk_{i}>", -100.0) for i in range(2, 103)]
    tok = PegasusTokenizer(vocab=front + [(p.piece, p.score) for p in proto.pieces[2:]], _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap)
    tok.add_tokens([AddedToken(p.piece, normalized=False) for p in proto.pieces if p.type == 4])
    return tok


def nllb(proto, merges, config):
    front = ["<s>", "<pad>", "</s>", "<unk>"]
    tokens = front + [p.piece for p in proto.pieces if p.piece not in front] + FAIRSEQ_LANGUAGE_CODES + ["<mask>"]
    return NllbTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
                         src_lang=config.get("src_lang"), legacy_behaviour=config.get("legacy_behaviour", False))


def reference(folder, file, config):
    make = {"PegasusTokenizer": pegasus, "NllbTokenizer": nllb}.get(config["tokenizer_class"])
    if not make:
        return AutoTokenizer.from_pretrained(folder)
    extractor = SentencePieceExtractor(os.path.join(folder, file))
    return make(extractor.proto, extractor.extract(models.BPE)["merges"], config)


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
    parser.add_argument("names", nargs="*", default=list(FOLDERS))
    args = parser.parse_args()
    corpus = [line.rstrip("\n") for line in corpus_lines(args.corpus, 20000)]
    for name in args.names:
        file, options, config = FOLDERS[name]
        folder = os.path.join(HERE, "..", "sentencepiece_" + name)
        os.makedirs(folder, exist_ok=True)
        train(os.path.join(folder, file), corpus, **options)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            json.dump(config, f, indent=1)
        with tempfile.TemporaryDirectory() as made:
            reference(folder, file, config)._tokenizer.save(os.path.join(made, "tokenizer.json"))
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
